"""A suite is read whole or refused by name: keys, types, limits, and flags that go before the file."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paceline.catalog.published import NAMES as PUBLISHED
from paceline.catalog.published import all_benchmarks
from paceline.plan.matrix import FAKE_SOURCES, UPDATES, cells_of
from paceline.plan.planning import make_plan, reason_to_skip
from paceline.plan.settings import FIELDS, Suite
from paceline.plan.suite import known_suites, load_suite, make_suite
from paceline.system.errors import UserError
from tests.factories.command_line import CommandLine
from tests.factories.machines import machine

WriteSuite = Callable[[str], Path]


@pytest.fixture
def suite_file(tmp_path: Path) -> WriteSuite:
    """Writes `nightly.toml`, which always names a workload."""

    def write(text: str) -> Path:
        path = tmp_path / "nightly.toml"
        path.write_text(f'workload = "cifar10-conv"\n{text}\n', encoding="utf-8")
        return path

    return write


def made(**settings: Any) -> Suite:
    return make_suite({"workload": "cifar10-conv", **settings}, "the command line")


def test_suite_without_further_keys_has_the_documented_defaults(suite_file: WriteSuite) -> None:
    assert load_suite(suite_file(""), {}) == Suite(
        name="nightly",
        workload=("cifar10-conv",),
        framework=("torch", "jax"),
        devices=("1xcpu",),
        update=("replicated",),
        data=("fake:device",),
        precision=("float32",),
        batch_size=(),
        batch_per_device=(),
        steps=None,
        epochs=(),
        warmup=10,
        evaluate=None,
        lr_rule="none",
        input=(),
        parameter_device="cpu",
        interval_target=None,
        budget=600.0,
        lr=(),
        seed=1,
        cores_per_device=None,
        repeats=5,
        timeout=1800.0,
    )


def test_every_key_is_read(tmp_path: Path) -> None:
    path = tmp_path / "all.toml"
    path.write_text("""
        name = "everything"
        workload = ["cifar10-conv", "mnist-mlp"]
        framework = ["jax", "torch+compile"]
        devices = ["1xcpu", "cuda:0+cuda:1"]
        update = "replicated"
        data = ["fake:host", "fake:python"]
        precision = "bfloat16"
        batch_per_device = [64, 128]
        epochs = 0.5
        warmup = 3
        evaluate = "end"
        lr_rule = "sqrt"
        input = "level1"
        parameter_device = "device"
        interval_target = 0.03
        budget = 60.0
        lr = 0.2
        seed = 5
        cores_per_device = 2
        repeats = 6
        timeout = 60
    """)
    assert load_suite(path, {}) == Suite(
        name="everything",
        workload=("cifar10-conv", "mnist-mlp"),
        framework=("jax", "torch+compile"),
        devices=("1xcpu", "cuda:0+cuda:1"),
        update=("replicated",),
        data=("fake:host", "fake:python"),
        precision=("bfloat16",),
        batch_per_device=(64, 128),
        epochs=(0.5,),
        warmup=3,
        evaluate="end",
        lr_rule="sqrt",
        input=("level1",),
        parameter_device="device",
        interval_target=0.03,
        budget=60.0,
        lr=(0.2,),
        seed=5,
        cores_per_device=2,
        repeats=6,
        timeout=60.0,
    )


def test_hyphen_and_underscore_are_the_same(suite_file: WriteSuite) -> None:
    hyphens = load_suite(suite_file("batch-size = 64\ncores-per-device = 1\nlr-rule = 'linear'"), {})
    underscores = load_suite(suite_file("batch_size = 64\ncores_per_device = 1\nlr_rule = 'linear'"), {})
    assert hyphens == underscores
    assert (hyphens.batch_size, hyphens.cores_per_device, hyphens.lr_rule) == ((64,), 1, "linear")


def test_one_value_stands_for_a_list_of_one(suite_file: WriteSuite) -> None:
    alone = load_suite(suite_file('devices = "2xcpu"\nbatch_size = 64'), {})
    assert alone == load_suite(suite_file('devices = ["2xcpu"]\nbatch_size = [64]'), {})


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('framwork = "torch"', "Unknown key in {path}: 'framwork'. Did you mean 'framework'?"),
        ("batch-sise = 64", "Unknown key in {path}: 'batch_sise'. Did you mean 'batch_size'?"),
        ("Steps = 5", "Unknown key in {path}: 'Steps'. Did you mean 'steps'?"),
        ("colour = 1", "Unknown key in {path}: 'colour'. Known: " + ", ".join(FIELDS) + "."),
        ("[run]\nsteps = 5", "Unknown key in {path}: 'run'."),
    ],
)
def test_unknown_key_is_refused_with_the_closest_known(suite_file: WriteSuite, line: str, message: str) -> None:
    path = suite_file(line)
    with pytest.raises(UserError, match=re.escape(message.format(path=path))):
        load_suite(path, {})


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ('steps = "many"', "steps"),
        ("steps = true", "steps"),
        ("steps = 10.5", "steps"),
        ('epochs = "1"', "epochs[0]"),
        ("warmup = [1]", "warmup"),
        ('lr = "high"', "lr[0]"),
        ('seed = "1"', "seed"),
        ("name = 1", "name"),
        ("framework = 1", "framework[0]"),
        ('devices = ["1xcpu", 2]', "devices[1]"),
        ("batch_size = 64.0", "batch_size[0]"),
        ('batch_per_device = [64, "128"]', "batch_per_device[1]"),
        ("timeout = 2024-01-01", "timeout"),
    ],
)
def test_wrong_type_names_its_key(suite_file: WriteSuite, line: str, key: str) -> None:
    path = suite_file(line)
    with pytest.raises(UserError, match=re.escape(f"{path}: {key}: expected ") + r"\w+, got \w+\.$"):
        load_suite(path, {})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"workload": []}, "name at least one workload"),
        ({"batch_size": 8, "batch_per_device": 8}, "give batch_size (all devices together) or batch_per_device"),
        ({"steps": 5, "epochs": 1.0}, "give steps or epochs, not both"),
        ({"batch_size": [64, 0]}, "batch_size is a whole number from 1 to 1,048,576 ("),
        ({"batch_per_device": -1}, "batch_per_device is a whole number from 1 to 1,048,576 ("),
        ({"steps": 0}, "steps is a whole number from 1 to 100,000,000 ("),
        ({"epochs": 0.0}, "epochs is a number above 0"),
        ({"epochs": float("nan")}, "epochs is a number above 0"),
        ({"epochs": float("inf")}, "epochs is a number above 0"),
        ({"warmup": -1}, "warmup is a whole number from 0 to 100,000,000 ("),
        ({"interval_target": 1.5}, "interval_target is a part of the median such as 0.03, above 0 and below 1"),
        ({"budget": -1.0}, "budget is a number of seconds from 0 to 1,000,000,000 ("),
        ({"lr": 0.0}, "lr is a number above 0"),
        ({"lr": float("nan")}, "lr is a number above 0"),
        ({"lr": float("inf")}, "lr is a number above 0"),
        ({"seed": -1}, "seed is a whole number from 0 to 4,294,967,295 (NumPy takes no more)"),
        ({"seed": 2**32}, "seed is a whole number from 0 to 4,294,967,295 (NumPy takes no more)"),
        ({"cores_per_device": 0}, "cores_per_device is a whole number from 1 to 4,096 ("),
        ({"repeats": 0}, "repeats is a whole number from 1 to 1,000 ("),
        ({"timeout": 0.0}, "timeout is a number of seconds above 0"),
        ({"timeout": float("nan")}, "timeout is a number of seconds above 0"),
        ({"timeout": float("inf")}, "timeout is a number of seconds above 0"),  # JSON could not store it
    ],
)
def test_number_beyond_its_limit_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=re.escape(f"the command line: {message}")):
        made(**settings)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("evaluate = 'often'", "Unknown evaluate in {path}: 'often'. Known: epoch, end, never."),
        ("lr-rule = 'cubic'", "Unknown lr_rule in {path}: 'cubic'. Known: none, linear, sqrt."),
        (
            "update = ['replicated', 'replica']",
            "Unknown update in {path}: 'replica'. Did you mean 'replicated'? Known: ",
        ),
    ],
)
def test_word_that_is_no_choice_is_refused_with_the_choices(suite_file: WriteSuite, line: str, message: str) -> None:
    path = suite_file(line)
    with pytest.raises(UserError, match=re.escape(message.format(path=path))):
        load_suite(path, {})


@pytest.mark.parametrize(
    ("key", "value", "taken"),
    [
        ("steps", 1, 1),
        ("epochs", 0.01, (0.01,)),
        ("warmup", 0, 0),
        ("seed", 0, 0),
        ("seed", 2**32 - 1, 2**32 - 1),
        ("repeats", 1, 1),
        ("batch_size", 1, (1,)),
    ],
)
def test_number_at_its_limit_is_taken(key: str, value: Any, taken: Any) -> None:
    assert getattr(made(**{key: value}), key) == taken


def test_suite_without_workload_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "empty.toml"
    path.write_text("")
    with pytest.raises(UserError, match=re.escape(f"{path}: name at least one workload")):
        load_suite(path, {})


def test_what_is_no_toml_is_refused_with_the_place(suite_file: WriteSuite) -> None:
    path = suite_file("steps = = 5")
    with pytest.raises(UserError, match=re.escape(f"{path} is not TOML: ") + ".*line 2"):
        load_suite(path, {})


def test_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"Cannot read the suite .*nowhere\.toml: .*No such file"):
        load_suite(tmp_path / "nowhere.toml", {})
    (tmp_path / "latin.toml").write_bytes(b'name = "caf\xe9"')
    with pytest.raises(UserError, match=r"latin\.toml is no suite: 'utf-8' codec"):
        load_suite(tmp_path / "latin.toml", {})


def test_flags_go_before_the_file(suite_file: WriteSuite) -> None:
    path = suite_file('framework = "torch"\nsteps = 50\nseed = 3')
    suite = load_suite(path, {"framework": ["jax"], "steps": 20})
    assert (suite.framework, suite.steps, suite.seed, suite.name) == (("jax",), 20, 3, "nightly")


@pytest.mark.parametrize(
    ("line", "flags", "batches"),
    [
        ("batch-per-device = 64", {"batch_size": [128]}, ((128,), ())),
        ("batch-size = 128", {"batch_per_device": [64]}, ((), (64,))),
        ("batch-size = [128, 256]", {"batch_size": [32]}, ((32,), ())),
        ("batch-size = 128", {}, ((128,), ())),
    ],
)
def test_one_way_to_give_the_batch_replaces_the_other(
    suite_file: WriteSuite, line: str, flags: dict[str, Any], batches: tuple[tuple[int, ...], tuple[int, ...]]
) -> None:
    suite = load_suite(suite_file(line), flags)
    assert (suite.batch_size, suite.batch_per_device) == batches


@pytest.mark.parametrize(
    ("line", "flags", "length"),
    [
        ("epochs = 2", {"steps": 30}, (30, ())),
        ("steps = 30", {"epochs": 2.0}, (None, (2.0,))),
        ("steps = 30", {"steps": 40}, (40, ())),
        ("epochs = 2", {"seed": 9}, (None, (2.0,))),
    ],
)
def test_one_way_to_give_the_length_replaces_the_other(
    suite_file: WriteSuite, line: str, flags: dict[str, Any], length: tuple[int | None, tuple[float, ...]]
) -> None:
    suite = load_suite(suite_file(line), flags)
    assert (suite.steps, suite.epochs) == length


def test_two_flags_for_one_thing_are_refused_whatever_the_file_says(suite_file: WriteSuite) -> None:
    with pytest.raises(UserError, match="give steps or epochs, not both"):
        load_suite(suite_file("steps = 30"), {"steps": 40, "epochs": 1.0})
    with pytest.raises(UserError, match="give batch_size"):
        load_suite(suite_file("batch-size = 64"), {"batch_size": [64], "batch_per_device": [32]})


PARTED = """
workload = "cifar10-conv"
framework = "fake"
batch-size = 64
steps = 30

