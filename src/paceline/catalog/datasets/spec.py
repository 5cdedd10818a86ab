"""What is known of a data set before it is fetched: its arrays, their checksum, where and in which forms it comes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.uint8]
Say = Callable[[str], None]


@dataclass(frozen=True)
class PublishedForm:
    """One way in which a data set is published: files with exactly these sizes, and how they become arrays."""

    title: str
    folder: str  # where the files are inside an archive
    sizes: Mapping[str, int]
    arrays: Callable[[Mapping[str, bytes]], dict[str, Array]]


class ArchiveSource(Protocol):
    """A place from which an archive can be fetched."""

    @property
    def title(self) -> str: ...

    def fetch(self, folder: Path) -> Path:
        """The archive, in this folder; `UserError` says why it cannot be had."""


@dataclass(frozen=True)
class DatasetSpec:
    """A data set as Paceline keeps it, whatever the form in which it came."""

    name: str
    shapes: Mapping[str, tuple[int, ...]]  # of each array of bytes, in the order of the checksum; channels last
    checksum: str  # SHA-256 of the bytes of all arrays, one after the other
    forms: tuple[PublishedForm, ...]
    sources: tuple[ArchiveSource, ...]  # in the order in which they are tried
