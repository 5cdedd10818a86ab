"""ResNet-20 v2 for CIFAR-10 as a TensorFlow user would write it by hand: a whole step in one tf.function.

One device:  TF_ENABLE_ONEDNN_OPTS=1 python -m benchmarks.handwritten.tensorflow_resnet20 --cores 0
Two devices: TF_ENABLE_ONEDNN_OPTS=1 python -m benchmarks.handwritten.tensorflow_resnet20 --devices 2 --cores 0,1
"""

from __future__ import annotations

import math
import os
from typing import Any

import tensorflow as tf

from benchmarks.handwritten import task

PER_DEVICE = {"synchronization": tf.VariableSynchronization.ON_READ, "aggregation": tf.VariableAggregation.MEAN}


def kernel(*shape: int) -> tf.Variable:
    return tf.Variable(tf.random.normal(shape, stddev=math.sqrt(2 / math.prod(shape[:-1]))), name="kernel")


class Convolution(tf.Module):
    def __init__(self, source: int, width: int, size: int, stride: int = 1) -> None:
        super().__init__()
        self.kernel, self.stride = kernel(size, size, source, width), stride

    def __call__(self, images: tf.Tensor) -> tf.Tensor:
        if self.stride == 1 or self.kernel.shape[0] == 1:
            return tf.nn.conv2d(images, self.kernel, self.stride, "SAME")
        images = tf.pad(images, [(0, 0), (1, 1), (1, 1), (0, 0)])  # SAME would pad one side only
        return tf.nn.conv2d(images, self.kernel, self.stride, "VALID")


class Normalization(tf.Module):
    def __init__(self, width: int, *, scale: bool = True) -> None:
        super().__init__()
        self.gamma = tf.Variable(tf.ones(width), name="gamma", trainable=scale)
        self.beta = tf.Variable(tf.zeros(width), name="beta")
        self.mean = tf.Variable(tf.zeros(width), trainable=False, **PER_DEVICE)
        self.variance = tf.Variable(tf.ones(width), trainable=False, **PER_DEVICE)

    def __call__(self, images: tf.Tensor) -> tf.Tensor:
        output, mean, variance = tf.compat.v1.nn.fused_batch_norm(
            images,
            self.gamma,
            self.beta,
            self.mean,
            self.variance,
            epsilon=task.EPSILON,
            exponential_avg_factor=1 - task.DECAY,
        )
        self.mean.assign(mean)
        self.variance.assign(variance)
        return output


class Unit(tf.Module):
    """Pre-activation; the first unit of a stage projects the activated input."""

    def __init__(self, source: int, width: int, stride: int, projects: bool) -> None:
        super().__init__()
        self.norm_a, self.norm_b = Normalization(source), Normalization(width)
        self.conv_a, self.conv_b = Convolution(source, width, 3, stride), Convolution(width, width, 3)
        self.shortcut = Convolution(source, width, 1, stride) if projects else None

    def __call__(self, images: tf.Tensor) -> tf.Tensor:
        ready = tf.nn.relu(self.norm_a(images))
        output = self.conv_b(tf.nn.relu(self.norm_b(self.conv_a(ready))))
        return output + (self.shortcut(ready) if self.shortcut else images)


class ResNet20(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm_images = Normalization(3, scale=False)  # MXNet fixes this gamma at 1
        self.stem = Convolution(3, 16, 3)
        self.units = [Unit(*unit) for unit in task.UNITS]
        self.norm_last = Normalization(64)
        self.head = kernel(64, task.CLASSES)
        self.bias = tf.Variable(tf.zeros(task.CLASSES), name="bias")

    def __call__(self, images: tf.Tensor) -> tf.Tensor:
        features = self.stem(self.norm_images(images))
        for unit in self.units:
            features = unit(features)
        features = tf.reduce_mean(tf.nn.relu(self.norm_last(features)), (1, 2))
        return tf.nn.bias_add(tf.matmul(features, self.head), self.bias)


def update(variable: tf.Variable, velocity: tf.Variable, gradient: tf.Tensor) -> None:
    """Momentum in one kernel; weight decay on kernels and gammas, none on betas and biases."""
    if variable.name.startswith(("kernel", "gamma")):
        gradient += task.WEIGHT_DECAY * variable
    tf.raw_ops.ResourceApplyMomentum(
        var=variable.handle, accum=velocity.handle, lr=task.LEARNING_RATE, grad=gradient, momentum=task.MOMENTUM
    )


def compiled_step(network: ResNet20, velocities: list[tf.Variable], strategy: tf.distribute.Strategy) -> Any:
    variables = network.trainable_variables

    def step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, network(images))
            loss = tf.reduce_mean(losses)
        gradients = tape.gradient(loss, variables)
        if strategy.num_replicas_in_sync > 1:
            gradients = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.MEAN, gradients)
        for variable, velocity, gradient in zip(variables, velocities, gradients, strict=True):
            update(variable, velocity, gradient)
        return loss

    return tf.function(lambda *batch: strategy.run(step, batch), autograph=False)


def fixed_batch(share: int, rank: int) -> tuple[tf.Tensor, tf.Tensor]:
    stream = tf.random.Generator.from_seed(1 + rank)
    images = stream.uniform((share, task.SIZE, task.SIZE, 3), -1, 1)
    return images, stream.uniform((share,), 0, task.CLASSES, tf.int64)


def start_devices(count: int, cores: list[int]) -> None:
    """CPU devices on these cores; the pools are shared, and none of one thread splits an op."""
    os.sched_setaffinity(0, cores)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(count)
    parts = [tf.config.LogicalDeviceConfiguration() for _ in range(count)]
    tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], parts)


def prepare(batch_size: int, devices: int = 1) -> task.Trainer:
    names = [f"cpu:{index}" for index in range(devices)]
    strategy = tf.distribute.MirroredStrategy(names) if devices > 1 else tf.distribute.get_strategy()
    with strategy.scope():
        network = ResNet20()
        velocities = [tf.Variable(tf.zeros_like(weight), trainable=False) for weight in network.trainable_variables]
    step = compiled_step(network, velocities, strategy)
    batch = strategy.experimental_distribute_values_from_function(
        lambda context: fixed_batch(batch_size // devices, context.replica_id_in_sync_group)
    )

    def take(steps: int) -> list[float]:
        losses = [step(*batch) for _ in range(steps)]
        tf.test.experimental.sync_devices()
        return [float(strategy.reduce(tf.distribute.ReduceOp.MEAN, loss, axis=None)) for loss in losses]

    return task.Trainer(take, sum(weight.shape.num_elements() for weight in network.trainable_variables))


def main() -> None:
    options = task.arguments(__doc__)
    start_devices(options.devices, options.cores)
    task.report(task.measured(prepare(options.batch_size, options.devices), options))


if __name__ == "__main__":
    main()
