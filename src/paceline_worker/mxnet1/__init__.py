"""What the two frameworks that train on MXNet 1 share."""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its imports are older than this Python
    import mxnet  # noqa: F401 - so that it is here, and quiet, when the modules of this folder want it
