"""ResNet-20 v2 for CIFAR-10 as a JAX user would write it by hand: the yardstick for Paceline's own loop.

One device:  python -m benchmarks.handwritten.jax_resnet20 --cores 0
Two devices: python -m benchmarks.handwritten.jax_resnet20 --devices 2 --cores 0,1
"""

from __future__ import annotations

import math
import os
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from benchmarks.handwritten import task

EVERY, SHARD = PartitionSpec(), PartitionSpec("devices")

Tree = Any  # nested dicts and lists of arrays


def initial_parameters(key: jax.Array) -> Tree:
    keys = iter(jax.random.split(key, 40))

    def kernel(*shape: int) -> jax.Array:
        return jax.random.normal(next(keys), shape) * math.sqrt(2 / math.prod(shape[:-1]))

    def norm(width: int) -> Tree:
        return {"gamma": jnp.ones(width), "beta": jnp.zeros(width)}

    def unit(source: int, width: int, projects: bool) -> Tree:
        convolutions = {"conv_a": kernel(3, 3, source, width), "conv_b": kernel(3, 3, width, width)}
        shortcut = {"shortcut": kernel(1, 1, source, width)} if projects else {}
        return {"norm_a": norm(source), "norm_b": norm(width), **convolutions, **shortcut}

    return {
        "norm_images": {"beta": jnp.zeros(3)},  # MXNet fixes this gamma at 1
        "stem": kernel(3, 3, 3, 16),
        "units": [unit(source, width, projects) for source, width, _, projects in task.UNITS],
        "norm_last": norm(64),
        "head": {"kernel": kernel(64, task.CLASSES), "bias": jnp.zeros(task.CLASSES)},
    }


def initial_statistics(devices: int) -> Tree:
    """Running mean and variance of each normalisation, with one row for each device."""
    widths = [3, *(width for source, out, _, _ in task.UNITS for width in (source, out)), 64]
    return [(jnp.zeros((devices, width)), jnp.ones((devices, width))) for width in widths]


def convolution(images: jax.Array, kernel: jax.Array, stride: int = 1) -> jax.Array:
    sides = (kernel.shape[0] // 2,) * 2
    return lax.conv_general_dilated(
        images, kernel, (stride, stride), (sides, sides), dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def normalization(images: jax.Array, own: Tree, observed: list[Any]) -> jax.Array:
    """Normalise with the batch's statistics, and leave them in `observed`."""
    mean, variance = images.mean((0, 1, 2)), images.var((0, 1, 2))
    count = images.size // images.shape[-1]
    observed.append((mean, variance * (count / (count - 1))))
    scale = lax.rsqrt(variance + task.EPSILON) * own.get("gamma", 1.0)
    return images * scale + (own["beta"] - mean * scale)


def residual(images: jax.Array, own: Tree, stride: int, observed: list[Any]) -> jax.Array:
    ready = jax.nn.relu(normalization(images, own["norm_a"], observed))
    output = convolution(ready, own["conv_a"], stride)
    output = convolution(jax.nn.relu(normalization(output, own["norm_b"], observed)), own["conv_b"])
    return output + (convolution(ready, own["shortcut"], stride) if "shortcut" in own else images)


def loss(parameters: Tree, images: jax.Array, labels: jax.Array) -> tuple[jax.Array, list[Any]]:
    """Mean cross-entropy, and the statistics of all normalisations."""
    observed: list[Any] = []
    features = convolution(normalization(images, parameters["norm_images"], observed), parameters["stem"])
    for own, (_, _, stride, _) in zip(parameters["units"], task.UNITS, strict=True):
        features = residual(features, own, stride, observed)
    features = jax.nn.relu(normalization(features, parameters["norm_last"], observed)).mean((1, 2))
    logits = features @ parameters["head"]["kernel"] + parameters["head"]["bias"]
    chosen = jnp.take_along_axis(logits, labels[:, None], axis=-1)[:, 0]
    return (jax.nn.logsumexp(logits, axis=-1) - chosen).mean(), observed


def decay(path: Any, weight: jax.Array, gradient: jax.Array) -> jax.Array:
    """Weight decay on kernels and gammas, none on betas and biases."""
    return gradient if path[-1].key in ("beta", "bias") else gradient + task.WEIGHT_DECAY * weight


def step(
    parameters: Tree, velocity: Tree, statistics: Tree, images: jax.Array, labels: jax.Array, *, devices: int
) -> tuple[Tree, Tree, Tree, jax.Array]:
    (value, observed), gradient = jax.value_and_grad(loss, has_aux=True)(parameters, images, labels)
    if devices > 1:
        gradient, value = lax.pmean((gradient, value), "devices")
    gradient = jax.tree_util.tree_map_with_path(decay, parameters, gradient)
    velocity = jax.tree.map(lambda v, g: task.MOMENTUM * v + g, velocity, gradient)
    parameters = jax.tree.map(lambda w, v: w - task.LEARNING_RATE * v, parameters, velocity)
    statistics = jax.tree.map(lambda old, new: task.DECAY * old + (1 - task.DECAY) * new, statistics, observed)
    return parameters, velocity, statistics, value


def compiled_step(mesh: Mesh) -> Any:
    """One program for all devices; old weights, velocities and statistics give their memory to the new ones."""
    one = partial(step, devices=mesh.size)
    if mesh.size > 1:
        one = jax.shard_map(
            one,
            mesh=mesh,
            in_specs=(EVERY, EVERY, SHARD, SHARD, SHARD),
            out_specs=(EVERY, EVERY, SHARD, EVERY),
            check_vma=False,
        )
    return jax.jit(one, donate_argnums=(0, 1, 2))


def train(run: Any, state: Tree, batch: tuple[jax.Array, jax.Array], steps: int) -> tuple[Tree, list[jax.Array]]:
    """Take so many steps and wait for the last; the new state and the loss of each step."""
    losses = []
    for _ in range(steps):
        *state, value = run(*state, *batch)
        losses.append(value)
    return jax.block_until_ready((state, losses))


def start_devices(count: int, cores: list[int]) -> None:
    """CPU devices with one thread each, on these cores."""
    os.sched_setaffinity(0, cores)
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", count)


def fixed_batch(size: int) -> tuple[jax.Array, jax.Array]:
    images_key, labels_key = jax.random.split(jax.random.key(1))
    images = jax.random.uniform(images_key, (size, task.SIZE, task.SIZE, 3), minval=-1, maxval=1)
    return images, jax.random.randint(labels_key, (size,), 0, task.CLASSES)


def prepare(batch_size: int, devices: int = 1) -> task.Trainer:
    mesh = jax.make_mesh((devices,), ("devices",))
    every, shard = NamedSharding(mesh, EVERY), NamedSharding(mesh, SHARD)
    parameters = jax.device_put(initial_parameters(jax.random.key(0)), every)
    count = sum(leaf.size for leaf in jax.tree.leaves(parameters))
    velocity = jax.device_put(jax.tree.map(jnp.zeros_like, parameters), every)
    state = [parameters, velocity, jax.device_put(initial_statistics(devices), shard)]
    batch = jax.device_put(fixed_batch(batch_size), shard)
    run = compiled_step(mesh)

    def take(steps: int) -> list[float]:
        state[:], losses = train(run, state, batch, steps)
        return [float(value) for value in losses]

    return task.Trainer(take, count)


def main() -> None:
    options = task.arguments(__doc__)
    start_devices(options.devices, options.cores)
    task.report(task.measured(prepare(options.batch_size, options.devices), options))


if __name__ == "__main__":
    main()
