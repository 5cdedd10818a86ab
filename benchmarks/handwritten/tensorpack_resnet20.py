"""ResNet-20 v2 for CIFAR-10 as a Tensorpack user would write it: its layers, its trainer and its main loop.

One device: TF_ENABLE_ONEDNN_OPTS=1 python -m benchmarks.handwritten.tensorpack_resnet20 --cores 0

Its trainers for several devices want GPUs, so there is no script for two processors.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import tensorflow as tf

tf.compat.v1.disable_v2_behavior()  # before Tensorpack looks at it

import tensorpack as tp  # noqa: E402

from benchmarks.handwritten import task  # noqa: E402
from benchmarks.handwritten.rein import Rein  # noqa: E402

v1 = tf.compat.v1
HE_NORMAL = v1.keras.initializers.he_normal()
ENDLESS = 10**9  # steps


def convolution(name: str, images: Any, width: int, size: int, stride: int = 1) -> Any:
    padding = "same"
    if size > 1 and stride > 1:  # "same" would pad one side only
        images, padding = tf.pad(images, [(0, 0), (1, 1), (1, 1), (0, 0)]), "valid"
    settings = {"strides": stride, "padding": padding, "use_bias": False, "kernel_initializer": HE_NORMAL}
    return tp.Conv2D(name, images, width, size, **settings)


def normalization(name: str, images: Any, *, scale: bool = True) -> Any:
    return tp.BatchNorm(name, images, momentum=task.DECAY, epsilon=task.EPSILON, scale=scale)


def unit(images: Any, width: int, stride: int, projects: bool) -> Any:
    """Pre-activation; the first unit of a stage projects the activated input."""
    ready = tf.nn.relu(normalization("norm_a", images))
    output = tf.nn.relu(normalization("norm_b", convolution("conv_a", ready, width, 3, stride)))
    return convolution("conv_b", output, width, 3) + (
        convolution("shortcut", ready, width, 1, stride) if projects else images
    )


def resnet20(images: Any) -> Any:
    features = normalization("norm_images", images, scale=False)  # MXNet fixes this gamma at 1
    features = convolution("stem", features, 16, 3)
    for index, (_, width, stride, projects) in enumerate(task.UNITS):
        with v1.variable_scope(f"unit{index}"):
            features = unit(features, width, stride, projects)
    features = tp.GlobalAvgPooling("pool", tf.nn.relu(normalization("norm_last", features)))
    return tp.FullyConnected("head", features, task.CLASSES, kernel_initializer=HE_NORMAL)


class Model(tp.ModelDesc):
    def __init__(self, batch_size: int) -> None:
        self._batch_size = batch_size

    def inputs(self) -> list[tf.TensorSpec]:
        images = tf.TensorSpec((self._batch_size, task.SIZE, task.SIZE, 3), tf.float32, "images")
        return [images, tf.TensorSpec((self._batch_size,), tf.int32, "labels")]

    def build_graph(self, images: Any, labels: Any) -> Any:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=resnet20(images))
        loss = tf.reduce_mean(losses, name="loss")
        return loss + task.WEIGHT_DECAY * tp.regularize_cost(".*/(W|gamma)", tf.nn.l2_loss)

    def optimizer(self) -> Any:
        return v1.train.MomentumOptimizer(task.LEARNING_RATE, task.MOMENTUM)


def fixed_batch(size: int) -> list[Any]:
    """Tensors of the tower that is being built, on its device; Tensorpack's own dummy input is all zeros."""
    stream = np.random.default_rng(1)
    images = stream.uniform(-1, 1, (size, task.SIZE, task.SIZE, 3)).astype(np.float32)
    return [tf.constant(images), tf.constant(stream.integers(0, task.CLASSES, size, dtype=np.int32))]


class Steps(tp.Callback):
    """Holds the main loop before each step that it may not take yet, and tells its losses."""

    def __init__(self, rein: Rein) -> None:
        self._rein = rein
        self.parameters = 0

    def _setup_graph(self) -> None:
        self.parameters = sum(weight.shape.num_elements() for weight in v1.trainable_variables())

    def _before_run(self, context: Any) -> Any:
        self._rein.before_step()
        return v1.train.SessionRunArgs("loss:0")

    def _after_run(self, context: Any, values: Any) -> None:
        self._rein.after_step(float(values.results))


def launch(batch_size: int, steps: Steps) -> None:
    """Train for ever on one device with one thread, without the progress bar and the summaries."""
    session = tp.get_default_sess_config()
    session.inter_op_parallelism_threads = 1
    config = tp.TrainConfig(
        model=Model(batch_size),
        data=tp.TensorInput(lambda: fixed_batch(batch_size)),
        callbacks=[steps],
        extra_callbacks=[tp.RunUpdateOps()],  # moves the running statistics
        monitors=[],
        session_config=session,
        steps_per_epoch=ENDLESS,
        max_epoch=1,
    )
    tp.launch_train_with_config(config, tp.SimpleTrainer())


def prepare(batch_size: int) -> task.Trainer:
    rein = Rein()
    steps = Steps(rein)
    rein.start(lambda: launch(batch_size, steps))
    return task.Trainer(rein.take, steps.parameters)


def main() -> None:
    options = task.arguments(__doc__)
    os.sched_setaffinity(0, options.cores)
    task.report(task.measured(prepare(options.batch_size), options))


if __name__ == "__main__":
    main()
