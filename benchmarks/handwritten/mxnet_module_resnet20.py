"""ResNet-20 v2 for CIFAR-10 with MXNet's older interface: a symbol, and the steps that `Module.fit` takes.

One device:  OMP_NUM_THREADS=1 python -m benchmarks.handwritten.mxnet_module_resnet20 --cores 0
Two devices: OMP_NUM_THREADS=1 python -m benchmarks.handwritten.mxnet_module_resnet20 --devices 2 --cores 0,1

The losses are what the metric tells: the mean of the steps taken.
"""

from __future__ import annotations

import os
from typing import Any

import mxnet as mx

from benchmarks.handwritten import task
from benchmarks.handwritten.mxnet_resnet20 import fixed_batch


def convolution(images: Any, width: int, size: int, stride: int = 1) -> Any:
    sides = {"kernel": (size, size), "stride": (stride, stride), "pad": (size // 2, size // 2)}
    return mx.sym.Convolution(images, num_filter=width, no_bias=True, **sides)


def normalization(images: Any, *, scale: bool = True) -> Any:
    return mx.sym.BatchNorm(images, eps=task.EPSILON, momentum=task.DECAY, fix_gamma=not scale)


def activated(images: Any) -> Any:
    return mx.sym.Activation(normalization(images), act_type="relu")


def unit(images: Any, width: int, stride: int, projects: bool) -> Any:
    """Pre-activation; the first unit of a stage projects the activated input."""
    ready = activated(images)
    output = convolution(activated(convolution(ready, width, 3, stride)), width, 3)
    return output + (convolution(ready, width, 1, stride) if projects else images)


def resnet20() -> Any:
    features = convolution(normalization(mx.sym.Variable("data"), scale=False), 16, 3)
    for _, width, stride, projects in task.UNITS:
        features = unit(features, width, stride, projects)
    features = mx.sym.Pooling(activated(features), global_pool=True, kernel=(7, 7), pool_type="avg")
    logits = mx.sym.FullyConnected(mx.sym.Flatten(features), num_hidden=task.CLASSES)
    return mx.sym.SoftmaxOutput(logits, name="softmax")


def bound_module(batch: Any, devices: int) -> mx.mod.Module:
    """Module itself decays weights and gammas only, divides gradients by the batch, and splits it over the devices."""
    module = mx.mod.Module(resnet20(), context=[mx.cpu(index) for index in range(devices)])
    module.bind([("data", batch.data[0].shape)], [("softmax_label", batch.label[0].shape)])
    module.init_params(mx.init.Xavier("gaussian", "in", 2))
    settings = {"learning_rate": task.LEARNING_RATE, "momentum": task.MOMENTUM, "wd": task.WEIGHT_DECAY}
    module.init_optimizer("device", "sgd", settings)
    return module


def prepare(batch_size: int, devices: int = 1) -> task.Trainer:
    images, labels = fixed_batch(batch_size)
    batch = mx.io.DataBatch([images], [labels])
    module = bound_module(batch, devices)
    metric = mx.metric.CrossEntropy()

    def take(steps: int) -> list[float]:
        metric.reset()
        for _ in range(steps):
            module.forward_backward(batch)
            module.update()
            module.update_metric(metric, batch.label)
        mx.nd.waitall()
        return [float(metric.get()[1])]

    weights, _ = module.get_params()
    fixed = "batchnorm0_gamma"  # the symbol keeps it at 1
    return task.Trainer(take, sum(array.size for name, array in weights.items() if name != fixed))


def main() -> None:
    options = task.arguments(__doc__)
    os.sched_setaffinity(0, options.cores)
    task.report(task.measured(prepare(options.batch_size, options.devices), options))


if __name__ == "__main__":
    main()
