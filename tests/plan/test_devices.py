"""Device sets are read in every form the manual names; what is no set, or not there, is refused in one sentence."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.plan.devices import FORMS, DeviceSet, assign_cores, check_present, parse_devices, wanted_devices
from paceline.system.errors import UserError
from tests.factories.machines import machine


@pytest.mark.parametrize(
    ("text", "kind", "indices"),
    [
        ("1xcpu", "cpu", (0,)),
        ("3xcpu", "cpu", (0, 1, 2)),
        ("12xcpu", "cpu", tuple(range(12))),
        ("1xcuda", "cuda", (0,)),
        ("2xcuda", "cuda", (0, 1)),
        ("cuda:0", "cuda", (0,)),
        ("cuda:3", "cuda", (3,)),
        ("cuda:0+cuda:2", "cuda", (0, 2)),
        ("cuda:2+cuda:0", "cuda", (2, 0)),  # the first named is the first rank
        ("cuda:10+cuda:11+cuda:12", "cuda", (10, 11, 12)),
    ],
)
def test_set_is_read_in_every_form(text: str, kind: str, indices: tuple[int, ...]) -> None:
    assert parse_devices(text) == DeviceSet(text, kind, indices)


@pytest.mark.parametrize("text", ["cuda:0 + cuda:2", "cuda:0 +cuda:2", "cuda:0+  cuda:2"])
def test_spaces_around_the_plus_mean_nothing(text: str) -> None:
    assert parse_devices(text) == parse_devices("cuda:0+cuda:2")


@pytest.mark.parametrize("text", ["257xcpu", "9999xcuda"])
def test_more_devices_than_anyone_has_are_refused(text: str) -> None:
    with pytest.raises(UserError, match=f"^'{text}' are too many devices; at most 256 train together.$"):
        wanted_devices(text)
    assert wanted_devices("256xcpu").count == 256
    assert parse_devices(text).count > 256  # what is stored can still be shown


def test_devices_of_a_set_have_names() -> None:
    assert parse_devices("2xcpu").devices == ("cpu:0", "cpu:1")
    assert parse_devices("cuda:3+cuda:1").devices == ("cuda:3", "cuda:1")
    assert parse_devices("cuda:3+cuda:1").count == 2


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2",
        "-1xcpu",
        "1.5xcpu",
        " 2xcpu",
        "2xcpu\n",
        "99999xcpu",
        "cuda:",
        "cuda:x",
        "cuda:-1",
        "cuda:0,cuda:1",
        "cuda:0+",
        "+cuda:0",
        "cuda:0 +",
        "cuda:0 cuda:1",
        "cuda:1+cuda:1",
        "cuda:1+cuda:01",  # the same card, spelled in two ways
    ],
)
def test_what_is_no_set_is_refused_with_the_forms_that_are(text: str) -> None:
    with pytest.raises(UserError, match=re.escape(f"Unknown devices {text!r}; write {FORMS}, each device once.")):
        parse_devices(text)


@pytest.mark.parametrize("text", ["cuda:0+cpu:0", "1xcpu+1xcuda"])
def test_processors_and_gpus_are_not_mixed(text: str) -> None:
    with pytest.raises(UserError, match=f"'{re.escape(text)}' mixes processors and GPUs"):
        parse_devices(text)


@given(st.text("0123456789xcpuda:+ ", max_size=12))
@settings(deadline=None)
def test_any_text_is_a_set_or_a_users_error(text: str) -> None:
    try:
        devices = parse_devices(text)
    except UserError:
        return
    assert devices.count == len(set(devices.devices)) > 0
    assert parse_devices("+".join(devices.devices) if devices.kind == "cuda" else text).indices == devices.indices


@given(st.lists(st.integers(0, 9999), min_size=1, max_size=20, unique=True))
@settings(deadline=None)
def test_named_gpus_are_read_back(indices: list[int]) -> None:
    assert parse_devices("+".join(f"cuda:{index}" for index in indices)).indices == tuple(indices)


def test_gpu_that_is_not_there_is_refused_and_those_that_are_get_named() -> None:
    two_gpus = machine(gpus=("A100", "T4"))
    expected = "There is no cuda:2 for the device set 'cuda:0+cuda:2'; this machine has cuda:0 (A100), cuda:1 (T4)."
    with pytest.raises(UserError, match=re.escape(expected)):
        check_present(parse_devices("cuda:0+cuda:2"), two_gpus)
    with pytest.raises(UserError, match=re.escape("There is no cuda:2 for the device set '3xcuda'")):
        check_present(parse_devices("3xcuda"), two_gpus)


def test_machine_without_gpu_is_told_to_use_the_cpu() -> None:
    with pytest.raises(
        UserError, match=r"There is no cuda:0 .* this machine has no GPU, so use cpu sets such as 1xcpu"
    ):
        check_present(parse_devices("1xcuda"), machine())


@pytest.mark.parametrize("text", ["cuda:1", "2xcuda", "cuda:1+cuda:0", "64xcpu"])
def test_devices_that_are_there_pass(text: str) -> None:
    check_present(parse_devices(text), machine(cores=2, gpus=("A100", "T4")))


def test_each_device_gets_cores_of_its_own() -> None:
    cores = (4, 5, 6, 7, 8)  # those that the process may use need not begin at 0
    assert assign_cores(parse_devices("1xcpu"), 1, cores) == ((4,),)
    assert assign_cores(parse_devices("2xcpu"), 1, cores) == ((4,), (5,))
    assert assign_cores(parse_devices("2xcpu"), 2, cores) == ((4, 5), (6, 7))


def test_gpus_get_cores_by_their_place_in_the_set() -> None:
    assert assign_cores(parse_devices("cuda:5+cuda:2"), 2, (0, 1, 2, 3)) == ((0, 1), (2, 3))


def test_more_devices_than_cores_start_over() -> None:
    assert assign_cores(parse_devices("5xcpu"), 1, (0, 1)) == ((0,), (1,), (0,), (1,), (0,))
    assert assign_cores(parse_devices("2xcpu"), 2, (0, 1, 2)) == ((0, 1), (2, 0))


def test_device_that_wants_more_cores_than_there_are_gets_each_once() -> None:
    assert assign_cores(parse_devices("2xcpu"), 3, (0, 1)) == ((0, 1), (1, 0))


@given(st.integers(1, 20), st.integers(1, 20), st.integers(1, 40))
@settings(deadline=None)
def test_cores_are_shared_only_when_there_are_too_few(devices: int, per_device: int, cores: int) -> None:
    slices = assign_cores(parse_devices(f"{devices}xcpu"), per_device, tuple(range(cores)))
    used = [core for part in slices for core in part]
    assert [len(part) for part in slices] == [min(per_device, cores)] * devices
    assert (len(used) == len(set(used))) == (devices * min(per_device, cores) <= cores)
