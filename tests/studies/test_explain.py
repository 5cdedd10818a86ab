"""Why it does not scale: the arithmetic on made numbers, and staged causes that the real command must name."""

from __future__ import annotations

import json
import shutil
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.analysis.statistics.intervals import Estimate
from paceline.report.formats import as_text
from paceline.report.studies import explanation
from paceline.studies.scaling.ablations import make_ablations
from paceline.studies.scaling.explain import AblationTimes, Explanation
from paceline.studies.scaling.lost_time import RoundTimes, extremes, lost_time, split, typical
from tests.factories.command_line import CommandLine
from tests.factories.runs import cell, on_devices

DELAY = 5.0  # ms that each of the fake framework's slow modes adds to a step
# 20 ms on one device, so 10 on two; 14 as measured: 1 input, 0.5 exchange, 0.7 contention, 1 imbalance, 0.8 the rest
WORKED_OUT = RoundTimes(whole=0.014, without_input=0.013, without_exchange=0.0125, alone=(0.0108, 0.0118), base=0.020)
seconds = st.floats(min_value=1e-6, max_value=1e3)


def parts(rounds: list[RoundTimes], devices: int = 2, scaling: str = "strong") -> dict[str, Estimate]:
    return {part.name: part.seconds for part in lost_time(rounds, devices, scaling).parts}


def changed(**seconds: Any) -> RoundTimes:
    return msgspec.structs.replace(WORKED_OUT, **seconds)


def test_parts_of_a_round_worked_out_by_hand() -> None:
    found = {name: value.median for name, value in parts([WORKED_OUT]).items()}
    expected = {"input": 0.001, "exchange": 0.0005, "contention": 0.0007, "imbalance": 0.001, "the rest": 0.0008}
    assert found == pytest.approx(expected)


def test_loss_speed_up_and_efficiency_worked_out_by_hand() -> None:
    strong, weak = lost_time([WORKED_OUT], 2, "strong"), lost_time([changed(base=0.0108)], 2, "weak")
    assert (strong.lost.median, weak.lost.median) == pytest.approx((0.004, 0.0032))  # 14 - 20 / 2; 14 - 10.8
    assert (strong.speed_up.median, weak.speed_up.median) == pytest.approx((20 / 14, 2 * 10.8 / 14))
    assert (strong.efficiency.median, weak.efficiency.median) == pytest.approx((10 / 14, 10.8 / 14))


def test_what_a_framework_cannot_part_is_one_part() -> None:
    found = parts([changed(without_exchange=None)])
    assert found["exchange and contention"].median == pytest.approx(0.0012)
    assert "exchange" not in found


@given(seconds, seconds, st.none() | seconds, st.lists(seconds, min_size=2, max_size=5), seconds)
def test_parts_add_up_to_the_lost_time(
    whole: float, without_input: float, without_exchange: float | None, alone: list[float], ideal: float
) -> None:
    times = RoundTimes(
        whole=whole,
        without_input=without_input,
        without_exchange=without_exchange,
        alone=tuple(alone),
        base=1.0,
    )
    assert sum(split(times, ideal, *extremes([times])).values()) == pytest.approx(whole - ideal, abs=1e-9)


def test_noise_of_equal_devices_is_no_imbalance() -> None:
    alone = [(0.010, 0.011), (0.011, 0.010), (0.012, 0.011), (0.010, 0.012), (0.0105, 0.010)]
    found = parts([changed(alone=each) for each in alone])["imbalance"]
    assert found.low is not None
    assert found.low < 0


def test_largest_part_is_named_only_if_the_rounds_agree() -> None:
    sure = [changed(whole=0.018 + noise) for noise in (0, 0.0001, 0.0002)]
    unsure = [changed(whole=0.0131 + noise) for noise in (0, 0.001, 0.003)]  # input is 0.1, 1.1 or 3.1 ms
    assert lost_time(sure, 2, "strong").largest == "input"
    assert lost_time(unsure, 2, "strong").largest is None


def test_it_scales_if_the_loss_may_be_noise_and_is_small_in_any_case() -> None:
    def scales(*milliseconds: float) -> bool:
        return lost_time([changed(whole=whole / 1000) for whole in milliseconds], 2, "strong").scales

    assert scales(9.9, 10.0, 10.1)
    assert not scales(9.0, 10.0, 11.5)  # up to 3.3 of 10 ms may be lost
    assert not scales(10.1, 10.11, 10.12)


def test_ablations_of_real_images_lose_first_the_input_then_the_exchange() -> None:
    cell = on_devices(2, data="cifar10", input="level1", evaluate="epoch", update="parameter_server")
    ablations = make_ablations(msgspec.structs.replace(cell, parameter_device="cpu"))
    assert (ablations.without_input.data, ablations.without_input.input, ablations.without_input.evaluate) == (
        "fake:device",
        "",
        "never",
    )
    assert ablations.without_input.update == "parameter_server"
    assert ablations.without_exchange is not None
    assert (ablations.without_exchange.update, ablations.without_exchange.parameter_device) == ("independent", "")
    assert [one.cores for one in ablations.alone] == [((0,),), ((1,),)]
    assert [one.batch_size for one in (*ablations.alone, *ablations.bases)] == [50, 50, 100]
    assert len(ablations.cells()) == 6


