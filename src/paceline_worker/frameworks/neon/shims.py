"""What neon 2.6.0, of 2018, needs to run on the Python and NumPy of today."""

from __future__ import annotations

import inspect
from collections import namedtuple
from typing import Any

import numpy as np

ArgSpec = namedtuple("ArgSpec", "args varargs keywords defaults")


def getargspec(function: Any) -> ArgSpec:
    return ArgSpec(*inspect.getfullargspec(function)[:4])


def prepare() -> None:
    """Bring back names that neon uses; to be called before it is imported.

    Two more things are avoided instead. Its one-hot labels need a NumPy before 1.23: they are made outside of it.
    Its callbacks, and with them its `Model.fit`, need an h5py before 3: the steps are driven without them.
    """
    if not hasattr(inspect, "getargspec"):
        inspect.getargspec = getargspec  # type: ignore[attr-defined]  # Python 3.11 has no more; every neon object calls it
    for kind in (float, int):
        # NumPy 1.24 has no more np.float and np.int, which its cross-entropy and its scalars use; 1.20 to 1.23 warn.
        if kind.__name__ not in vars(np):
            setattr(np, kind.__name__, kind)
