"""Keras 2.2 on MXNet: `train_on_batch` of a compiled model, which MXNet spreads over the devices of one process."""

from __future__ import annotations

import contextlib
import os
import warnings
from typing import Any, Dict, List, Optional

import numpy as np

from paceline_worker import graph as g
from paceline_worker.contract import Batch, taken
from paceline_worker.frameworks.keras_mxnet import builder
from paceline_worker.mxnet1.backend import MxnetBackend
from paceline_worker.mxnet1.monitor import recorded
from paceline_worker.place import Place
from paceline_worker.protocol import Job
from paceline_worker.weights import Array, Weights, channels_last

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import keras  # after the builder, which makes it importable
    import mxnet as mx

EXCHANGES = {
    "replicated": "kvstore {} adds gradients up, an optimiser on each device",
    "parameter_server": "kvstore {} with the optimiser in it",
}


class Nesterov(keras.optimizers.SGD):
    """Keras' own optimiser forgets on MXNet that it was asked for Nesterov's momentum; this asks MXNet for it."""

    def _update_impl(self, indices: Any, weights: Any, grads: Any, states: Any, multi_precision: bool = False) -> None:
        self._update_count(indices)
        settings = {"momentum": self.momentum, "rescale_grad": self.rescale_grad}
        for index, weight, grad, state in zip(indices, weights, grads, states):
            lr, wd = self._get_lr(index), self._get_wd(index)
            changed = mx.nd.nag_mom_update(weight, grad, state, lr=lr, wd=wd, **settings)
            changed.copyto(weight)  # in place it would take the new weight, not the old, into the velocity's decay