def test_what_is_not_there_need_not_be_taken_away() -> None:
    ablations = make_ablations(on_devices(2, scaling="weak", update="independent"))
    assert ablations.whole == ablations.without_input == ablations.without_exchange
    assert ablations.bases == ablations.alone[:1]
    assert len(ablations.cells()) == 3  # the whole and each device


def test_device_alone_keeps_its_share_and_its_slowness() -> None:
    ablations = make_ablations(on_devices(2, shares="3:1", slow=(2.0, 1.0)))
    assert [(one.batch_size, one.slow, one.shares) for one in ablations.alone] == [
        (75, (2.0,), "equal"),
        (25, (), "equal"),
    ]
    assert [one.slow for one in ablations.bases] == [()]


def test_unlike_cards_are_held_against_one_of_each_kind() -> None:
    three = cell(devices="cuda:0+cuda:1+cuda:3", framework="torch", cores=((0,), (1,), (2,)))
    ablations = make_ablations(three, ("GTX 980", "Titan X", "GTX 980"))
    assert [(one.devices, one.batch_size) for one in ablations.bases] == [("cuda:0", 100), ("cuda:1", 100)]
    assert ablations.counts == (2, 1)
    assert list(ablations.named())[-2:] == ["one cuda:0", "one cuda:1"]
    assert [one.devices for one in make_ablations(three, ("GTX 980",) * 3).bases] == ["cuda:0"]


def test_speeds_of_unlike_devices_add_up() -> None:
    # Twice 100 images/s and once 250 are 450: like three with 150, each with 100 images in 2/3 s.
    assert typical([1.0, 0.4], (2, 1)) == pytest.approx(2 / 3)
    assert typical([0.02], (2,)) == pytest.approx(0.02)


def test_speed_up_of_unlike_cards_names_them() -> None:
    ablations = tuple(
        AblationTimes(name=name, seconds_per_step=(1.0,), runs=()) for name in ("whole", "one cuda:0", "one cuda:1")
    )
    shown = explanation.FORMATS["markdown"](
        msgspec.structs.replace(EXPLAINED, ablations=ablations, slow=(), shares=(64, 64))
    )
    assert "* speed-up over the mean of one cuda:0 and one cuda:1 without input: " in shown
    assert "| how the fastest device differs from the mean of all |" in shown


def test_framework_that_always_exchanges_has_no_ablation_without() -> None:
    ablations = make_ablations(on_devices(2, framework="keras-tensorflow"))
    assert ablations.without_exchange is None
    assert "without exchange" not in ablations.named()


EXPLAINED = Explanation(
    workload="cifar10-conv",
    framework="torch",
    devices="2xcpu",
    update="replicated",
    data="fake:python",
    input="",
    precision="float32",
    batch_size=128,
    shares=(85, 43),
    scaling="strong",
    steps=100,
    rounds=2,
    oversubscribed=True,
    slow=(1.0, 2.0),
    time=lost_time([WORKED_OUT, changed(whole=0.0145)], 2, "strong"),
)


@pytest.mark.parametrize(
    ("rounds", "words"),
    [
        # Three rounds d apart deviate by d, and 4.303 / sqrt(3) = 2.484 times that is what they may be off.
        (
            [0.018, 0.0181, 0.0182],
            "loses 8.10 of each step's 18.1 ms, mostly to input: 5.10 ms (95 % interval 4.85 to 5.35), ",
        ),
        (
            [0.0135, 0.0140, 0.0145],
            "loses 4.00 of each step's 14.0 ms (95 % interval 2.76 to 5.24); cannot tell which part ",
        ),
        (
            [0.0100, 0.0101, 0.0102],
            "scales: of a step of 10.1 ms, 0.10 ms are lost, which may be noise (95 % interval -0.15 to 0.35",
        ),
        (
            [0.0090, 0.0092, 0.0094],
            "scales more than linearly: a step of 9.20 ms saves 0.80 ms (95 % interval -1.30 to -0.30).",
        ),
    ],
)
def test_first_sentence_says_what_the_rounds_support(rounds: list[float], words: str) -> None:
    time = lost_time([changed(whole=whole) for whole in rounds], 2, "strong")
    said = explanation.sentence(msgspec.structs.replace(EXPLAINED, time=time))
    assert said.startswith(f"cifar10-conv on torch 2xcpu {words}")


def test_text_fits_into_80_columns_and_says_what_is_special() -> None:
    shown = as_text(explanation.document(EXPLAINED), 80)
    assert max(map(len, shown.splitlines())) <= 80
    flat = " ".join(shown.split())
    assert "batch 85+43=128 (strong scaling)" in flat
    assert "oversubscribed: its devices share cores" in flat
    assert "slowed down on purpose (device 1 by 2×)" in flat


