"""Published figures beside our own: who stands beside whom, and what may be divided by what."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from paceline.analysis.rows.row import Row
from paceline.analysis.statistics.intervals import Estimate
from paceline.cli.actions import TableOptions, show_table
from paceline.report.formats import as_text
from paceline.report.tables import render_layouts
from paceline.report.tables.published_comparison import PublishedPair, has_epochs, pairs_of, with_published
from paceline.system.errors import UserError
from tests.factories.rows import made_row


def tensorpack(**changes: Any) -> Row:
    """As published: ResNet-50 on one GPU, batch 64."""
    settings = {
        "workload": "imagenet-resnet50",
        "framework": "tensorpack",
        "devices": "1xcuda",
        "batch_size": 64,
        "shares": (64,),
        "images_per_second": Estimate(456.0),
    }
    return made_row(**{**settings, **changes})


def only_pair(row: Row) -> PublishedPair:
    (pair,) = [pair for pair in pairs_of(row) if pair.kind == "images_per_second"]
    return pair


@pytest.mark.parametrize(
    ("update", "data", "there"),
    [
        ("replicated", "fake:device", 228),
        ("replicated", "fake:python", 219),
        ("parameter_server", "fake:host", 227),
    ],
)
def test_update_and_data_source_choose_the_figure(update: str, data: str, there: float) -> None:
    assert only_pair(tensorpack(update=update, data=data)).there == there


def test_another_network_number_of_devices_or_framework_has_no_figure() -> None:
    for changes in ({"workload": "mnist-mlp"}, {"devices": "3xcuda"}, {"framework": "jax"}):
        assert list(pairs_of(tensorpack(**changes))) == []
    assert "none of these cells has a published figure" in with_published([made_row(workload="mnist-mlp")]).notes[0]


def mxnet(**changes: Any) -> Row:
    """As published: the small network on a Titan X, batch 128, 10 epochs."""
    return made_row(
        **{"framework": "mxnet", "devices": "cuda:0", "epochs": 10.0, "peak_memory_mib": (106.0,), **changes}
    )


def ratios(row: Row) -> set[tuple[str, str]]:
    return {(line[3], line[-1]) for line in with_published([row]).lines[1:] if "Titan X" in line[2]}


def test_like_is_divided_by_like() -> None:
    assert ("MiB", "0.50") in ratios(mxnet())  # 106 / 212, both peak minus idle of a card


def test_unlike_is_not_divided_and_says_why() -> None:
    grid = with_published([mxnet(devices="1xcpu", quick=True, batch_size=32)])
    assert all(line[-1].startswith("(") for line in grid.lines[1:])
    said = "\n".join(grid.notes)
    for reason in (
        "the whole process from its start",  # `real` of the shell is not our training time
        "another batch",
        "scaled down here by --quick",
        "memory of a process here, of cards there",
    ):
        assert reason in said


def test_memory_of_cards_that_agreed_by_another_exchange_is_not_divided() -> None:
    """neon's own for several GPUs was never public; its memory on one card is divided as ever."""
    two = {"framework": "neon", "devices": "cuda:0+cuda:1", "shares": (64, 64)}
    grid = with_published([mxnet(**two)])
    assert {line[-1] for line in grid.lines[1:] if line[3] == "MiB"} == {"(b)"}
    assert "(b) not divided: the exchange between devices here is Paceline's" in grid.notes
    assert "(" not in "".join(line[-1] for line in with_published([mxnet(framework="neon")]).lines if line[3] == "MiB")


def test_wrong_figure_is_replaced_by_the_right_one_and_marked() -> None:
    row = made_row(
        workload="cifar10-resnet50-keras",
        framework="keras-mxnet",
        devices="16xcuda",
        batch_size=512,
        shares=(32,) * 16,
        seconds_per_epoch=30.0,
    )
    grid = with_published([row])
    shown = [line[5] for line in grid.lines[1:] if line[3] == "s/epoch"]
    assert "30.4!" in shown  # printed as 304.02
    assert not any(value.startswith("304") for value in shown)
    assert any("304.02" in note or "30.40" in note for note in grid.notes)


def resnet(**changes: Any) -> Row:
    """As published: 12 epochs of MXNet's ResNet-50 on one GPU, batch 128, rate 0.05."""
    settings: dict[str, Any] = {
        "workload": "cifar10-resnet50",
        "framework": "mxnet",
        "devices": "1xcuda",
        "data": "cifar10",
        "input": "level1",
        "learning_rate": 0.05,
        "steps": 4692,  # 12 times 391: the last batch of an epoch is filled up
        "epochs": 4692 * 128 / 50000,
        "test_accuracy": Estimate(0.8),
    }
    return made_row(**{**settings, **changes})


