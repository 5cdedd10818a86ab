"""Tensorpack: one process for all devices, a tower on each, and the step of Tensorpack's own trainers."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Dict, Iterator, List, Tuple
from unittest import mock

import numpy as np
import tensorflow as tf

tf.compat.v1.disable_v2_behavior()  # before Tensorpack looks at it

import tensorpack  # noqa: E402
from tensorpack.callbacks import Callback  # noqa: E402
from tensorpack.tfutils import JustCurrentSession, get_default_sess_config  # noqa: E402
from tensorpack.tfutils.gradproc import GradientProcessor  # noqa: E402
from tensorpack.tfutils.optimizer import apply_grad_processors  # noqa: E402
from tensorpack.tfutils.sesscreate import NewSessionCreator  # noqa: E402
from tensorpack.tfutils.tower import get_current_tower_context  # noqa: E402
from tensorpack.train import (  # noqa: E402
    SimpleTrainer,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
)

from paceline_worker.contract import Batch, OneProcess  # noqa: E402
from paceline_worker.frameworks.tensorpack import builder  # noqa: E402
from paceline_worker.graph import Graph  # noqa: E402
from paceline_worker.place import Place  # noqa: E402
from paceline_worker.protocol import Job  # noqa: E402
from paceline_worker.weights import Array, Weights  # noqa: E402

v1 = tf.compat.v1
Pairs = List[Tuple[tf.Tensor, tf.Variable]]  # gradients and what they are for

EXCHANGES = {  # what Tensorpack's trainers do, for the record
    "replicated": "averages made on the devices in turn",
    "parameter_server": "variables shared by all towers, each on one of the devices",
}


class FrameworkBackend(OneProcess):
    def __init__(self, job: Job, place: Place) -> None:
        self._job, self._place = job, place
        self._indices = [int(name.split(":")[1]) for name in place.devices]
        v1.set_random_seed(job.seed)  # for dropout; the weights come from outside
        self._config = get_default_sess_config()
        self._config.device_count["CPU"] = len(place.devices)
        # All devices share both pools. With a thread for each, every device runs one operation and none is split.
        count = len(place.devices)
        self._config.inter_op_parallelism_threads = count
        self._config.intra_op_parallelism_threads = place.threads * count if place.threads > 1 else 1

    def settings(self) -> Dict[str, Any]:
        versions = {"tensorpack": tensorpack.__version__, "tensorflow": tf.__version__, "numpy": np.__version__}
        return {
            "versions": versions,
            "threads": self._place.threads,
            "intra_op_threads": self._config.intra_op_parallelism_threads,
            "inter_op_threads": self._config.inter_op_parallelism_threads,
            "layout": "NHWC",
            "trainer": type(self._new_trainer()).__name__,
            "exchange": EXCHANGES[self._job.update] if len(self._indices) > 1 else "none",
            "onednn": os.environ.get("TF_ENABLE_ONEDNN_OPTS") == "1",
        }

    def _new_trainer(self) -> Any:
        if len(self._indices) == 1:
            return SimpleTrainer()
        if self._job.update == "parameter_server":
            # On TensorFlow 2 both spread the variables over the towers' devices: here, that is host memory.
            place = {"cpu": "cpu", "device": "gpu"}[self._job.parameter_device]
            return SyncMultiGPUTrainerParameterServer(self._indices, ps_device=place)
        return SyncMultiGPUTrainerReplicated(self._indices, mode="gpu")  # averages are made on the devices in turn

    def build(self, graph: Graph, weights: Weights) -> None:
        self._graph, self._parameters = graph, graph.parameters()
        images = tf.TensorSpec((self._place.shares[0], *graph.input.shape), tf.float32, "images")
        labels = tf.TensorSpec((self._place.shares[0],), tf.int32, "labels")
        self._source = builder.source(self._job.data, [images, labels])
        self._built: List[builder.Tower] = []
        self._trainer = self._new_trainer()
        # Without a gate, a weight may change while a gradient that needs its old value is still being computed.
        self._trainer.GATE_GRADIENTS = v1.train.Optimizer.GATE_OP
        with towers_on(self._place.devices[0].split(":")[0]):
            self._trainer.setup_graph([images, labels], self._source.input, self._cost, self._new_optimizer)
            self._towers = list(self._built)
            for device in range(len(self._towers)):
                self._trainer.get_predictor([], [], device)
        self._predictors = self._built[len(self._towers) :]
        self._start()
        self.write_weights(weights)

    def _cost(self, images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Tensorpack's tower function."""
        if not get_current_tower_context().is_training:
            images = tf.identity(images)  # predictors share a placeholder, but each is fed a part of its own
        self._built.append(builder.build(self._graph, images, labels))
        return self._built[-1].cost

    def _new_optimizer(self) -> Any:
        recipe = self._job.recipe
        self._rate = v1.get_variable("learning_rate", initializer=np.float32(recipe.learning_rate), trainable=False)
        self._optimizer = (
            v1.train.MomentumOptimizer(self._rate, recipe.momentum, use_nesterov=recipe.nesterov)
            if recipe.momentum
            else v1.train.GradientDescentOptimizer(self._rate)
        )
        self._decay = WeightDecay(recipe.weight_decay, self._decayed)
        return apply_grad_processors(self._optimizer, [self._decay])

    def _decayed(self, variable: tf.Variable) -> bool:
        return self._parameters[self._name(variable)].role in self._job.recipe.decayed

    def _name(self, variable: tf.Variable) -> str:
        """The neutral name of a variable of any tower."""
        pairs = (pair for tower in self._built for pair in tower.variables.items())
        return next(name for name, found in pairs if found is variable)

    def _start(self) -> None:
        """Make the session as Tensorpack's own main loop does, up to its first step."""
        moved = builder.statistics_moved(self._towers, self._graph.names("running"))
        self._trainer.train_op = tf.group(self._trainer.train_op, *moved)
        reported = {"loss": tf.add_n([tower.cost for tower in self._towers]) / len(self._towers)}
        if self._job.count_correct:
            reported["correct"] = tf.add_n([tower.correct for tower in self._towers])
        self._report = Report(reported)
        self._trainer.setup_callbacks([self._report], [])
        self._trainer.initialize(NewSessionCreator(config=self._config), JustCurrentSession())
        self._session = self._trainer.sess
        with self._session.as_default():
            self._trainer._callbacks.before_train()

    def to_host(self, images: Array, labels: Array) -> Batch:
        ends = np.cumsum(self._place.shares)[:-1]
        parts = list(zip(np.split(images, ends), np.split(labels.astype(np.int32), ends)))
        self._source.hold(self._session, parts)
        return parts

    def to_device(self, batch: Batch) -> Batch:
        return batch  # the source of the towers does it: see builder.source

    def train_step(self, batch: Batch) -> None:
        self._source.hand_over(self._session, batch)
        self._trainer.run_step()
        self._steps += 1

    def set_learning_rate(self, rate: float) -> None:
        builder.assign(self._session, [(self._rate, np.float32(rate))])

    def synchronize(self) -> None:
        """A step of a session ends when the devices have done it."""

    def losses(self) -> List[float]:
        return [float(loss) for loss in self._report.take("loss")]

    def correct(self) -> List[int]:
        return [int(count) for count in self._report.take("correct")]

    def merge_statistics(self) -> None:
        merged = self._averaged()
        self._write(merged)
        self._written, self._steps = merged, 0

    def predict(self, batch: Batch) -> Array:
        images = {tower.inputs[0]: part for tower, (part, _) in zip(self._predictors, batch)}
        return np.concatenate(self._session.run([tower.logits for tower in self._predictors], images))

    def _fed(self, batch: Batch) -> Dict[tf.Tensor, Array]:
        """The batch in place of what the towers' source would give."""
        return {tensor: array for tower, part in zip(self._towers, batch) for tensor, array in zip(tower.inputs, part)}

    def _look(self, batch: Batch) -> Any:
        """Layer outputs of each tower and gradients from one run: another set of fetches is another program."""
        gradients = {self._name(variable): gradient for gradient, variable in self._decay.before}
        return self._session.run(([tower.outputs for tower in self._towers], gradients), self._fed(batch))

    def outputs(self, batch: Batch) -> Weights:
        found, _ = self._look(batch)
        return {name: np.concatenate([outputs[name] for outputs in found]) for name in self._graph.nodes}

    def gradients(self, batch: Batch) -> Weights:
        _, found = self._look(batch)
        return {name: found[name] for name in self._graph.names("trainable")}

    def _averaged(self) -> Weights:
        """Running statistics as the graph wants them, averaged over the towers."""
        names = self._graph.names("running")
        kept = self._session.run([{name: tower.variables[name] for name in names} for tower in self._towers])
        towers = [
            builder.as_the_graph_says(self._graph, images, self._steps, self._written, running)
            for images, running in zip(self._place.shares, kept)
        ]
        return {name: np.mean([running[name] for running in towers], axis=0) for name in names}

    def read_weights(self) -> Weights:
        trained = self._session.run({name: self._towers[0].variables[name] for name in self._graph.names("trainable")})
        frozen = {name: np.ones(self._parameters[name].shape, np.float32) for name in self._graph.names("frozen")}
        arrays = {**trained, **frozen, **self._averaged()}
        return {name: arrays[name] for name in self._parameters}

    def write_weights(self, weights: Weights) -> None:
        self._write(weights)
        self._session.run([slot.initializer for slot in self._optimizer.variables()])
        self.set_learning_rate(self._job.recipe.learning_rate)
        self._written, self._steps = {name: weights[name] for name in self._graph.names("running")}, 0

    def _write(self, weights: Weights) -> None:
        """Give every tower these arrays."""
        found = [(name, variable) for tower in self._towers for name, variable in tower.variables.items()]
        builder.assign(self._session, [(variable, weights[name]) for name, variable in found if name in weights])

    def close(self) -> None:
        self._session.close()


