"""ResNet-20 v2 for CIFAR-10 as an MXNet user would write it by hand: Gluon, hybridized, with static memory and shapes.

One device:  OMP_NUM_THREADS=1 python -m benchmarks.handwritten.mxnet_resnet20 --cores 0
Two devices: OMP_NUM_THREADS=1 python -m benchmarks.handwritten.mxnet_resnet20 --devices 2 --cores 0,1
"""

from __future__ import annotations

import math
import os
from typing import Any

import mxnet as mx
from mxnet import autograd, gluon
from mxnet.gluon import nn

from benchmarks.handwritten import task


def convolution(source: int, width: int, size: int, stride: int = 1) -> nn.Conv2D:
    return nn.Conv2D(width, size, stride, size // 2, in_channels=source, use_bias=False)


def normalization(width: int, *, scale: bool = True) -> nn.BatchNorm:
    return nn.BatchNorm(momentum=task.DECAY, epsilon=task.EPSILON, scale=scale, in_channels=width)


class Unit(gluon.HybridBlock):
    """Pre-activation; the first unit of a stage projects the activated input."""

    def __init__(self, source: int, width: int, stride: int, projects: bool) -> None:
        super().__init__()
        self.norm_a, self.norm_b = normalization(source), normalization(width)
        self.conv_a, self.conv_b = convolution(source, width, 3, stride), convolution(width, width, 3)
        self.shortcut = convolution(source, width, 1, stride) if projects else None

    def hybrid_forward(self, F: Any, images: Any) -> Any:  # noqa: N803 - Gluon's name
        ready = F.relu(self.norm_a(images))
        output = self.conv_b(F.relu(self.norm_b(self.conv_a(ready))))
        return output + (self.shortcut(ready) if self.shortcut else images)


def resnet20() -> nn.HybridSequential:
    network = nn.HybridSequential()
    network.add(normalization(3, scale=False), convolution(3, 16, 3))  # MXNet's own network fixes this gamma at 1
    network.add(*(Unit(*unit) for unit in task.UNITS))
    network.add(normalization(64), nn.Activation("relu"), nn.GlobalAvgPool2D())
    network.add(nn.Dense(task.CLASSES, in_units=64))
    return network


def optimizer_for(network: nn.HybridSequential) -> gluon.Trainer:
    """Weight decay on kernels and gammas, none on betas and biases."""
    network.collect_params(".*beta|.*bias").setattr("wd_mult", 0.0)
    settings = {"learning_rate": task.LEARNING_RATE, "momentum": task.MOMENTUM, "wd": task.WEIGHT_DECAY}
    return gluon.Trainer(network.collect_params(), "sgd", settings, kvstore="device")


def fixed_batch(size: int) -> tuple[Any, Any]:
    mx.random.seed(1)
    images = mx.nd.random.uniform(-1, 1, (size, 3, task.SIZE, task.SIZE))
    return images, mx.nd.random.randint(0, task.CLASSES, (size,)).astype("float32")


def prepare(batch_size: int, devices: int = 1) -> task.Trainer:
    contexts = [mx.cpu(index) for index in range(devices)]
    network = resnet20()
    network.initialize(mx.init.Xavier("gaussian", "in", 2), contexts)
    network.hybridize(static_alloc=True, static_shape=True)
    cross_entropy = gluon.loss.SoftmaxCrossEntropyLoss()
    cross_entropy.hybridize(static_alloc=True, static_shape=True)
    trainer = optimizer_for(network)
    parts = list(zip(*(gluon.utils.split_and_load(array, contexts) for array in fixed_batch(batch_size)), strict=True))

    def step() -> list[Any]:
        with autograd.record():
            losses = [cross_entropy(network(images), labels) for images, labels in parts]
        autograd.backward(losses)
        trainer.step(batch_size)
        return [loss.mean() for loss in losses]

    def take(steps: int) -> list[float]:
        found = [step() for _ in range(steps)]
        mx.nd.waitall()
        return [sum(float(loss.asscalar()) for loss in losses) / devices for losses in found]

    trained = [weight for weight in network.collect_params().values() if weight.grad_req != "null"]
    return task.Trainer(take, sum(math.prod(weight.shape) for weight in trained))


def main() -> None:
    options = task.arguments(__doc__)
    os.sched_setaffinity(0, options.cores)
    task.report(task.measured(prepare(options.batch_size, options.devices), options))


if __name__ == "__main__":
    main()