[[part]]
devices = "1xcpu"

[[part]]
devices = "2xcpu"
batch-per-device = 16
lr = 0.4

[quick]
steps = 3
warmup = 1

[[quick.part]]
devices = "2xcpu"
"""


def cells_of_file(path: Path, **settings: Any) -> list[tuple[str, int, int, float]]:
    suite = load_suite(path, settings)
    return [(cell.devices, cell.batch_size, cell.steps, cell.learning_rate) for cell in cells_of(suite, machine())]


@pytest.fixture
def parted(tmp_path: Path) -> Path:
    path = tmp_path / "parted.toml"
    path.write_text(PARTED)
    return path


def test_parts_are_matrices_with_the_keys_above_as_defaults(parted: Path) -> None:
    assert cells_of_file(parted) == [("1xcpu", 64, 30, 0.01), ("2xcpu", 32, 30, 0.4)]


def test_quick_form_has_other_values_and_parts(parted: Path) -> None:
    assert cells_of_file(parted, quick=True) == [("2xcpu", 64, 3, 0.01)]
    assert load_suite(parted, {"quick": True}).quick


def test_flags_go_before_all_parts(parted: Path) -> None:
    assert cells_of_file(parted, batch_size=[8], steps=12) == [("1xcpu", 8, 12, 0.01), ("2xcpu", 8, 12, 0.4)]


def test_wrong_key_in_a_part_is_named(tmp_path: Path) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text('workload = "cifar10-conv"\n[[part]]\ndevice = "1xcpu"\n')
    with pytest.raises(UserError, match=r"device.*devices"):
        load_suite(path, {})


def test_file_without_quick_form_says_so(tmp_path: Path) -> None:
    path = tmp_path / "plain.toml"
    path.write_text('workload = "cifar10-conv"\n')
    with pytest.raises(UserError, match=r"plain\.toml has no \[quick\] form"):
        load_suite(path, {"quick": True})


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_suites_have_gpu_cells_and_a_quick_form_for_two_cores(name: str) -> None:
    gpus = machine(cores=32, gpus=("K80",) * 16)
    full = cells_of(load_suite(known_suites()[name], {}), gpus)
    assert {cell.device_set.kind for cell in full} >= {"cuda"}
    small = cells_of(load_suite(known_suites()[name], {"quick": True}), machine(cores=2))
    assert small
    assert {cell.device_set.count for cell in small if cell.oversubscribed} <= {3}  # as many unlike cards as published
    assert {cell.workload for cell in small} == {cell.workload for cell in full}
    assert {cell.framework for cell in small} == {cell.framework for cell in full}


@pytest.mark.parametrize("name", PUBLISHED)
def test_full_suite_has_time_for_what_was_published(name: str) -> None:
    took = [
        metric.value
        for record in all_benchmarks()[name].records
        for kind, metric in record.metrics.items()
        if kind.startswith("seconds.")
    ]
    assert load_suite(known_suites()[name], {}).timeout > max(took, default=0)


@pytest.mark.parametrize("gpus", [1, 8])
def test_what_a_machine_lacks_of_a_suite_is_skipped(gpus: int) -> None:
    suite = load_suite(known_suites()["keras-backends"], {})
    plan = make_plan(suite, machine(cores=32, gpus=("K80",) * gpus))
    lacking = [skip for skip in plan.skips if skip.cell.device_set.count > gpus]
    assert lacking
    assert {skip.reason for skip in lacking} == {f"this machine has no cuda:{gpus}"}
    assert all(run.cell.device_set.count <= gpus for run in plan.runs)


@pytest.mark.parametrize("name", PUBLISHED)
def test_full_suite_is_planned_without_any_gpu(name: str) -> None:
    plan = make_plan(load_suite(known_suites()[name], {}), machine())
    lacking = [skip for skip in plan.skips if skip.cell.device_set.kind == "cuda"]
    assert all(skip.reason.startswith("this machine has no cuda:") for skip in lacking)
    assert len(plan.cells) - len(lacking) == sum(cell.device_set.kind == "cpu" for cell in plan.cells)


def test_part_may_have_a_seed_of_its_own(suite_file: WriteSuite) -> None:
    text = "framework='fake'\nseed=3\n[[part]]\ndevices='1xcpu'\n[[part]]\ndevices='1xcpu'\nseed=1337\n"
    quick = "[quick]\nsteps=20\n[[quick.part]]\nseed=7\n[[quick.part]]\n"
    path = suite_file(text + quick)
    assert [cell.seed for cell in cells_of(load_suite(path, {}), machine())] == [3, 1337]
    assert [cell.seed for cell in cells_of(load_suite(path, {"quick": True}), machine())] == [7, 3]
    assert [cell.seed for cell in cells_of(load_suite(path, {"seed": 9}), machine())] == [9, 9]
    assert load_suite(path, {}).seed == 3  # orders the runs


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[part]\ndevices = '1xcpu'", r"write \[\[part\]\] in two brackets"),
        ("[[part]]\nrepeats = 7", "repeats is for the whole suite"),
    ],
)
def test_parts_that_are_none_are_refused(suite_file: WriteSuite, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_suite(suite_file(text), {})


def test_updates_are_measured_on_every_device_set_with_every_source() -> None:
    cells = cells_of(load_suite(known_suites()["updates"], {}), machine())
    whole = sorted(itertools.product(UPDATES, ("1xcpu", "2xcpu", "4xcpu"), FAKE_SOURCES))
    for framework in ("torch", "jax", "mxnet", "tensorflow", "keras-mxnet"):
        possible = [cell for cell in cells if cell.framework == framework and not reason_to_skip(cell)]
        assert sorted((cell.update, cell.devices, cell.data) for cell in possible) == whole


@pytest.mark.slow
def test_suite_of_updates_gives_a_table_for_each(paceline: CommandLine) -> None:
    ended = paceline("run", "updates", "--framework", "fake", "--repeats", "1", "--steps", "12", "--warmup", "2")
    assert ended.returncode == 0, ended.stderr
    assert [row["status"] for row in paceline.rows()] == ["ok"] * 27
    shown = paceline("show", "--format", "markdown").stdout.splitlines()
    titles = [line for line in shown if "images/s, device/host/python" in line]
    assert [[update for update in UPDATES if update in title] for title in titles] == [[update] for update in UPDATES]


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        (["2xcpu"], {("2xcpu", "equal")}),
        (["1xcpu"], {("1xcpu", "equal")}),
        (["3xcpu", "2xcpu"], {("3xcpu", "43:43:42"), ("2xcpu", "equal")}),
    ],
)
@pytest.mark.parametrize("quick", [False, True])
def test_shares_of_a_file_give_way_to_devices_from_a_flag(
    quick: bool, devices: list[str], expected: set[tuple[str, str]]
) -> None:
    flags = {"devices": devices, **({"quick": True} if quick else {})}
    cells = cells_of(load_suite(known_suites()["neon-vs-mxnet"], flags), machine())
    assert {(cell.devices, cell.shares) for cell in cells} == expected


def test_shares_from_a_flag_must_fit_the_devices() -> None:
    suite = load_suite(known_suites()["neon-vs-mxnet"], {"devices": ["2xcpu"], "shares": ["2:1:1"]})
    with pytest.raises(UserError, match=r"shares 2:1:1 are for 3 devices, but 2xcpu has 2"):
        cells_of(suite, machine())
