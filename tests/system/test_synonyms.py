"""The words of the published texts are answered with exactly the right ones."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.analysis.rows.table_rows import chosen_rows
from paceline.catalog.frameworks import all_frameworks
from paceline.catalog.workloads import WORKLOADS
from paceline.plan.devices import parse_devices
from paceline.plan.matrix import SOURCES, cells_of
from paceline.plan.suite import make_suite
from paceline.system.errors import UserError
from paceline.system.text.synonyms import MEANINGS, devices_meant
from tests.factories.command_line import CommandLine
from tests.factories.flags import settings_of
from tests.factories.machines import machine

KERAS = "keras-tensorflow, keras-mxnet, keras-jax or keras-torch"


def refused(**choices: Any) -> str:
    suite = make_suite({"workload": "cifar10-conv", "framework": "fake", **choices}, "the test")
    with pytest.raises(UserError) as caught:
        cells_of(suite, machine())
    return str(caught.value)


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        ({"data": "fake:gpu"}, "Unknown data source 'fake:gpu': here that is fake:device."),
        ({"data": "fake:cpu"}, "Unknown data source 'fake:cpu': here that is fake:host."),
        ({"data": "gpu"}, "Unknown data source 'gpu': here that is fake:device."),
        ({"data": "cpu"}, "Unknown data source 'cpu': here that is fake:host."),
        ({"data": "python"}, "Unknown data source 'python': here that is fake:python."),
        ({"framework": "tf_cnn_benchmarks"}, "Unknown framework 'tf_cnn_benchmarks': here that is tensorflow."),
        ({"framework": "tf_cnn_benchmarks.py"}, "Unknown framework 'tf_cnn_benchmarks.py': here that is tensorflow."),
        ({"framework": "tensorflow/benchmarks"}, "Unknown framework 'tensorflow/benchmarks': here that is tensorflow."),
        ({"framework": "keras"}, f"Unknown framework 'keras': here that is {KERAS}."),
        ({"framework": "Keras"}, f"Unknown framework 'Keras': here that is {KERAS}."),
        ({"framework": "PyTorch"}, "Unknown framework 'PyTorch': here that is torch."),
        ({"workload": "resnet110"}, "Unknown workload 'resnet110': here that is cifar10-resnet110."),
        ({"workload": "ResNet-110"}, "Unknown workload 'ResNet-110': here that is cifar10-resnet110."),
        ({"workload": "resnet20"}, "Unknown workload 'resnet20': here that is cifar10-resnet20."),
        (
            {"workload": "resnet50"},
            "Unknown workload 'resnet50': here that is cifar10-resnet50, cifar10-resnet50-keras or imagenet-resnet50.",
        ),
        ({"workload": "Inception_v3"}, "Unknown workload 'Inception_v3': here that is cifar10-inception-v3."),
        ({"workload": "inception"}, "Unknown workload 'inception': here that is cifar10-inception-v3."),
        ({"workload": "cifar10_conv.py"}, "Unknown workload 'cifar10_conv.py': here that is cifar10-conv."),
        ({"workload": "lenet"}, "Unknown workload 'lenet': here that is mnist-lenet."),
        ({"workload": "mlp"}, "Unknown workload 'mlp': here that is mnist-mlp."),
    ],
)
def test_word_of_a_text_is_answered_with_the_right_one(choices: dict[str, str], said: str) -> None:
    assert refused(**choices) == said


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("0", "1xcpu"),
        ("0xcpu", "1xcpu"),
        ("0xcuda", "1xcpu"),
        ("0xgpu", "1xcpu"),
        ("0 GPUs", "1xcpu"),
        ("cpu", "1xcpu"),
        ("cpu:0", "1xcpu"),
        ("gpu", "1xcuda"),
        ("cuda", "1xcuda"),
        ("gpu:1", "cuda:1"),
        ("2xgpu", "2xcuda"),
        ("3GPU", "3xcuda"),
        ("8 gpus", "8xcuda"),
        ("2cpu", "2xcpu"),
        ("2xCPU", "2xcpu"),
    ],
)
def test_devices_of_a_text_are_answered_with_the_right_ones(word: str, meant: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_devices(word)
    assert str(caught.value) == f"Unknown devices {word!r}: here that is {meant}."
    parse_devices(meant)


def test_every_meaning_is_a_name_and_every_word_is_none() -> None:
    names = {"data source": set(SOURCES), "framework": set(all_frameworks()), "workload": set(WORKLOADS)}
    for what, words in MEANINGS.items():
        assert {name for meant in words.values() for name in meant} <= names[what]
        assert not words.keys() & names[what]


@given(st.text("0123456789xcpugdas: GPU+", max_size=10))
@settings(deadline=None)
def test_devices_that_are_meant_are_devices(text: str) -> None:
    if meant := devices_meant(text):
        assert parse_devices(meant).count > 0


@pytest.mark.parametrize("text", ["cpu", "", "none", "-1", "0.5", "cuda:0", "0,x"])
def test_cards_that_are_no_numbers_are_refused_with_what_training_without_them_is(text: str) -> None:
    with pytest.raises(UserError) as caught:
        settings_of(f"--gpus={text}")
    told = f"--gpus {text!r}: give the numbers of cards from 0 up, such as 0,2. Training on 0 GPUs is --devices 1xcpu."
    assert str(caught.value) == told


def test_cards_are_numbers_and_0_is_the_first() -> None:
    assert settings_of("--gpus", "0") == {"devices": ("cuda:0",)}
    assert settings_of("--gpus", "0, 2") == {"devices": ("cuda:0+cuda:2",)}


def test_answer_is_one_line(paceline: CommandLine) -> None:
    ended = paceline.here("plan", "resnet110", "--data", "fake:gpu")
    assert ended.returncode == 1
    assert ended.stderr == "paceline: Unknown workload 'resnet110': here that is cifar10-resnet110.\n"
    ended = paceline.here("plan", "cifar10-conv", "--scale", "0,1")
    assert ended.stderr.endswith("such as 1,2,4. Training on 0 GPUs is --devices 1xcpu.\n")


def test_filter_of_results_is_answered_likewise(tmp_path: Path) -> None:
    for name, value, meant in (("framework", "keras", KERAS), ("data", "fake:gpu", "fake:device")):
        with pytest.raises(UserError, match=re.escape(f"No results match --{name} {value!r} (here that is {meant});")):
            chosen_rows(tmp_path, {name: value})


def test_value_of_a_list_that_is_no_number_is_named() -> None:
    with pytest.raises(UserError, match=r"^--lr 'x' is not a number\.$"):
        settings_of("--lr", "0.1,x")
    assert settings_of("--lr", "0.1,0.2", "--epochs", "1,2.5") == {"lr": (0.1, 0.2), "epochs": (1.0, 2.5)}
