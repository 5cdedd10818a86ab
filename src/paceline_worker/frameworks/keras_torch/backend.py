"""Keras 3 on PyTorch: eager, as Keras' own choice of `jit_compile` is there."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

import numpy as np
import torch

from paceline_worker.contract import Batch
from paceline_worker.frameworks.keras_torch.builder import LAYERS, LAYOUT
from paceline_worker.keras3.backend import KerasBackend
from paceline_worker.keras3.training import total_loss
from paceline_worker.place import Place
from paceline_worker.protocol import Job
from paceline_worker.weights import Array


class FrameworkBackend(KerasBackend):
    layers, layout = LAYERS, LAYOUT

    def __init__(self, job: Job, place: Place) -> None:
        self._device = torch.device(place.devices[0])
        torch.set_num_threads(place.threads)
        torch.set_float32_matmul_precision("highest")  # float32 means float32, also on tensor cores
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = True
        if self._device.type == "cuda":
            torch.cuda.set_device(self._device)
        super().__init__(job, place)

    def settings(self) -> Dict[str, Any]:
        shared = super().settings()
        return {
            **shared,
            "versions": {**shared["versions"], "torch": torch.__version__, "cuda": torch.version.cuda},
            "threads": torch.get_num_threads(),
            "memory_format": "channels_last",
        }

    def to_host(self, images: Array, labels: Array) -> Batch:
        # Keras is told channels first, but the maps lie channels last, and each op keeps its input's order in memory:
        # In one run 4 % (ResNet-20) to 18 % (the small network) faster than channels first in memory too.
        host = torch.from_numpy(images).permute(0, 3, 1, 2), torch.from_numpy(labels)
        return tuple(tensor.pin_memory() for tensor in host) if self._device.type == "cuda" else host

    def to_device(self, batch: Batch) -> Batch:
        return tuple(tensor.to(self._device, non_blocking=True) for tensor in batch)

    def _train(self, data: Tuple[Any, Any]) -> Dict[str, Any]:
        return self._model.train_function([data])

    def synchronize(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)

    @torch.no_grad()
    def _set_rate(self, rate: float, factor: float) -> None:
        velocities = [velocity.value for velocity in self._model.optimizer.momentums]
        if velocities:
            torch._foreach_mul_(velocities, factor)
        self._model.optimizer.learning_rate = rate

    def _look(self, batch: Batch) -> Tuple[List[Array], List[Array]]:
        images, labels = batch
        outputs = self._every_output(images, training=True)
        self._every_output.zero_grad()  # Keras leaves the gradients of a step until the next
        total_loss(self._graph, labels, outputs).backward()
        gradients = [np.array(variable.value.grad.cpu()) for variable in self._every_output.trainable_variables]
        self._every_output.zero_grad()
        return [np.array(value.detach().cpu()) for value in outputs], gradients

    def peak_memory_bytes(self) -> Optional[List[int]]:
        return [torch.cuda.max_memory_allocated(self._device)] if self._device.type == "cuda" else None
