"""What the networks are made of: padding rules, a convolution with its normalisation, and stages of residual units."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from paceline_worker.graph import (
    Add,
    BatchNorm,
    Conv,
    Graph,
    Init,
    Relu,
    same_padding,  # noqa: F401 - plug-ins may import it from here
)

Sides = tuple[int, int, int, int]  # top, bottom, left, right

NO_PADDING: Sides = (0, 0, 0, 0)


@dataclass(frozen=True)
class Layers:
    """Adds to a graph with one network's choice of normalisation, bias and initial kernels.

    Every method gives the name of the last layer it added; that name ends in what the layer is.
    """

    graph: Graph
    norm: BatchNorm
    init: Init
    bias: bool = False

    def conv(
        self,
        name: str,
        source: str,
        channels: int,
        kernel: int | tuple[int, int],
        stride: int = 1,
        padding: Sides | None = None,
    ) -> str:
        """Convolve; `None` pads half a kernel on each side, so that stride 1 keeps the size."""
        size = square(kernel)
        sides = half_padding(size) if padding is None else padding
        op = Conv(channels, size, (stride, stride), sides, self.bias, self.init)
        return self.graph.add(f"{name}_conv", op, source)

    def norm_relu(self, name: str, source: str) -> str:
        return self.relu(name, self.graph.add(f"{name}_bn", self.norm, source))

    def relu(self, name: str, source: str) -> str:
        return self.graph.add(f"{name}_relu", Relu(), source)

    def add(self, name: str, *sources: str) -> str:
        return self.graph.add(f"{name}_add", Add(), *sources)


@dataclass(frozen=True)
class Unit:
    """The place of one residual unit in its network."""

    name: str
    width: int
    stride: int
    first: bool  # of its stage: the shortcut is a projection, not the identity


def residual_stages(
    layers: Layers,
    source: str,
    unit: Callable[[Layers, str, Unit], str],
    depths: Sequence[int],
    widths: Sequence[int],
) -> str:
    """Chain stages of `depths` units; the first unit of every stage but the first halves the map."""
    for stage, (depth, width) in enumerate(zip(depths, widths, strict=True), start=1):
        for index in range(1, depth + 1):
            first = index == 1
            place = Unit(f"stage{stage}_unit{index}", width, 2 if first and stage > 1 else 1, first)
            source = unit(layers, source, place)
    return source


def square(kernel: int | tuple[int, int]) -> tuple[int, int]:
    return (kernel, kernel) if isinstance(kernel, int) else kernel


def around(pixels: int) -> Sides:
    return (pixels, pixels, pixels, pixels)


def half_padding(kernel: tuple[int, int]) -> Sides:
    """Half a kernel on each side: an odd window at stride 1 keeps the size of the map."""
    rows, columns = kernel[0] // 2, kernel[1] // 2
    return (rows, rows, columns, columns)
