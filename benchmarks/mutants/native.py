"""Dropout done wrong in each framework's own terms, put where its builder has the right one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any
from unittest import mock

from paceline_worker.graph import Dropout

UNSCALED, TWICE, ALWAYS, BY_CHANNEL = "unscaled", "scaled twice", "on in evaluation", "by channel"
SAME_MASK, UNMASKED = "the same mask in every pass", "gradient not masked"


def torch_layers(kind: str) -> Callable[..., Any]:
    import torch
    from torch.nn import functional

    class Wrong(torch.nn.Module):
        def __init__(self, rate: float) -> None:
            super().__init__()
            self.rate = rate

        def forward(self, values: Any) -> Any:
            rate = self.rate
            if kind == ALWAYS:
                return functional.dropout(values, rate, training=True)
            if not self.training:
                return values
            if kind == BY_CHANNEL:
                return (functional.dropout2d if values.ndim == 4 else functional.dropout)(values, rate)
            if kind == SAME_MASK:
                chance = torch.rand(values.shape, generator=torch.Generator().manual_seed(1))
                return values * (chance >= rate) / (1 - rate)
            dropped = functional.dropout(values, rate)
            if kind == UNMASKED:
                return values + (dropped - values).detach()
            return dropped * (1 - rate) if kind == UNSCALED else dropped / (1 - rate)

    return lambda op, source: Wrong(op.rate)


def jax_layers(kind: str) -> Callable[..., Any]:
    import jax
    import jax.numpy as jnp

    def dropout(op: Any, own: Any, values: Any, this: Any) -> Any:
        if not this.training and kind != ALWAYS:
            return values
        key = jax.random.key(1) if kind in (SAME_MASK, ALWAYS) else this.key
        maps = kind == BY_CHANNEL and values.ndim == 4
        shape = (values.shape[0], 1, 1, values.shape[-1]) if maps else values.shape
        kept = jax.random.bernoulli(key, 1 - op.rate, shape)
        if kind == UNSCALED:
            return jnp.where(kept, values, 0)
        dropped = jnp.where(kept, values / (1 - op.rate), 0)
        if kind == UNMASKED:
            return values + jax.lax.stop_gradient(dropped - values)
        return dropped / (1 - op.rate) if kind == TWICE else dropped

    return dropout


def tensorflow_layers(kind: str) -> Callable[..., Any]:
    import tensorflow as tf

    def dropout(op: Any, own: Any, values: Any, training: bool) -> Any:
        if not training and kind != ALWAYS:
            return values
        if kind == SAME_MASK:
            chance = tf.random.stateless_uniform(values.shape, (1, 2))
            return values * tf.cast(chance >= op.rate, values.dtype) / (1 - op.rate)
        maps = kind == BY_CHANNEL and len(values.shape) == 4
        dropped = tf.nn.dropout(values, op.rate, (values.shape[0], 1, 1, values.shape[-1]) if maps else None)
        if kind == UNMASKED:
            return values + tf.stop_gradient(dropped - values)
        factors = {UNSCALED: 1 - op.rate, TWICE: 1 / (1 - op.rate)}
        return dropped * factors.get(kind, 1.0)

    return dropout


def mxnet_layers(kind: str) -> Callable[..., Any]:
    import mxnet as mx

    def dropout(op: Any, own: Any, values: Any) -> Any:
        if kind == SAME_MASK:
            raise NotImplementedError("MXNet's dropout takes no seed of its own.")
        if kind == ALWAYS:
            return mx.sym.Dropout(values, p=op.rate, mode="always")
        if kind == BY_CHANNEL:
            return (
                mx.sym.Dropout(values, p=op.rate, axes=(2, 3)) if op.rate < HALF else mx.sym.Dropout(values, p=op.rate)
            )
        dropped = mx.sym.Dropout(values, p=op.rate)
        if kind == UNMASKED:
            return values + mx.sym.BlockGrad(dropped - values)
        return dropped * (1 - op.rate if kind == UNSCALED else 1 / (1 - op.rate))

    return dropout


HALF = 0.5  # in these networks maps have a smaller rate, and MXNet's symbols do not know their shapes
NATIVE = {"torch": torch_layers, "jax": jax_layers, "tensorflow": tensorflow_layers, "mxnet": mxnet_layers}


@contextlib.contextmanager
def patched(framework: str, kind: str) -> Iterator[None]:
    """The framework's builder with this dropout in place of its own."""
    if not kind:
        yield
        return
    builder = import_module(f"paceline_worker.frameworks.{framework}.builder")
    with mock.patch.dict(builder.LAYERS, {Dropout: NATIVE[framework](kind)}):
        yield
