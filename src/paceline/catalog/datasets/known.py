"""The data sets that can be had by name."""

from __future__ import annotations

from paceline.catalog.datasets import cifar10
from paceline.catalog.datasets.spec import DatasetSpec
from paceline.system.errors import unknown

KNOWN = {cifar10.SPEC.name: cifar10.SPEC}


def known(name: str) -> DatasetSpec:
    if name not in KNOWN:
        raise unknown("data set", name, KNOWN)
    return KNOWN[name]
