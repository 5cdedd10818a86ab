"""How ranks agree: all that lies between a rank's own gradients and its next weights."""

from __future__ import annotations

from typing import Callable, Dict, Optional, Type

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from paceline_worker.place import Place
from paceline_worker.protocol import Job

Tensors = Dict[str, torch.Tensor]
NewOptimizer = Callable[[Tensors], torch.optim.Optimizer]
ALIGNED = 16  # numbers, which are 64 bytes: kernels are made for tensors that begin there


class Exchange:
    """None at all: a rank steps its own weights by its own gradients, as one device alone does."""

    mechanism: Optional[str] = None
    _optimizer: Optional[torch.optim.Optimizer]

    def __init__(self, job: Job, place: Place, weights: Tensors, new_optimizer: NewOptimizer) -> None:
        self._place, self._weights, self._new_optimizer = place, weights, new_optimizer

    def join(self, model: nn.Module) -> nn.Module:
        """The model to train."""
        return model

    def restart(self) -> None:
        """Go on from the weights as they are, with an optimiser that has seen nothing."""
        self._optimizer = self._new_optimizer(self._weights)

    def step(self) -> None:
        assert self._optimizer is not None
        self._optimizer.step()
        self._optimizer.zero_grad()

    def set_learning_rate(self, rate: float) -> None:
        for group in self._optimizer.param_groups if self._optimizer else ():
            group["lr"] = rate

    def average_gradients(self) -> None:
        """Only to look at them: a step needs no more than backward has done."""

    def forget_gradients(self) -> None:
        assert self._optimizer is not None
        self._optimizer.zero_grad()

    def averaged(self, tensor: torch.Tensor) -> torch.Tensor:
        """The ranks' mean, where they train one network."""
        return tensor


class Replicated(Exchange):
    """Every rank takes the same step: backward averages the gradients by an all-reduce."""

    mechanism = "DistributedDataParallel"

    def join(self, model: nn.Module) -> nn.Module:
        return DistributedDataParallel(
            model,
            forward_sync_buffers=False,  # each device keeps its own running statistics
            gradient_as_bucket_view=True,
        )

    def averaged(self, tensor: torch.Tensor) -> torch.Tensor:
        return mean_of_ranks(tensor.clone(), self._place)


class ParameterServer(Exchange):
    """Rank 0 has the only optimiser: gradients are added up there, it takes the step and sends the weights to all.

    Weights and gradients are parts of two long tensors, so that each way is one message that nobody has to pack. Where
    the master copy is to be in host memory and the devices are not, these go through two more on the host; elsewhere
    rank 0's own weights are the master copy.
    """

    mechanism = "reduce to rank 0, optimiser there, broadcast"

    def __init__(self, job: Job, place: Place, weights: Tensors, new_optimizer: NewOptimizer) -> None:
        super().__init__(job, place, weights, new_optimizer)
        length = sum(map(room, weights.values()))
        self._long_weights, self._long_gradients = torch.zeros(2, length, device=place.devices[0])
        for weight, gradient in zip(weights.values(), parts(self._long_gradients, weights).values()):
            weight.grad = gradient
        for name, part in parts(self._long_weights, weights).items():
            weights[name].data = part.copy_(weights[name].data)
        self._sent_weights, self._sent_gradients = self._long_weights, self._long_gradients
        if through_host(job):
            self._sent_weights, self._sent_gradients = torch.zeros(2, length, pin_memory=True)

    def restart(self) -> None:
        self._optimizer = None
        if self._place.rank == 0:
            self._sent_weights.copy_(self._long_weights)
            master, gradients = parts(self._sent_weights, self._weights), parts(self._sent_gradients, self._weights)
            for name, weight in master.items():
                weight.grad = gradients[name]
            self._optimizer = self._new_optimizer(master)

    def step(self) -> None:
        self._sent_gradients.copy_(self._long_gradients)  # nothing to do where they are the same tensor
        distributed.reduce(self._sent_gradients, dst=0)
        if self._optimizer is not None:
            self._sent_gradients /= self._place.size
            self._optimizer.step()
        distributed.broadcast(self._sent_weights, src=0)
        self._long_weights.copy_(self._sent_weights, non_blocking=True)  # done before the next gradients are copied
        self.forget_gradients()

    def average_gradients(self) -> None:
        mean_of_ranks(self._long_gradients, self._place)

    def forget_gradients(self) -> None:
        self._long_gradients.zero_()  # and not None, or backward would make tensors of its own

    def averaged(self, tensor: torch.Tensor) -> torch.Tensor:
        return mean_of_ranks(tensor.clone(), self._place)


EXCHANGES: Dict[str, Type[Exchange]] = {
    "replicated": Replicated,
    "parameter_server": ParameterServer,
    "independent": Exchange,
}


def exchange_of(job: Job) -> Type[Exchange]:
    """One device alone has nothing to exchange."""
    return EXCHANGES[job.update] if job.exchanges else Exchange


def loss_gradient(job: Job, place: Place) -> Optional[torch.Tensor]:
    """What backward starts from, so that every image counts the same in the ranks' mean; None is 1."""
    weight = job.weight(place.local_batch_size)
    if weight == 1 or exchange_of(job) is Exchange:
        return None
    return torch.tensor(weight, device=place.devices[0])


def through_host(job: Job) -> bool:
    """Whether the master copy is in other memory than that of the devices."""
    apart = job.parameter_device == "cpu" and not on_cpu(job)
    return apart and exchange_of(job) is ParameterServer


def on_cpu(job: Job) -> bool:
    return job.devices[0].startswith("cpu")


def transport(job: Job) -> str:
    """What carries the messages; ranks also meet by it when they exchange nothing in training."""
    if on_cpu(job):
        return "gloo"
    return "cpu:gloo,cuda:nccl" if through_host(job) else "nccl"


def mean_of_ranks(tensor: torch.Tensor, place: Place) -> torch.Tensor:
    """In the same memory."""
    distributed.all_reduce(tensor)
    return tensor.div_(place.size)


def room(tensor: torch.Tensor) -> int:
    """Numbers that it takes in a long tensor."""
    return -(-tensor.numel() // ALIGNED) * ALIGNED


def parts(long: torch.Tensor, like: Tensors) -> Tensors:
    """Views of one long tensor with the shapes and memory formats of these."""
    views, start = {}, 0
    for name, tensor in like.items():
        views[name] = long[start:].as_strided(tensor.size(), tensor.stride())
        start += room(tensor)
    return views
