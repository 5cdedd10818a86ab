"""How well-known training programs print their speed and accuracy."""

from __future__ import annotations

from paceline.plan.external.command import OutputMetric

NUMBER = r"(?P<value>[0-9][0-9.,]*(?:[eE][-+]?[0-9]+)?)"


def _median(name: str, pattern: str) -> OutputMetric:
    return OutputMetric(name=name, pattern=pattern.replace("NUMBER", NUMBER), take="median")


def _last(name: str, pattern: str, percent: str = "") -> OutputMetric:
    return OutputMetric(name=name, pattern=pattern.replace("NUMBER", NUMBER), take="last", percent=percent)


# Keras prints a line for every step of its progress bar; one with all samples, or steps, done ends an epoch. With
# validation it is drawn again, and then includes it: where there is such a line, it counts.
KERAS_END = r"(?:^|\s)(\d+)/\1 .*?[ -]NUMBER"
KERAS_VALIDATED = r"\b.*\bval_"

PRESETS: dict[str, tuple[OutputMetric, ...]] = {
    "mxnet": (
        _median("images/s", r"Speed: NUMBER samples/sec"),
        _last("accuracy", r"Validation-accuracy=NUMBER"),
        _last("training accuracy", r"Epoch\[\d+\] Train-accuracy=NUMBER"),
        _median("s/epoch", r"Time cost=NUMBER"),
    ),
    "tf_cnn_benchmarks": (
        _last("images/s", r"^total images/sec: NUMBER"),
        _last("images/s", r"images/sec: NUMBER \+/-"),  # each such line is about all steps so far
        _last("accuracy", r"Accuracy @ 1 = NUMBER"),
    ),
    "keras": (
        _last("accuracy", r"\bval_acc(?:uracy)?: NUMBER"),
        _last("training accuracy", r"(?<!val_)\bacc(?:uracy)?: NUMBER"),
        _median("s/epoch", KERAS_END + "s" + KERAS_VALIDATED),
        _median("s/epoch", KERAS_END + r"s\b"),
        _median("s/epoch", r"^ ?- NUMBERs - "),  # one line per epoch, in old versions
        _median("ms/step", KERAS_END + "ms/step" + KERAS_VALIDATED),
        _median("ms/step", KERAS_END + "ms/step"),
    ),
    "neon": (
        _last("accuracy", r"Misclassification error = NUMBER ?%", percent="wrong"),
        _median("s/epoch", r"\b(\d+)/\1 +batches, .*?NUMBERs\]"),
    ),
    "none": (),
}
