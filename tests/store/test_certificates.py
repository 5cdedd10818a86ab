"""A row is verified by certificates about what it measured, and by no others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from paceline.analysis.rows.table_rows import table_rows
from paceline.bundles.exporting import export_bundle
from paceline.bundles.importing import import_bundle
from paceline.bundles.selection import certificate_name
from paceline.plan.cell import Cell
from paceline.store import certificates
from paceline.store.records.certificate import Certificate
from paceline.store.store import Store
from paceline.system.errors import UserError
from paceline.system.files.atomic_files import write_json
from tests.bundles.made import ALL, certificate, filled
from tests.factories.command_line import CommandLine
from tests.factories.machines import machine
from tests.factories.runs import CELL, cell, on_devices, record, save_plan, save_run, trained

TWO = on_devices(2)
SERVER = on_devices(2, update="parameter_server", parameter_device="cpu")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "results")


def here(**changes: Any) -> Certificate:
    """Equal on one device of this machine, or with some fields changed."""
    return certificate(on=machine(), **changes)


def verified(store: Store, *measured: Cell) -> list[bool]:
    """Whether the row of each of these cells is."""
    save_plan(store, {of: [f"key-{place}"] for place, of in enumerate(measured)})
    for place, of in enumerate(measured):
        save_run(store, record(f"run-{place}", f"key-{place}", of), [trained(100, 1.0)] * of.device_set.count)
    return [row.verified for row in table_rows(store, {})]


def keep(store: Store, *given: Certificate) -> None:
    for each in given:
        certificates.save(store.folder, each)


ON_TWO = {"devices": "2xcpu"}
UNEQUAL = on_devices(2, shares="2:1", batch_size=96)
WRAPPED = cell(wrapped=True)


def test_each_number_of_devices_needs_its_own_certificate(store: Store) -> None:
    keep(store, here())
    assert verified(store, CELL, TWO, on_devices(4)) == [True, False, False]
    keep(store, here(**ON_TWO))
    assert [row.verified for row in table_rows(store, {})] == [True, True, False]
    keep(store, here(**ON_TWO, equal=False))
    assert [row.verified for row in table_rows(store, {})] == [True, False, False]


def test_several_devices_prove_nothing_about_one(store: Store) -> None:
    keep(store, here(**ON_TWO))
    assert verified(store, CELL, TWO) == [False, True]


def test_certificate_on_processors_says_nothing_about_gpus(store: Store) -> None:
    keep(store, here(), here(**ON_TWO))
    card, cards = cell(devices="cuda:0"), cell(devices="cuda:0+cuda:1")
    assert verified(store, card, cards, CELL) == [False, False, True]


def test_certificate_on_gpus_says_nothing_about_processors_but_holds_for_other_cards_of_the_machine(
    store: Store,
) -> None:
    keep(store, here(devices="cuda:0"), here(devices="2xcuda"))
    assert verified(store, CELL, TWO, cell(devices="cuda:1"), cell(devices="cuda:0+cuda:2")) == [
        False,
        False,
        True,
        True,
    ]


def test_all_certificates_about_the_same_must_be_equal(store: Store) -> None:
    keep(store, here(devices="cuda:0"), here(devices="cuda:1", equal=False))
    assert verified(store, cell(devices="cuda:0")) == [False]


def test_each_update_is_judged_by_its_own_verdicts(store: Store) -> None:
    independent = on_devices(2, update="independent")
    keep(store, here(), here(**ON_TWO))
    assert verified(store, CELL, TWO, SERVER, independent) == [True, True, False, False]
    keep(store, here(**ON_TWO, update="parameter_server"))
    assert [row.verified for row in table_rows(store, {})] == [True, True, True, False]


def test_one_device_agrees_with_nobody_so_its_update_does_not_matter(store: Store) -> None:
    keep(store, here())
    assert verified(store, cell(update="parameter_server"), cell(update="independent")) == [True, True]


def test_copy_of_the_weights_elsewhere_needs_a_certificate_of_its_own(store: Store) -> None:
    keep(store, here(**ON_TWO, update="parameter_server"))
    on_device = on_devices(2, update="parameter_server", parameter_device="device")
    assert verified(store, SERVER, on_device) == [True, False]


def test_damaged_certificate_is_named(store: Store) -> None:
    keep(store, here(devices="bogus"))
    with pytest.raises(UserError, match=r"verified/.*\.json is damaged: .*bogus.*; delete it and run"):
        certificates.load(store.folder)


def test_wrapped_device_needs_a_certificate_that_was_wrapped(store: Store) -> None:
    server = cell(wrapped=True, update="parameter_server", parameter_device="cpu")
    keep(store, here(), here(**ON_TWO))
    assert verified(store, CELL, WRAPPED, server) == [True, False, False]
    keep(store, here(wrapped=True))
    assert [row.verified for row in table_rows(store, {})] == [True, True, False]
    keep(store, here(equal=False))
    assert [row.verified for row in table_rows(store, {})] == [False, True, False]


def test_shares_are_verified_as_they_were_divided(store: Store) -> None:
    keep(store, here(**ON_TWO))
    measured = on_devices(2, shares="measured")
    turned, same, even = (on_devices(2, shares=text, batch_size=96) for text in ("1:2", "4:2", "3:3"))
    assert verified(store, TWO, UNEQUAL, measured, turned, same, even) == [True, False, False, False, False, True]
    keep(store, here(**ON_TWO, shares="2:1"))
    assert [row.verified for row in table_rows(store, {})] == [True, True, False, False, True, True]


def test_what_counts_apart_is_kept_apart(store: Store) -> None:
    changes: tuple[dict[str, Any], ...] = (
        {},
        {"devices": "2xcpu"},
        {"devices": "1xcuda"},
        {"precision": "bfloat16"},
        {"devices": "2xcpu", "update": "parameter_server"},
        {"devices": "2xcpu", "shares": "2:1"},
        {"wrapped": True},
        {"wrapped": True, "update": "parameter_server"},
    )
    keep(store, *(here(**change) for change in changes))
    assert len(certificates.load(store.folder)) == len(changes)
    assert len({certificate_name(here(**change)) for change in changes}) == len(changes)


@pytest.mark.parametrize(
    "change",
    [
        {"worker_code": "beef"},
        {"fingerprint": "beef"},
        {"machine": "ffff0000"},
        {"precision": "bfloat16"},
        {"devices": "1xcuda"},
        {"wrapped": True},
        {"workload": "mnist-mlp"},
        {"framework": "torch"},
        {"equal": False},
    ],
    ids=lambda change: next(iter(change)),
)
def test_certificate_about_something_else_proves_nothing(store: Store, change: dict[str, Any]) -> None:
    keep(store, here(**change))
    assert verified(store, CELL) == [False]


def test_row_of_another_precision_is_not_verified(store: Store) -> None:
    keep(store, here())
    assert verified(store, CELL, cell(precision="bfloat16")) == [True, False]


def test_all_runs_of_a_row_must_be_proven(store: Store) -> None:
    keep(store, here())
    save_plan(store, {CELL: ["a", "b"]})
    save_run(store, record("run-a", "a"), [trained(100, 1.0)])
    newer = msgspec.structs.replace(record("run-b", "b", repeat=1), worker_code="beef")
    save_run(store, newer, [trained(100, 1.0)])
    assert [row.verified for row in table_rows(store, {})] == [False]


def test_certificate_from_before_updates_could_be_chosen_is_still_read(store: Store) -> None:
    kept = msgspec.to_builtins(here())
    for name in ("update", "precision", "shares", "wrapped"):
        del kept[name]
    path = store.folder / certificates.FOLDER / "cifar10-conv_fake_1xcpu.json"
    path.parent.mkdir(parents=True)
    write_json(path, kept)
    assert certificates.load(store.folder) == [here()]
    keep(store, here(equal=False))
    assert certificates.load(store.folder) == [here(equal=False)]  # in the same place


def test_names_of_usual_certificates_in_bundles_stay_as_they_were() -> None:
    assert certificate_name(here(machine="m")) == "cifar10-conv_fake_1xcpu_e6efad23daf4"
    assert certificate_name(here(machine="m", update="parameter_server")).startswith(
        "cifar10-conv_fake_1xcpu_parameter_server_"
    )


def test_certificates_of_both_updates_travel(tmp_path: Path) -> None:
    source, target = filled(tmp_path / "source"), Store(tmp_path / "target")
    keep(source, certificate(update="parameter_server", equal=False))
    export_bundle(source, ALL, tmp_path / "bundle.zip")
    assert import_bundle(tmp_path / "bundle.zip", target).certificates == 2
    assert {(each.update, each.equal) for each in certificates.load(target.folder)} == {
        ("replicated", True),
        ("parameter_server", False),
    }


@pytest.mark.slow
def test_update_is_asked_and_kept(paceline: CommandLine) -> None:
    flags = ("--devices", "2xcpu", "--update", "parameter_server")
    ended = paceline("verify", "mnist-mlp", "--framework", "fake,reference", *flags)
    assert ended.returncode == 2, ended.stderr
    assert " 2xcpu parameter_server: DIFFERS: " in ended.stdout  # the fake framework computes nothing
    assert (
        "mnist-mlp reference 2xcpu parameter_server: skipped: reference has no parameter_server, only replicated"
        in ended.stderr
    )
    (kept,) = certificates.load(paceline.store)
    alone = paceline("verify", "mnist-mlp", "--framework", "fake", "--update", "parameter_server")
    assert alone.returncode == 1
    assert alone.stderr == "paceline: One device has nobody to agree with by parameter_server; use --devices 2xcpu.\n"
    assert certificates.load(paceline.store) == [kept]  # that proved nothing
    assert (kept.framework, kept.devices, kept.update, kept.precision) == (
        "fake",
        "2xcpu",
        "parameter_server",
        "float32",
    )