class FrameworkBackend(MxnetBackend):
    layout, unbiased = builder.LAYOUT, False
    _rate: float

    def __init__(self, job: Job, place: Place) -> None:
        warnings.simplefilter("ignore")  # Keras 2.2 warns in every step of what has changed since
        os.environ["MXNET_UPDATE_ON_KVSTORE"] = str(int(job.update == "parameter_server"))  # its own switch
        super().__init__(job, place)

    def settings(self) -> Dict[str, Any]:
        return {
            "versions": {"keras-mxnet": keras.__version__, "mxnet": mx.__version__, "numpy": np.__version__},
            "threads": int(os.environ["OMP_NUM_THREADS"]),
            "layout": keras.backend.image_data_format(),
            "exchange": EXCHANGES[self._job.update].format(self._store) if self._store else None,
            "devices": [str(context) for context in self._contexts],
        }

    @property
    def _store(self) -> Optional[str]:
        """MXNet's name for what joins the devices, which also says where gradients are added up."""
        if not self._job.exchanges or self._job.update == "independent":
            return None
        on_host = (self._job.update, self._job.parameter_device) == ("parameter_server", "cpu")
        return "local" if on_host else "device"

    def build(self, graph: g.Graph, weights: Weights) -> None:
        self._describe(graph)
        self._tensors = builder.tensors(graph)
        outputs = [self._tensors[name] for name in graph.losses]
        self._model = keras.models.Model(self._tensors[graph.input.name], outputs)
        self._model._context = self._contexts  # Keras would take the names of all CPU devices for the first
        self._names = builder.native_names(graph, self._model)
        self._model.compile(
            self._new_optimizer(),
            builder.cross_entropy,
            metrics={graph.prediction: builder.count_correct} if self._job.count_correct else None,
            loss_weights=list(graph.losses.values()),
        )
        height, width, channels = graph.input.shape
        images = np.zeros((self._place.local_batch_size, height, width, channels), np.float32)
        self._enter_training(self.to_host(images, np.zeros(len(images), np.int64)))
        self._losses: List[float] = []
        self._correct: List[int] = []
        self.write_weights(weights)

    def _new_optimizer(self) -> Any:
        recipe = self._job.recipe
        kind = Nesterov if recipe.nesterov and recipe.momentum else keras.optimizers.SGD
        optimizer = kind(
            lr=recipe.learning_rate,
            momentum=recipe.momentum,
            wd=recipe.weight_decay,  # MXNet's own: a Keras regularizer would be part of the loss
            rescale_grad=1 / len(self._groups[0]),  # MXNet adds the gradients of its devices up; we want their mean
        )
        decayed = {self._names[name]: float(self._parameters[name].role in recipe.decayed) for name in self._trained}
        optimizer.set_wd_mult(decayed)
        return optimizer

    def _enter_training(self, batch: Batch) -> Any:
        """Bind the network as `train_on_batch` does; gives the batch in MXNet's form."""
        images, labels = batch
        ones = [mx.nd.ones(len(labels)) for _ in self._graph.losses]
        inputs = [images, *([labels] * len(ones)), *ones]
        data, targets, phase, data_shapes, target_shapes = self._model._adjust_module(inputs, "train")
        return mx.io.DataBatch(data, targets, bucket_key=phase, provide_data=data_shapes, provide_label=target_shapes)

    @property
    def _executors(self) -> List[Any]:
        """The network on each device."""
        executors: List[Any] = self._model._module._buckets["train"]._exec_group.execs
        return executors

    def to_host(self, images: Array, labels: Array) -> Batch:
        channels_first = np.ascontiguousarray(images.transpose(0, 3, 1, 2))
        return mx.nd.array(channels_first), mx.nd.one_hot(mx.nd.array(labels), self._job.classes)

    def to_device(self, batch: Batch) -> Batch:
        return batch  # MXNet gives each device its part at the beginning of a step

    def train_step(self, batch: Batch) -> None:
        images, labels = batch
        found = np.atleast_1d(self._model.train_on_batch(images, [labels] * len(self._graph.losses)))
        self._losses.append(float(found[0]))  # the total comes first; Keras has waited for it
        if self._job.count_correct:
            self._correct.append(round(float(found[-1]) * len(self._contexts)))  # Keras gives the mean of the devices
        self._steps += 1

    def set_learning_rate(self, rate: float) -> None:
        if rate == self._rate:
            return
        module = self._model._module._buckets["train"]
        updater = module._updater or module._kvstore._updater  # a parameter server's is in the store
        for velocity in updater.states.values():
            if velocity is not None:  # as it is without momentum
                velocity[:] = velocity * (rate / self._rate)  # MXNet's is a sum of steps
        keras.backend.set_value(self._model.optimizer.lr, rate)
        self._rate = rate

    def losses(self) -> List[float]:
        return taken(self._losses)

    def correct(self) -> List[int]:
        return taken(self._correct)

    def predict(self, batch: Batch) -> Array:
        outputs = self._model.predict_on_batch(batch[0])
        logits: Array = outputs[0] if isinstance(outputs, list) else outputs
        return logits

    def outputs(self, batch: Batch) -> Weights:
        bound = self._enter_training(batch)
        kept = self._kept()
        keras.backend.set_learning_phase(1)
        symbols = {name: tensor.symbol.name for name, tensor in self._tensors.items()}
        keras.backend.set_learning_phase(0)
        with contextlib.ExitStack() as recording:
            parts = [recording.enter_context(recorded(executor)) for executor in self._executors]
            self._model._module.forward(bound, is_train=True)
        self._put(kept)
        given = [{**part, symbols[self._graph.input.name]: own} for part, own in zip(parts, self._split(batch[0]))]
        return {
            name: channels_last(np.concatenate([part[symbol] for part in given])) for name, symbol in symbols.items()
        }

    def _split(self, images: Any) -> List[Array]:
        return np.split(images.asnumpy(), np.cumsum(self._place.shares)[:-1])

    def gradients(self, batch: Batch) -> Weights:
        bound = self._enter_training(batch)
        kept = self._kept()
        self._model._module.forward_backward(bound)
        self._put(kept)
        asked = [self._executors[device].grad_dict for device in self._groups[0]]
        return {name: self._mean(name, [own[self._names[name]].asnumpy() for own in asked]) for name in self._trained}

    def _array(self, name: str, device: int) -> Any:
        own = self._executors[device]
        return (own.aux_dict if name in self._running else own.arg_dict)[self._names[name]]

    def write_weights(self, weights: Weights) -> None:
        native = {self._names[name]: array for name, array in self._native(weights).items()}
        running = {self._names[name]: native.pop(self._names[name]) for name in self._running}
        self._settle()
        module = self._model._module
        module.set_params(native, running, allow_missing=True)
        self._model.optimizer = self._new_optimizer()
        # By its name, MXNet would not let a store on the host change large weights.
        store = mx.kv.create(self._store) if self._store else None
        module.init_optimizer(kvstore=store, optimizer=self._model.optimizer, force_init=True)
        self._first = [weights] * len(self._contexts)
        self._steps, self._rate = 0, self._job.recipe.learning_rate