def of_kind(row: Row, kind: str) -> list[PublishedPair]:
    return [pair for pair in pairs_of(row) if pair.kind == kind]


def test_same_training_may_be_divided() -> None:
    pairs = of_kind(resnet(), "accuracy")
    assert {(pair.record.batch_size, pair.record.learning_rate, pair.record.epochs) for pair in pairs} == {
        (128, 0.05, 12)
    }
    assert [pair.differences() for pair in pairs] == [[]] * len(pairs)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"steps": 60, "epochs": 60 * 128 / 50000}, "another number of epochs"),
        ({"learning_rate": 0.1}, "another learning rate"),
        ({"batch_size": 100}, "another batch"),
        ({"precision": "bfloat16"}, "another precision than float32 here"),
        ({"framework": "mxnet+hybrid"}, "another mode of the framework here"),
        ({"slow": (2.0,)}, "devices slowed down on purpose here"),
        ({"wrapped": True}, "one device here in what several devices need"),
        ({"quick": True}, "scaled down here by --quick"),
    ],
)
def test_another_training_is_not_divided(changes: dict[str, Any], reason: str) -> None:
    (pair, *_) = of_kind(resnet(**changes), "accuracy")
    assert reason in pair.differences()


def keras(**changes: Any) -> Row:
    settings: dict[str, Any] = {"framework": "keras-tensorflow", "devices": "1xcuda", "test_accuracy": Estimate(0.7)}
    return made_row(**{**settings, "workload": "cifar10-inception-v3", "batch_size": 32, "shares": (32,), **changes})


def test_what_is_not_known_or_was_built_wrongly_is_not_divided() -> None:
    (pair,) = of_kind(keras(epochs=25.0, steps=39063), "accuracy")
    assert pair.differences() == [
        "the network was built wrongly there",
        "its batch is not known",
        "its learning rate is not known",
    ]
    (said,) = [note for note in with_published([keras()]).notes if "normalised along the width" in note]
    assert said.startswith("! ")
    assert "10946" in "\n".join(with_published([keras()]).notes)


@pytest.mark.parametrize(
    ("steps", "is_so"),
    [(3905, False), (3906, True), (3907, True), (3910, True), (3900, False), (3950, False)],
)
def test_epochs_are_equal_within_a_step_or_with_filled_up_batches(steps: int, is_so: bool) -> None:
    row = made_row(steps=steps, epochs=steps * 128 / 50000)  # 10 epochs are 3906.25 steps, or 10 times 391
    assert has_epochs(row, 10) is is_so


def test_correction_of_each_device_is_summed() -> None:
    two = mxnet(devices="cuda:0+cuda:1", shares=(64, 64), peak_memory_mib=(95.0, 95.0))
    (pair,) = of_kind(two, "memory")
    assert pair.there == 380  # 190 + 190, printed as 185 + 190
    assert ("MiB", "0.50") in ratios(two)


def test_wrong_number_of_devices_is_corrected_and_marked() -> None:
    eight = resnet(devices="8xcuda", batch_size=512, shares=(64,) * 8)
    one = resnet(batch_size=512, shares=(512,))
    rows_of = [{pair.record.row.partition(":")[0] for pair in pairs_of(row)} for row in (eight, one)]
    assert "34" not in rows_of[0]
    assert "34" in rows_of[1]
    grid = with_published([one])
    assert "[1] 8 x Tesla K80, 512 (lr=0.05)!" in {line[2] for line in grid.lines}
    assert any(note.startswith("! ") and "speaks of 1 busy GPU" in note for note in grid.notes)


@pytest.mark.parametrize(
    ("batch_size", "learning_rate", "found"),
    [
        (512, 0.4, {(512, 0.4)}),
        (512, 0.05, {(512, 0.05)}),
        (512, 0.7, {(512, 0.05), (512, 0.4)}),  # none has this rate
        (140, 0.05, {(128, 0.05)}),  # the nearest
        (64, 0.05, {(128, 0.05)}),  # the record of 64 images is blank
    ],
)
def test_only_the_most_alike_are_shown(
    batch_size: int, learning_rate: float, found: set[tuple[int | None, float | None]]
) -> None:
    row = resnet(batch_size=batch_size, learning_rate=learning_rate)
    assert {(pair.record.batch_size, pair.record.learning_rate) for pair in pairs_of(row)} == found


