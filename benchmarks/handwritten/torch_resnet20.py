"""ResNet-20 v2 for CIFAR-10 as a PyTorch user would write it by hand: the yardstick for Paceline's own loop.

One device:  OMP_NUM_THREADS=1 python torch_resnet20.py --cores 0
Two devices: OMP_NUM_THREADS=1 torchrun --standalone --nproc-per-node 2 torch_resnet20.py --devices 2 --cores 0,1
"""

from __future__ import annotations

import argparse
import json
import os
import time

import torch
from torch import distributed, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel


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
    def __init__(self, classes: int = 10) -> None:
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


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--warmup", type=int, default=11)
    parser.add_argument("--batch-size", type=int, default=128, help="images of a step on all devices together")
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--cores", default="0", help="one for each device, such as 0,1")
    return parser.parse_args()


def replicated(model: nn.Module) -> nn.Module:
    """Gradients are averaged over the ranks; running statistics stay with each."""
    distributed.init_process_group("gloo")
    return DistributedDataParallel(model, forward_sync_buffers=False, gradient_as_bucket_view=True, static_graph=True)


def fixed_batch(share: int, rank: int) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1 + rank)
    images = 2 * torch.rand(share, 3, 28, 28) - 1
    return images.to(memory_format=torch.channels_last), torch.randint(10, (share,))


def main() -> None:
    options = arguments()
    rank = int(os.environ.get("RANK", "0"))
    os.sched_setaffinity(0, {int(options.cores.split(",")[rank])})
    torch.set_num_threads(1)
    torch.manual_seed(0)  # the same weights on every rank
    network = ResNet20().to(memory_format=torch.channels_last)
    optimizer = optimizer_for(network)
    model = replicated(network) if options.devices > 1 else network
    images, labels = fixed_batch(options.batch_size // options.devices, rank)

    first_losses = train(model, optimizer, images, labels, options.warmup)[:3]
    over_ranks(0.0, distributed.ReduceOp.SUM, options.devices)  # all ranks begin together
    processor, start = time.process_time(), time.perf_counter()
    train(model, optimizer, images, labels, options.steps)
    seconds, processor_seconds = time.perf_counter() - start, time.process_time() - processor

    result = {
        "images": options.steps * options.batch_size,
        "seconds": over_ranks(seconds, distributed.ReduceOp.MAX, options.devices),
        "processor_seconds": over_ranks(processor_seconds, distributed.ReduceOp.SUM, options.devices),
        "parameters": sum(parameter.numel() for parameter in network.parameters() if parameter.requires_grad),
        "first_losses": [float(loss) for loss in first_losses],
    }
    if rank == 0:
        print(json.dumps(result), flush=True)
    os._exit(0)  # Gloo's destructor and its threads can wait for each other for ever: pytorch/pytorch#56297


if __name__ == "__main__":
    main()