def test_markdown_has_a_line_for_each_part_and_the_sum() -> None:
    rows = [line for line in explanation.FORMATS["markdown"](EXPLAINED).splitlines() if line.startswith("| ")]
    names = [row.split(" | ")[0] for row in rows]
    assert names == ["| part", "| input", "| exchange", "| contention", "| imbalance", "| the rest", "| lost in all"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--devices", "2xcpu"], "explain takes one cell, and these flags give 2; name one framework"),  # torch, jax
        (["--framework", "fake"], "1xcpu is one device, which has no scaling to explain"),
        (
            ["--framework", "keras-jax", "--devices", "2xcpu"],
            "cannot be measured: keras-jax trains on at most 1 device.",
        ),
        (["--framework", "fake", "--devices", "2xcpu", "--rounds", "1"], "--rounds is a whole number from 2 to 1,000"),
        (["--framework", "fake", "--devices", "2xcpu", "--repeats", "3"], "use --rounds instead of --repeats."),
    ],
)
def test_mistake_is_one_line(paceline: CommandLine, words: list[str], message: str) -> None:
    ended = paceline("explain", "cifar10-conv", *words)
    assert ended.returncode == 1
    assert message in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert not paceline.store.exists()


def stage(batch_size: int = 32, steps: int = 20, rounds: int = 3) -> tuple[str, ...]:
    """Two devices, and runs that are hardly more than their start."""
    length = ("--steps", str(steps), "--warmup", "0", "--rounds", str(rounds))
    return ("--devices", "2xcpu", "--batch-size", str(batch_size), *length)


def explained(paceline: CommandLine, *words: str) -> dict[str, Any]:
    ended = paceline("explain", "cifar10-conv", *words, "--format", "json")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def milliseconds(found: dict[str, Any]) -> dict[str, float]:
    return {part["name"]: 1000 * part["seconds"]["median"] for part in found["time"]["parts"]}


@pytest.mark.alone
@pytest.mark.parametrize(
    ("cause", "data"), [("input", "fake:python"), ("exchange", "fake:device"), ("contention", "fake:device")]
)
def test_staged_cause_is_named_with_its_milliseconds(paceline: CommandLine, cause: str, data: str) -> None:
    found = explained(paceline, "--framework", f"fake+{cause}", "--data", data, *stage())
    assert found["time"]["largest"] == cause
    assert milliseconds(found)[cause] == pytest.approx(DELAY, rel=0.3)


@pytest.mark.alone
def test_slowed_device_is_imbalance(paceline: CommandLine) -> None:
    found = explained(paceline, "--framework", "fake", "--slow", "1:3.0", *stage(batch_size=128))
    assert found["time"]["largest"] == "imbalance"
    assert milliseconds(found)["imbalance"] == pytest.approx(2 * 6.4, rel=0.4)  # 64 images take 6.4 ms, or three times


@pytest.mark.alone
def test_measured_shares_are_those_of_all_ablations_and_leave_little_imbalance(paceline: CommandLine) -> None:
    flags = ("--framework", "fake", "--slow", "1:3.0", "--shares", "measured", *stage(batch_size=128))
    found = explained(paceline, *flags)
    first, second = found["shares"]
    assert first + second == 128
    assert first / second == pytest.approx(3, rel=0.4)
    assert milliseconds(found)["imbalance"] < 6.4


@pytest.mark.slow
def test_round_that_was_cut_off_is_measured_anew_and_the_others_stay(paceline: CommandLine) -> None:
    flags = ("--framework", "fake", *stage(steps=2))
    found = explained(paceline, *flags)
    runs = paceline.outcomes()
    assert len(runs) == 3 * 5  # whole, without exchange, each device and one device

    assert found["twins"] == found["ablations"]
    assert explained(paceline, *flags) == found
    assert paceline.outcomes() == runs

    shutil.rmtree(paceline.store / "runs" / found["ablations"][0]["runs"][2])
    (paceline.store / "index.sqlite").unlink()
    again = explained(paceline, *flags)
    assert len(paceline.outcomes()) == len(runs) - 1 + 5
    assert again["ablations"][0]["runs"][:2] == found["ablations"][0]["runs"][:2]


@pytest.mark.slow
def test_failed_ablation_is_named_with_its_cause(paceline: CommandLine) -> None:
    ended = paceline("explain", "cifar10-conv", "--framework", "fake+fail", *stage(rounds=2))
    assert ended.returncode == 2
    said = " ".join(ended.stdout.split())
    assert "the ablation 'without exchange' failed in round 1: error in train: RuntimeError: the fake framework" in said
    assert len(paceline.outcomes()) == 5  # a second round would tell nothing more
    assert paceline("log", paceline.outcomes()[0].parent.name).stdout


@pytest.mark.real
@pytest.mark.alone
def test_slowed_device_of_a_real_framework_is_imbalance(paceline: CommandLine) -> None:
    flags = ("--framework", "torch", "--devices", "2xcpu", "--slow", "1:5.0", "--batch-size", "32")
    found = explained(paceline, *flags, "--steps", "8", "--warmup", "2", "--rounds", "2")
    first, second = (min(one["seconds_per_step"]) for one in found["ablations"] if one["name"].startswith("device "))
    assert second > 2 * first  # 5 by theory, 2.5 if another program has half of the first one's core
    assert milliseconds(found)["imbalance"] > 0