class WeightDecay(GradientProcessor):
    """Adds the decay to gradients that are averaged over the towers; keeps them as they came, too."""

    def __init__(self, decay: float, decayed: Any) -> None:
        super().__init__()
        self._decay, self._decayed = decay, decayed
        self.before: Pairs = []

    def _process(self, grads: Pairs) -> Pairs:
        self.before = self.before or list(grads)  # of the first tower: all get the same
        if not self._decay:
            return grads
        return [
            (gradient + self._decay * variable if self._decayed(variable) else gradient, variable)
            for gradient, variable in grads
        ]


class Report(Callback):
    """Fetches some numbers together with each step."""

    def __init__(self, tensors: Dict[str, tf.Tensor]) -> None:
        self._tensors = tensors
        self._found: Dict[str, List[Any]] = {}

    def _before_run(self, context: Any) -> Any:
        return v1.train.SessionRunArgs(self._tensors)

    def _after_run(self, context: Any, values: Any) -> None:
        for name, value in values.results.items():
            self._found.setdefault(name, []).append(value)

    def take(self, name: str) -> List[Any]:
        """One of the numbers, for each step since it was last taken."""
        return self._found.pop(name, [])


@contextlib.contextmanager
def towers_on(kind: str) -> Iterator[None]:
    """Let towers that Tensorpack wants on /gpu:0, /gpu:1, … be built on /cpu:0, /cpu:1, … instead."""
    plain = v1.device

    def renamed(name: str) -> str:
        return name.replace("/gpu:", "/cpu:").replace("/device:GPU:", "/device:CPU:") if kind == "cpu" else name

    def moved(device: Any) -> Any:
        """A name, or a function that gives one for each operation."""
        if callable(device):
            return plain(lambda operation: renamed(device(operation)))
        return plain(renamed(device) if isinstance(device, str) else device)

    with mock.patch.object(tf, "device", moved), mock.patch.object(v1, "device", moved):
        yield
