"""Words of the published texts, and of the programs that they measured, for what has another name here.

An error gives the right word; none of them is an alias. Some mean several things here (`keras`, `resnet50`), and the
others would give one thing two names: one in the command, another in its results.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

KERAS = ("keras-tensorflow", "keras-mxnet", "keras-jax", "keras-torch")
RESNET50 = ("cifar10-resnet50", "cifar10-resnet50-keras", "imagenet-resnet50")
MEANINGS: Mapping[str, Mapping[str, tuple[str, ...]]] = {  # by what is named
    "data source": {
        "fake:gpu": ("fake:device",),
        "gpu": ("fake:device",),
        "fake:cpu": ("fake:host",),
        "cpu": ("fake:host",),
        "python": ("fake:python",),
    },
    "framework": {
        "tf_cnn_benchmarks": ("tensorflow",),
        "tf_cnn_benchmarks.py": ("tensorflow",),
        "tensorflow/benchmarks": ("tensorflow",),
        "keras": KERAS,
        "pytorch": ("torch",),
    },
    "workload": {
        "resnet20": ("cifar10-resnet20",),
        "resnet50": RESNET50,
        "resnet110": ("cifar10-resnet110",),
        "inception": ("cifar10-inception-v3",),
        "inception_v3": ("cifar10-inception-v3",),
        "cifar10_conv.py": ("cifar10-conv",),
        "lenet": ("mnist-lenet",),
        "mlp": ("mnist-mlp",),
    },
}
DEVICES = (  # patterns of whole words, and what they are here
    (r"0 ?x? ?(?:[cg]pus?|cuda)?|cpus?(?::0)?", "1xcpu"),
    (r"gpus?|cuda", "1xcuda"),
    (r"([1-9]\d{0,3}) ?x? ?cpus?", r"\1xcpu"),
    (r"([1-9]\d{0,3}) ?x? ?gpus?", r"\1xcuda"),
    (r"gpu:(\d{1,4})", r"cuda:\1"),
)
LONGEST = 30  # letters of a word
NO_GPUS = "Training on 0 GPUs is --devices 1xcpu."


def meaning(what: str, word: str) -> str:
    """The right word, or all that it may be; empty for a word that is in no text."""
    if len(word) > LONGEST:
        return ""
    known = {_spelling(each): meant for each, meant in MEANINGS.get(what, {}).items()}
    *others, last = known.get(_spelling(word), ("",))
    return f"{', '.join(others)} or {last}" if others else last


def _spelling(word: str) -> str:
    """ResNet-50, resnet_50 and resnet50 are one word."""
    return re.sub(r"[-_ ]", "", word.lower())


def devices_meant(text: str) -> str:
    """The device set as it is written here; empty for what is in no text."""
    for pattern, meant in DEVICES if len(text) <= LONGEST else ():
        if found := re.fullmatch(pattern, text, re.IGNORECASE):
            return found.expand(meant)
    return ""


def filter_meant(name: str, value: str) -> str:
    """Likewise for a filter of stored cells."""
    return devices_meant(value) if name == "devices" else meaning({"data": "data source"}.get(name, name), value)
