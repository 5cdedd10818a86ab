"""All networks by name; each is built once here, as a neutral graph, for all frameworks.

No framework is imported, and nothing is said of data, rates or batches: those belong to workloads.

One choice serves all of them: the running variance of batch normalisation takes the unbiased variance of the batch,
as PyTorch and fused TensorFlow kernels do. The originals of neon and MXNet took the biased one. Only evaluation sees
the difference, a factor of n / (n - 1) for n values per channel and batch.
"""

from functools import partial
from typing import Protocol

from paceline.catalog.networks import (
    cifar10_conv,
    cifar_resnet,
    imagenet_resnet50,
    inception_v3,
    keras_resnet50,
    lenet,
    mlp,
)
from paceline_worker.graph import Graph


class NetworkBuilder(Protocol):
    """Builds a network, with as many classes as its original unless told otherwise."""

    def __call__(self, *, classes: int = ...) -> Graph: ...


CIFAR_DEPTHS = (20, 50, 56, 110, 164)  # 50 and 110: the published MXNet runs; the others: He et al. 2015 and 2016

NETWORKS: dict[str, NetworkBuilder] = {
    "cifar10-conv": cifar10_conv.neon_form,
    "cifar10-conv-mxnet": cifar10_conv.mxnet_form,
    **{f"cifar-resnet{depth}": partial(cifar_resnet.build, depth) for depth in CIFAR_DEPTHS},
    **{f"cifar-resnet{depth}-32": partial(cifar_resnet.build, depth, size=32) for depth in CIFAR_DEPTHS},
    "keras-resnet50": keras_resnet50.build,
    "resnet50-v1": partial(imagenet_resnet50.post_activation, stride_on_3x3=False),
    "resnet50-v1.5": partial(imagenet_resnet50.post_activation, stride_on_3x3=True),
    "resnet50-v2": imagenet_resnet50.version_2,
    "inception-v3": inception_v3.build,
    "inception-v3-aux": partial(inception_v3.build, auxiliary=True),
    "lenet": lenet.build,
    "mlp": mlp.build,
}
