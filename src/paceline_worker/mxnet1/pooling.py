"""Pools with the graph's padding: MXNet's own is equal on both sides, other is put around the images before."""

from __future__ import annotations

from typing import Any, Tuple

import mxnet as mx

from paceline_worker.graph import MaxPool

Symbol = Any
LOWEST = -3.4e38  # below all that a network computes; MXNet's padding takes no infinity


def padded(op: Any, images: Symbol, filler: float) -> Tuple[Symbol, Tuple[int, int]]:
    """Images, and the padding that is left to the layer."""
    top, bottom, left, right = op.padding
    if top == bottom and left == right:
        return images, (top, left)
    around = (0, 0, 0, 0, *op.padding)
    return mx.sym.pad(images, mode="constant", pad_width=around, constant_value=filler), (0, 0)


def pool(op: Any, images: Symbol) -> Symbol:
    maximum = isinstance(op, MaxPool)
    source, padding = padded(op, images, LOWEST if maximum else 0.0)
    counted = maximum or op.count_padding
    if source is not images and not counted:
        raise NotImplementedError("MXNet cannot leave uneven padding out of an average pool's divisor.")
    settings = {"kernel": op.kernel, "stride": op.stride, "pad": padding, "count_include_pad": counted}
    return mx.sym.Pooling(source, pool_type="max" if maximum else "avg", **settings)
