"""ResNet-20 v2 for CIFAR-10 as a PyTorch user would write it by hand: the yardstick for Paceline's own loop.

One device:  OMP_NUM_THREADS=1 python -m benchmarks.handwritten.torch_resnet20 --cores 0
Two devices: OMP_NUM_THREADS=1 torchrun --standalone --nproc-per-node 2 -m benchmarks.handwritten.torch_resnet20 \\
             --devices 2 --cores 0,1
"""

from __future__ import annotations

import os

import torch
from torch import distributed, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from benchmarks.handwritten import task


def convolution(source: int, width: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(source, width, kernel, stride, padding=kernel // 2, bias=False)


def normalization(width: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(width, eps=2e-5, momentum=0.1)


class Unit(nn.Module):
    """Pre-activation; the first unit of a stage projects the activated input."""

    def __init__(self, source: int, width: int, stride: int, first: bool) -> None:
        super().__init__()
        self.norm_a = normalization(source)
        self.conv_a = convolution(source, width, 3, stride)
        self.norm_b = normalization(width)
        self.conv_b = convolution(width, width, 3)
        self.shortcut = convolution(source, width, 1, stride) if first else None

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        ready = functional.relu(self.norm_a(images), inplace=True)
        output = functional.relu(self.norm_b(self.conv_a(ready)), inplace=True)
        output = self.conv_b(output)
        output += images if self.shortcut is None else self.shortcut(ready)
        return output


class ResNet20(nn.Module):
    def __init__(self, classes: int = task.CLASSES) -> None:
        super().__init__()
        self.norm_images = normalization(3)
        self.norm_images.weight.requires_grad_(False)  # MXNet fixes this gamma at 1
        self.stem = convolution(3, 16, 3)
        widths, units = [16, 16, 32, 64], []
        for stage in (1, 2, 3):
            units.append(Unit(widths[stage - 1], widths[stage], 1 if stage == 1 else 2, first=True))
            units += [Unit(widths[stage], widths[stage], 1, first=False) for _ in range(2)]
        self.units = nn.Sequential(*units)
        self.norm_last = normalization(64)
        self.head = nn.Linear(64, classes)
        for layer in self.modules():
            if isinstance(layer, (nn.Conv2d, nn.Linear)):
                nn.init.kaiming_normal_(layer.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        features = self.units(self.stem(self.norm_images(images)))
        features = functional.relu(self.norm_last(features), inplace=True)
        return self.head(features.mean((2, 3)))


def optimizer_for(model: nn.Module) -> torch.optim.SGD:
    """Weight decay on kernels and gammas, none on betas and biases."""
    trained = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
    groups = [
        {"params": [parameter for name, parameter in trained if name.endswith("weight")], "weight_decay": 1e-4},
        {"params": [parameter for name, parameter in trained if name.endswith("bias")], "weight_decay": 0.0},
    ]
    return torch.optim.SGD(groups, lr=0.05, momentum=0.9, fused=True)


def train(
    model: nn.Module, optimizer: torch.optim.SGD, images: torch.Tensor, labels: torch.Tensor, steps: int
) -> list[torch.Tensor]:
    """Take so many steps; the loss of each."""
    losses = []
    for _ in range(steps):
        loss = functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return losses


def over_ranks(value: float, how: distributed.ReduceOp, devices: int) -> float:
    total = torch.tensor(value, dtype=torch.float64)
    if devices > 1:
        distributed.all_reduce(total, how)
    return float(total)


def replicated(model: nn.Module) -> nn.Module:
    """Gradients are averaged over the ranks; running statistics stay with each."""
    distributed.init_process_group("gloo")
    return DistributedDataParallel(model, forward_sync_buffers=False, gradient_as_bucket_view=True, static_graph=True)


def fixed_batch(share: int, rank: int) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1 + rank)
    images = 2 * torch.rand(share, 3, task.SIZE, task.SIZE) - 1
    return images.to(memory_format=torch.channels_last), torch.randint(task.CLASSES, (share,))


def prepare(batch_size: int, devices: int = 1) -> task.Trainer:
    rank = int(os.environ.get("RANK", "0"))
    torch.manual_seed(0)  # the same weights on every rank
    network = ResNet20().to(memory_format=torch.channels_last)
    count = sum(parameter.numel() for parameter in network.parameters() if parameter.requires_grad)
    optimizer = optimizer_for(network)
    model = replicated(network) if devices > 1 else network
    images, labels = fixed_batch(batch_size // devices, rank)

    def take(steps: int) -> list[float]:
        return [float(loss) for loss in train(model, optimizer, images, labels, steps)]

    return task.Trainer(take, count)


def main() -> None:
    options = task.arguments(__doc__)
    rank = int(os.environ.get("RANK", "0"))
    os.sched_setaffinity(0, {options.cores[rank]})
    torch.set_num_threads(1)
    trainer = prepare(options.batch_size, options.devices)
    result = task.measured(trainer, options, meet=lambda: over_ranks(0.0, distributed.ReduceOp.SUM, options.devices))
    for name, how in {"seconds": distributed.ReduceOp.MAX, "processor_seconds": distributed.ReduceOp.SUM}.items():
        result[name] = over_ranks(result[name], how, options.devices)
    if rank == 0:
        task.report(result)
    os._exit(0)  # Gloo's destructor and its threads can wait for each other for ever: pytorch/pytorch#56297


if __name__ == "__main__":
    main()
