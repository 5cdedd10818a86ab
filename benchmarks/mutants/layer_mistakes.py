"""Mistakes in the layers of a network."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.mutants.changes import (
    all_behind,
    before_activation,
    channels_first,
    largest_of_map,
    other_sides,
    relu_before_norm,
    relu_before_sum,
    relu_behind,
    reversed_inputs,
    same_rule,
    setting_of,
    stride_moved,
    swapped,
    without_last_input,
    wrong,
)
from benchmarks.mutants.mutation import (
    Mistake,
)
from benchmarks.mutants.proofs import (
    behind_already,
    constant_taken_out,
    flat_alike,
    input_nothing_negative,
    no_direction,
    no_padding,
    no_sides,
    nothing_new,
    sum_of_nothing_negative,
    sums_commute,
)
from benchmarks.mutants.sites import (
    PADDED,
    behind_relu,
    flat_readers,
    has,
    has_kernel_behind,
    inputs_of,
    norm_then_relu,
    of,
    op_of,
    padded,
    parameters,
    square_images,
    square_kernel,
    stride_pairs,
    sum_then_relu,
    unlike_same,
)
from benchmarks.mutants.surgery import IDENTITY
from paceline_worker.graph import (
    Add,
    AveragePool,
    BatchNorm,
    Concat,
    Conv,
    Dense,
    GlobalPool,
    Input,
    MaxPool,
    Relu,
    Tanh,
)

LAYER = ("output", "strained", "prediction", "gradient", "statistics")

LAYER_MISTAKES = (
    # Padding and windows
    Mistake("padding: odd pixel on the other side", of(*PADDED, where=padded), swapped(other_sides), LAYER, no_sides),
    Mistake("padding: all of it behind", of(*PADDED, where=padded), swapped(all_behind), LAYER, behind_already),
    Mistake("padding: the SAME rule in place of what is said", of(*PADDED, where=unlike_same), same_rule, LAYER),
    Mistake("padding: missing", of(*PADDED, where=padded), setting_of(padding=(0, 0, 0, 0)), LAYER),
    Mistake(
        "padding: one ring too many",
        of(Conv),
        swapped(lambda op: replace(op, padding=tuple(p + 1 for p in op.padding))),
        LAYER,
    ),
    Mistake("stride: on another convolution of the block", stride_pairs, stride_moved, LAYER),
    Mistake(
        "pool: maximum for average",
        of(AveragePool),
        swapped(lambda op: MaxPool(op.kernel, op.stride, op.padding)),
        LAYER,
    ),
    Mistake(
        "pool: average for maximum",
        of(MaxPool),
        swapped(lambda op: AveragePool(op.kernel, op.stride, op.padding)),
        LAYER,
    ),
    Mistake("pool: maximum for the global average", of(GlobalPool), largest_of_map, LAYER),
    Mistake(
        "pool: padding counted, or not, in the average",
        of(AveragePool),
        swapped(lambda op: replace(op, count_padding=not op.count_padding)),
        LAYER,
        no_padding,
    ),
    # Batch normalisation
    Mistake(
        "batch norm: half the epsilon", of(BatchNorm), swapped(lambda op: replace(op, epsilon=op.epsilon / 2)), LAYER
    ),
    Mistake(
        "batch norm: epsilon 1e-3",
        of(BatchNorm, where=lambda s, n: op_of(s, n).epsilon != 1e-3),
        setting_of(epsilon=1e-3),
        LAYER,
    ),
    Mistake(
        "batch norm: epsilon 1e-5",
        of(BatchNorm, where=lambda s, n: op_of(s, n).epsilon != 1e-5),
        setting_of(epsilon=1e-5),
        LAYER,
    ),
    Mistake(
        "batch norm: decay taken for its complement",
        of(BatchNorm),
        swapped(lambda op: replace(op, decay=1 - op.decay)),
        ("statistics",),
    ),
    Mistake("batch norm: decay 0.99", of(BatchNorm), setting_of(decay=0.99), ("statistics",)),
    Mistake("batch norm: running statistics stand still", of(BatchNorm), setting_of(decay=1.0), ("statistics",)),
    Mistake(
        "batch norm: the other running variance",
        of(BatchNorm),
        swapped(lambda op: replace(op, unbiased_running_variance=not op.unbiased_running_variance)),
        ("statistics",),
    ),
    Mistake(
        "batch norm: gamma frozen",
        of(BatchNorm, where=has(trained_gamma=True)),
        setting_of(trained_gamma=False),
        (*LAYER, "update"),
    ),
    Mistake(
        "batch norm: gamma trained though frozen",
        of(BatchNorm, where=has(trained_gamma=False)),
        setting_of(trained_gamma=True),
        ("gradient", "update"),
    ),
    Mistake("batch norm: missing", of(BatchNorm), swapped(lambda op: IDENTITY), LAYER),
    Mistake(
        "evaluation: statistics of the batch",
        of(Input, where=lambda s, n: bool(of(BatchNorm)(s))),
        wrong("BatchStatisticsInEvaluation"),
        ("evaluation",),
        anywhere=True,
    ),
    # Activations and joints
    Mistake("ReLU: missing", of(Relu), swapped(lambda op: IDENTITY), LAYER, input_nothing_negative),
    Mistake("ReLU: tanh in its place", of(Relu), swapped(lambda op: Tanh()), LAYER),
    Mistake("tanh: missing", of(Tanh), swapped(lambda op: IDENTITY), LAYER),
    Mistake(
        "ReLU: one too many",
        of(Conv, Dense, BatchNorm, MaxPool, Add, Concat, where=has_kernel_behind),
        relu_behind,
        LAYER,
        nothing_new,
        behind=True,
    ),
    Mistake(
        "ReLU: before the sum in place of behind",
        sum_then_relu,
        relu_before_sum,
        LAYER,
        sum_of_nothing_negative,
        behind=True,
    ),
    Mistake("ReLU: before batch norm in place of behind", norm_then_relu, relu_before_norm, LAYER, behind=True),
    Mistake("joint: a branch of the sum is missing", of(Add), without_last_input, LAYER),
    Mistake("joint: sum in another order", of(Add), reversed_inputs, LAYER, sums_commute),
    Mistake("joint: channels in another order", of(Concat), reversed_inputs, LAYER),
    Mistake("joint: reads from before the activation", of(Conv, Dense, where=behind_relu), before_activation, LAYER),
    # Kernels, biases, layout
    Mistake("bias: missing", of(Conv, Dense, where=has(bias=True)), setting_of(bias=False), LAYER),
    Mistake(
        "bias: one too many", of(Conv, Dense, where=has(bias=False)), setting_of(bias=True), LAYER, constant_taken_out
    ),
    Mistake("kernel: flipped", parameters("conv.kernel"), wrong("KernelFlipped"), LAYER, no_direction),
    Mistake(
        "kernel: height and width swapped",
        parameters("conv.kernel", where=square_kernel),
        wrong("KernelTurned"),
        LAYER,
        no_direction,
    ),
    Mistake("weights: not those that were given", parameters("conv.kernel", "dense.kernel"), wrong("OwnStart"), LAYER),
    Mistake("layout: flattened channels first", flat_readers, channels_first, LAYER, flat_alike),
    Mistake(
        "layout: height and width of the images swapped", square_images, wrong("ImagesTurned"), LAYER, anywhere=True
    ),
    Mistake("layout: colours reversed", inputs_of, wrong("ColoursReversed"), LAYER),
    Mistake("images: mirrored", inputs_of, wrong("ImagesMirrored"), LAYER),
    Mistake("images: scaled twice", inputs_of, wrong("ImagesScaled"), LAYER),
)
