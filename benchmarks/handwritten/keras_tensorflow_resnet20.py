"""ResNet-20 v2 for CIFAR-10 as a Keras user would write it: `model.fit` on TensorFlow.

One device:  TF_ENABLE_ONEDNN_OPTS=1 python -m benchmarks.handwritten.keras_tensorflow_resnet20 --cores 0
Two devices: TF_ENABLE_ONEDNN_OPTS=1 python -m benchmarks.handwritten.keras_tensorflow_resnet20 --devices 2 --cores 0,1

The losses are what `fit` tells: the mean since its start, with the regularisation.
"""

from __future__ import annotations

import os
from typing import Any

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("KERAS_HOME", "/dev/null/keras")  # a keras.json of the user's must not change what is measured

import keras
import tensorflow as tf
from keras import layers

from benchmarks.handwritten import task
from benchmarks.handwritten.rein import Rein
from benchmarks.handwritten.tensorflow_resnet20 import fixed_batch, start_devices

DECAY = keras.regularizers.L2(task.WEIGHT_DECAY / 2)  # the gradient of decay / 2 * sum(w**2) is decay * w
ENDLESS = 10**9  # steps


def convolution(images: Any, width: int, size: int, stride: int = 1) -> Any:
    padding = "same"
    if size > 1 and stride > 1:  # "same" would pad one side only
        images, padding = layers.ZeroPadding2D(1)(images), "valid"
    return layers.Conv2D(
        width, size, stride, padding, use_bias=False, kernel_initializer="he_normal", kernel_regularizer=DECAY
    )(images)


def normalization(images: Any, *, scale: bool = True) -> Any:
    return layers.BatchNormalization(
        momentum=task.DECAY, epsilon=task.EPSILON, scale=scale, gamma_regularizer=DECAY if scale else None
    )(images)


def unit(images: Any, width: int, stride: int, projects: bool) -> Any:
    """Pre-activation; the first unit of a stage projects the activated input."""
    ready = layers.ReLU()(normalization(images))
    output = layers.ReLU()(normalization(convolution(ready, width, 3, stride)))
    shortcut = convolution(ready, width, 1, stride) if projects else images
    return layers.Add()([convolution(output, width, 3), shortcut])


def resnet20() -> keras.Model:
    images = keras.Input((task.SIZE, task.SIZE, 3))
    features = convolution(normalization(images, scale=False), 16, 3)  # MXNet fixes this gamma at 1
    for _, width, stride, projects in task.UNITS:
        features = unit(features, width, stride, projects)
    features = layers.GlobalAveragePooling2D()(layers.ReLU()(normalization(features)))
    head = layers.Dense(task.CLASSES, kernel_initializer="he_normal", kernel_regularizer=DECAY)
    return keras.Model(images, head(features))


class Steps(keras.callbacks.Callback):
    """Holds `fit` before each step that it may not take yet, and tells its losses."""

    def __init__(self, rein: Rein) -> None:
        super().__init__()
        self._rein = rein

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self._rein.before_step()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._rein.after_step(float(logs["loss"]))


def prepare(batch_size: int, devices: int = 1) -> task.Trainer:
    names = [f"cpu:{index}" for index in range(devices)]
    strategy = tf.distribute.MirroredStrategy(names) if devices > 1 else tf.distribute.get_strategy()
    with strategy.scope():
        model = resnet20()
        model.compile(
            keras.optimizers.SGD(task.LEARNING_RATE, task.MOMENTUM),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        )
    data = tf.data.Dataset.from_tensors(fixed_batch(batch_size, 0)).repeat()
    rein = Rein()
    settings = {"steps_per_epoch": ENDLESS, "shuffle": False, "verbose": 0, "callbacks": [Steps(rein)]}
    rein.start(lambda: model.fit(data, **settings))
    return task.Trainer(rein.take, sum(weight.value.shape.num_elements() for weight in model.trainable_variables))


def main() -> None:
    options = task.arguments(__doc__)
    start_devices(options.devices, options.cores)
    task.report(task.measured(prepare(options.batch_size, options.devices), options))


if __name__ == "__main__":
    main()
