"""What `verify` may be asked, of which devices, and what it says where it cannot be answered."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import pytest

from paceline.catalog.frameworks import find
from paceline.store import certificates
from paceline.studies.equivalence.verification_cases import VerificationCase, VerificationMatrix
from paceline.studies.equivalence.verify import verification_job
from paceline.system.errors import UserError
from paceline_worker.frameworks.reference.backend import FrameworkBackend
from paceline_worker.graph import Graph
from paceline_worker.place import find_place
from paceline_worker.probe import device_batch, look
from paceline_worker.weights import initial_weights
from tests.factories.command_line import CommandLine
from tests.factories.machines import machine

TWO_CARDS = machine(gpus=("NVIDIA A100", "NVIDIA A100"))


def asked(**changes: Any) -> list[VerificationCase]:
    return VerificationMatrix(**{"workloads": ["mnist-mlp"], "devices": ["1xcpu"], **changes}).cases(TWO_CARDS)


def settings(**changes: Any) -> list[str]:
    return [question.setting for question in asked(**changes)]


def test_every_combination_is_a_question_but_one_device_has_the_whole_batch_and_several_are_always_wrapped() -> None:
    assert settings() == ["1xcpu"]
    assert settings(devices=["1xcpu", "2xcpu"], precisions=["float32", "bfloat16"], single="both") == [
        *("1xcpu", "1xcpu wrapped", "1xcpu bfloat16", "1xcpu bfloat16 wrapped"),
        *("2xcpu", "2xcpu bfloat16"),
    ]
    assert settings(devices=["1xcpu", "2xcpu"], shares=["equal", "2:1", "4:2", "3:3"]) == [
        "1xcpu",
        "2xcpu",
        "2xcpu 2:1",
    ]
    assert settings(single="wrapped", update="parameter_server") == ["1xcpu parameter_server wrapped"]


def test_batch_fits_the_shares() -> None:
    def images(**changes: Any) -> tuple[int, ...]:
        return asked(devices=["2xcpu"], **changes)[0].images()

    assert images() == (8, 8)
    assert images(shares=["2:1"]) == (12, 6)
    assert images(shares=["2:1"], batch_size=6) == (4, 2)
    assert images(shares=["1:3"], workloads=["imagenet-resnet50"]) == (1, 3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"devices": ["cuda:2"]}, r"There is no cuda:2 for the device set 'cuda:2'; this machine has cuda:0 \(NVIDIA"),
        ({"precisions": ["float16"]}, "Unknown precision 'float16'"),
        ({"devices": ["2xcpu"], "batch_size": 7}, "A batch of 7 cannot be split over 2 devices"),
        ({"devices": ["2xcpu"], "shares": ["2:1"], "batch_size": 16}, "cannot be divided 2:1; use a multiple of 3: 18"),
        ({"devices": ["2xcpu"], "shares": ["999:1"]}, "Shares 999:1 need 1000 images; say --batch-size 1000 if"),
        ({"devices": ["2xcpu"], "shares": ["measured"]}, "write equal or numbers such as 2:1"),
        ({"devices": ["2xcpu"], "shares": ["2:1:1"]}, "shares 2:1:1 are for 3 devices, but 2xcpu has 2"),
        ({"devices": ["2xcpu"], "shares": ["x"]}, "shares 'x': write equal"),
        ({"shares": ["2:1"]}, "One device has the whole batch, so shares 2:1 need several, such as 2xcpu"),
        (
            {"update": "parameter_server"},
            "One device has nobody to agree with by parameter_server; use --devices 2xcpu",
        ),
    ],
)
def test_what_cannot_be_asked_is_refused_before_anything_runs(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        asked(**changes)


def test_job_on_gpus_is_the_one_on_processors_but_for_its_devices() -> None:
    """No GPU has run it; the reference is given the same job, and computes it in NumPy all the same."""
    card, cards, cpus = (asked(devices=[text])[0] for text in ("cuda:1", "2xcuda", "2xcpu"))
    jobs = [verification_job(question, TWO_CARDS) for question in (card, cards, cpus)]
    assert [job.devices for job in jobs] == [("cuda:1",), ("cuda:0", "cuda:1"), ("cpu:0", "cpu:1")]
    assert jobs[1].shares == jobs[2].shares and all(jobs[0].cores)
    assert find("torch").framework.process_count(len(jobs[1].devices)) == 2
    shown = []
    for job in jobs[1:]:
        place, graph = find_place(job, {}), Graph.from_json(job.graph)
        backend = FrameworkBackend(job, place)
        backend.build(graph, initial_weights(graph, job.seed))
        shown.append(look(backend, device_batch(backend, job, place, 0)))
    assert all((shown[0][name] == shown[1][name]).all() for name in shown[1])


def test_what_a_framework_lacks_is_a_skip_with_its_reason() -> None:
    (unequal,) = asked(devices=["2xcpu"], shares=["2:1"])
    assert unequal.reason_to_skip(find("jax").framework) == "jax divides a batch equally"
    assert unequal.reason_to_skip(find("torch").framework) is None
    (mixed,) = asked(precisions=["bfloat16"])
    assert mixed.reason_to_skip(find("mxnet").framework) == "mxnet has no bfloat16, only float32"
    (cards,) = asked(devices=["2xcuda"])
    assert cards.reason_to_skip(find("reference").framework) == "reference has no cuda, only cpu"
    assert cards.reason_to_skip(find("torch").framework) is None
    (wrapped,) = asked(single="wrapped")
    assert wrapped.reason_to_skip(find("keras-torch").framework) == "keras-torch has no wrapper for one device"


@pytest.mark.slow
def test_command_keeps_what_was_asked(paceline: CommandLine) -> None:
    reference = ("verify", "mnist-mlp", "--framework", "reference,fake", "--batch-size", "6")
    ended = paceline(*reference, "--devices", "2xcpu", "--shares", "2:1", "--precision", "bfloat16")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert f"mnist-mlp reference {version('numpy')} 2xcpu bfloat16 2:1: equal" in ended.stdout
    assert "mnist-mlp fake 2xcpu bfloat16 2:1: skipped: fake has no bfloat16, only float32\n" in ended.stderr
    (kept,) = certificates.load(paceline.store)
    assert (kept.precision, kept.shares, kept.wrapped, kept.equal) == ("bfloat16", "2:1", False, True)


def test_gpu_that_is_not_there_is_one_line(paceline: CommandLine) -> None:
    ended = paceline("verify", "mnist-mlp", "--framework", "fake", "--devices", "cuda:99")
    assert ended.returncode == 1
    assert ended.stderr.startswith("paceline: There is no cuda:99 for the device set 'cuda:99'; this machine has ")
    assert ended.stderr.count("\n") == 1
