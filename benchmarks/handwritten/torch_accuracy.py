"""ResNet-20 v2 trained on CIFAR-10 as a PyTorch user would write it by hand: the yardstick for Paceline's accuracy.

Crops, mirrors and settings are those of MXNet 0.11.0, train_cifar10.py --data-aug-level 1. One epoch:
OMP_NUM_THREADS=1 python -m benchmarks.handwritten.torch_accuracy --data FOLDER --steps 391 --seed 1 --cores 0
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from benchmarks.handwritten import task
from benchmarks.handwritten.torch_resnet20 import ResNet20, optimizer_for

MEAN = torch.tensor([123.68, 116.779, 103.939])
BORDER, GREY = 4, 127


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with train_images.npy and the others")
    parser.add_argument("--steps", type=int, default=391)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cores", type=task.cores, default=[0], help="one for each thread, such as 0,1")
    return parser.parse_args()


def load(folder: Path, part: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Images as bytes (count, height, width, channels), and labels."""
    images, labels = (np.load(folder / f"{part}_{what}.npy") for what in ("images", "labels"))
    return torch.from_numpy(images), torch.from_numpy(labels).long()


def batches(count: int, size: int) -> Iterator[torch.Tensor]:
    """Indices of the images, for ever: each epoch in a new order, whose first images fill up its last batch."""
    while True:
        order = torch.randperm(count)
        yield from torch.cat([order, order[: -count % size]]).split(size)


def augmented(images: torch.Tensor) -> torch.Tensor:
    """A square from anywhere in the padded image, for half of them with left and right exchanged."""
    padded = functional.pad(images, (0, 0, BORDER, BORDER, BORDER, BORDER), value=GREY)
    count, places = len(images), padded.shape[1] - task.SIZE + 1
    rows, columns = (torch.randint(places, (count, 1)) + torch.arange(task.SIZE) for _ in range(2))
    mirrored = torch.rand(count) < 0.5
    columns[mirrored] = columns[mirrored].flip(1)
    return padded[torch.arange(count)[:, None, None], rows[:, :, None], columns[:, None, :]]


def centre(images: torch.Tensor) -> torch.Tensor:
    first = (images.shape[1] - task.SIZE) // 2
    return images[:, first : first + task.SIZE, first : first + task.SIZE]


def network_input(images: torch.Tensor) -> torch.Tensor:
    """Without the mean; the channels come first, but stay last in memory."""
    return (images - MEAN).permute(0, 3, 1, 2)


def train(model: nn.Module, images: torch.Tensor, labels: torch.Tensor, steps: int, batch_size: int) -> None:
    optimizer = optimizer_for(model)
    model.train()
    for indices in itertools.islice(batches(len(images), batch_size), steps):
        loss = functional.cross_entropy(model(network_input(augmented(images[indices]))), labels[indices])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def accuracy(model: nn.Module, images: torch.Tensor, labels: torch.Tensor, batch_size: int) -> float:
    model.eval()
    correct = 0
    with torch.inference_mode():
        for some, expected in zip(images.split(batch_size), labels.split(batch_size), strict=True):
            correct += int((model(network_input(centre(some))).argmax(1) == expected).sum())
    return correct / len(images)


def main() -> None:
    options = arguments()
    os.sched_setaffinity(0, options.cores)
    torch.set_num_threads(len(options.cores))
    torch.manual_seed(options.seed)
    model = ResNet20().to(memory_format=torch.channels_last)
    train(model, *load(options.data, "train"), options.steps, options.batch_size)
    found = accuracy(model, *load(options.data, "test"), options.batch_size)
    count = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    print(json.dumps({"accuracy": found, "parameters": count}), flush=True)


if __name__ == "__main__":
    main()
