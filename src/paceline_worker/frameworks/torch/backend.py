"""PyTorch: one process per device, eager or compiled."""

from __future__ import annotations

import contextlib
from datetime import timedelta
from typing import Any, ContextManager, Dict, List, Optional, Tuple

import numpy as np
import torch
from torch import distributed
from torch.nn.functional import cross_entropy

from paceline_worker.contract import Backend, Batch, taken
from paceline_worker.frameworks.torch import builder
from paceline_worker.frameworks.torch.exchange import Tensors, exchange_of, loss_gradient, transport
from paceline_worker.graph import Graph
from paceline_worker.place import Place
from paceline_worker.protocol import Job
from paceline_worker.weights import Array, Weights


class FrameworkBackend(Backend):
    def __init__(self, job: Job, place: Place) -> None:
        self._job, self._place = job, place
        self._device = torch.device(place.devices[0])
        torch.manual_seed(job.seed)  # for dropout; the weights come from outside
        torch.set_num_threads(place.threads)
        torch.set_float32_matmul_precision("highest")  # float32 means float32, also on tensor cores
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = True
        if self._device.type == "cuda":
            torch.cuda.set_device(self._device)
            torch.zeros((), device=self._device)  # the driver's own memory is idle memory, not the network's
        if job.exchanges:
            distributed.init_process_group(transport(job), timeout=timedelta(seconds=job.patience_seconds))

    def settings(self) -> Dict[str, Any]:
        return {
            "versions": {"torch": torch.__version__, "cuda": torch.version.cuda, "numpy": np.__version__},
            "threads": torch.get_num_threads(),
            "layout": "channels_last",
            "optimizer": "SGD(fused=True)",
            "exchange": exchange_of(self._job).mechanism,
            "transport": transport(self._job) if self._job.exchanges else None,
            "compiled": self._job.mode == "compile",
        }

    def build(self, graph: Graph, weights: Weights) -> None:
        self._graph, self._roles = graph, {name: parameter.role for name, parameter in graph.parameters().items()}
        self._trained, self._running = graph.names("trainable"), graph.names("running")
        self._plain = builder.build(graph).to(self._device, memory_format=torch.channels_last)
        self._tensors = builder.tensors(graph, self._plain)
        trained = {name: self._tensors[name] for name in self._trained}
        self._exchange = exchange_of(self._job)(self._job, self._place, trained, self._new_optimizer)
        self._model = self._exchange.join(self._plain)
        self._loss_gradient = loss_gradient(self._job, self._place)
        if self._job.mode == "compile":
            self._model = torch.compile(self._model)
        self._losses: List[torch.Tensor] = []
        self._correct: List[torch.Tensor] = []
        self.write_weights(weights)

    def _new_optimizer(self, weights: Tensors) -> torch.optim.Optimizer:
        recipe = self._job.recipe
        decayed = [name for name in weights if self._roles[name] in recipe.decayed]
        plain = [name for name in weights if name not in decayed]
        groups = [
            {"params": [weights[name] for name in names], "weight_decay": decay}
            for names, decay in ((decayed, recipe.weight_decay), (plain, 0.0))
            if names
        ]
        return torch.optim.SGD(
            groups, lr=recipe.learning_rate, momentum=recipe.momentum, nesterov=recipe.nesterov, fused=True
        )

    def to_host(self, images: Array, labels: Array) -> Batch:
        host = torch.from_numpy(images).permute(0, 3, 1, 2), torch.from_numpy(labels)  # channels last already: no copy
        return tuple(tensor.pin_memory() for tensor in host) if self._device.type == "cuda" else host

    def to_device(self, batch: Batch) -> Batch:
        return tuple(tensor.to(self._device, non_blocking=True) for tensor in batch)

    def _precision(self) -> ContextManager[Any]:
        if self._job.precision == "float32":
            return contextlib.nullcontext()
        return torch.autocast(self._device.type, dtype=getattr(torch, self._job.precision))

    def _loss(self, images: torch.Tensor, labels: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        """And the logits that it is taken from."""
        with self._precision():
            outputs = self._model(images)
            terms = [
                weight * cross_entropy(logits, labels) for logits, weight in zip(outputs, self._graph.losses.values())
            ]
        return terms[0] if len(terms) == 1 else torch.stack(terms).sum(), outputs[0]

    def train_step(self, batch: Batch) -> None:
        loss, logits = self._loss(*batch)
        loss.backward(self._loss_gradient)
        self._exchange.step()
        self._losses.append(loss.detach())
        if self._job.count_correct:
            self._correct.append((logits.detach().argmax(1) == batch[1]).sum())

    def set_learning_rate(self, rate: float) -> None:
        self._exchange.set_learning_rate(rate)

    def synchronize(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)

    def losses(self) -> List[float]:
        return torch.stack(taken(self._losses)).tolist() if self._losses else []

    def correct(self) -> List[int]:
        return torch.stack(taken(self._correct)).tolist() if self._correct else []

    def agree(self, ready: bool) -> bool:
        if self._place.size == 1:
            return ready
        vote = torch.tensor(int(ready), device=self._device)
        distributed.all_reduce(vote, distributed.ReduceOp.MIN)
        return bool(vote.item())

    def merge_statistics(self) -> None:
        self._copy({name: self._exchange.averaged(self._tensors[name]) for name in self._running})

    def predict(self, batch: Batch) -> Array:
        self._plain.eval()
        with torch.inference_mode(), self._precision():
            logits: Array = self._plain(batch[0])[0].float().cpu().numpy()
        self._plain.train()
        return logits

    def outputs(self, batch: Batch) -> Weights:
        kept = self._kept()
        with torch.no_grad(), self._precision():
            found = builder.layer_outputs(self._plain, batch[0])
        self._copy(kept)
        return found

    def gradients(self, batch: Batch) -> Weights:
        kept = self._kept()
        self._loss(*batch)[0].backward(self._loss_gradient)
        self._exchange.average_gradients()
        gradients = {name: builder.to_neutral(self._roles[name], self._tensors[name].grad) for name in self._trained}
        self._exchange.forget_gradients()
        self._copy(kept)
        return gradients

    def _kept(self) -> Tensors:
        """Running statistics as they are: a forward pass moves them."""
        return {name: self._tensors[name].clone() for name in self._running}

    def read_weights(self) -> Weights:
        averaged = {name: self._exchange.averaged(self._tensors[name]) for name in self._running}
        tensors = {**self._tensors, **averaged}
        return {name: builder.to_neutral(self._roles[name], tensor) for name, tensor in tensors.items()}

    def write_weights(self, weights: Weights) -> None:
        self._copy({name: builder.from_neutral(self._roles[name], value) for name, value in weights.items()})
        self._exchange.restart()

    @torch.no_grad()
    def _copy(self, values: Tensors) -> None:
        for name, value in values.items():
            self._tensors[name].copy_(value)

    def peak_memory_bytes(self) -> Optional[List[int]]:
        return [torch.cuda.max_memory_allocated(self._device)] if self._device.type == "cuda" else None

    def close(self) -> None:
        if self._job.exchanges:
            distributed.destroy_process_group()