def test_every_figure_has_the_number_of_its_command() -> None:
    grid = with_published([mxnet(), tensorpack()])
    numbered = {line[2].split(" ", 1)[0] for line in grid.lines[1:]}
    assert numbered == {"[1]", "[2]", "[3]"}
    shown = "\n".join(grid.blocks).replace(" \\\n     ", "")
    for number, row, command in (
        ("[1]", "MXNet, Titan X", "cifar10-conv --framework mxnet --devices cuda:0 "),
        ("[2]", "MXNet, GTX 980", "cifar10-conv --framework mxnet --devices cuda:2 "),
        ("[3]", "1, tensorpack gpu", "imagenet-resnet50 --framework tensorpack --devices 1xcuda "),
    ):
        assert re.search(
            rf"^{re.escape(number)} .*{re.escape(row)}\n  \$ paceline run {re.escape(command)}", shown, re.M
        )


def test_rows_of_two_rates_show_them() -> None:
    grid = with_published([mxnet(learning_rate=rate) for rate in (0.01, 0.1)])
    assert {line[1] for line in grid.lines[1:]} == {"cuda:0 device lr=0.01", "cuda:0 device lr=0.1"}
    assert {line[1] for line in with_published([mxnet()]).lines[1:]} == {"cuda:0 device"}


def published(**changes: Any) -> Row:
    """Just what was published of MXNet on one Titan X."""
    fields: dict[str, Any] = {"data": "cifar10", "input": "scaled", "learning_rate": 0.1, "steps": 3907}
    return mxnet(**{**fields, **changes})


def of_added(rows: list[Row]) -> list[str]:
    return [note for note in with_published(rows).notes if note.startswith("+ ")]


def test_cells_without_a_published_row_are_named() -> None:
    assert of_added([published()]) == []
    added = published(learning_rate=0.01)
    assert of_added([published(), added]) == [
        "+ cells without a published row: mxnet, cifar10-conv: cuda:0 128 (lr=0.01)"
    ]
    many = [published(batch_size=size) for size in range(1, 13)]
    assert of_added(many)[0].endswith("cuda:0 8 (lr=0.1), and 4 more")


def test_small_form_has_no_published_cell() -> None:
    (note,) = of_added([published(quick=True)])
    assert note.startswith("+ scaled down by --quick: no cell is that of a published row")


def test_published_row_that_crashed_or_is_blank_has_its_command_too() -> None:
    three = {"devices": "3xcpu", "shares": (43, 43, 42), "framework": "neon"}
    grid = with_published([mxnet(data="cifar10", input="scaled", **three)])
    assert len(grid.lines) == 1
    assert (
        "[1] no figure there: Neon, Titan X + Titan X + GTX 980 crashed with Boost.Python.ArgumentError" in grid.notes
    )
    assert any("--shares 43:43:42" in line for line in grid.blocks)
    assert any("it crashed there" in line for line in grid.blocks)
    blank = with_published([resnet(batch_size=64, shares=(64,))])
    assert any(note.endswith("no figure there: 5: 1 | resnet50 | 64x1 is blank") for note in blank.notes)


@pytest.mark.parametrize("form", ["json", "csv", "findings"])
def test_other_forms_have_no_place_for_published_figures(form: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"--format text or markdown, not {form}"):
        show_table(tmp_path, {}, form, shape=TableOptions(published=True))


@pytest.mark.parametrize("width", [80, 120])
def test_it_fits_the_terminal(width: int) -> None:
    rows = [published(), published(learning_rate=0.01, steps=60), resnet(), resnet(learning_rate=0.4, steps=60)]
    grid = with_published(rows)
    shown = as_text(render_layouts.document([grid]), width)
    assert max(map(len, shown.splitlines())) <= width
    assert len(shown.split("* (a)")[0].splitlines()) < 3 * len(grid.lines)  # no place is broken into many lines


def test_what_the_text_does_not_print_is_marked_with_its_reason() -> None:
    keras = made_row(
        workload="cifar10-resnet50-keras",
        framework="keras-mxnet",
        devices="2xcuda",
        batch_size=64,
        shares=(32, 32),
        seconds_per_epoch=90.0,
        peak_memory_mib=(2000.0, 2000.0),
    )
    grid = with_published([keras])
    shown = {(line[-4], line[-2]) for line in grid.lines[1:]}
    assert ("MiB", "5,048!~") in shown  # no unit is printed, and it is less than that of one card
    assert ("s/epoch", "97.2") in shown
    assert [note for note in grid.notes if note.startswith("~ inferred, not printed by keras-backends: memory: ")]
    assert [note for note in grid.notes if "inferred, not printed by keras-backends: devices: The text names" in note]


def test_reason_of_a_figure_that_is_not_shown_is_left_out() -> None:
    notes = with_published([tensorpack()]).notes
    assert [note for note in notes if "learning rate: The text has no rate; 0.1 is the program's own" in note]
    assert not [note for note in notes if "memory" in note and note.startswith("~")]
