"""All workloads by name, with the numbers of the programs they come from; every schedule begins at its first rate.

How long a plan trains them, and with which batch on which devices, is up to `plan`.
"""

from dataclasses import replace
from functools import cache, partial
from importlib.metadata import EntryPoint

from paceline.catalog import plugins
from paceline.catalog.workloads.definition import Workload
from paceline.system.errors import unknown
from paceline.system.hashing import network_facts, short_key, without_defaults
from paceline_worker.input.pipeline import INCEPTION, MXNET_LEVELS, SCALED, WHITENED
from paceline_worker.input.pipeline import KERAS as KERAS_INPUT
from paceline_worker.protocol import Recipe

CIFAR10_IMAGES = 50_000  # training part; Krizhevsky 2009, "Learning Multiple Layers of Features from Tiny Images"
MNIST_IMAGES = 60_000  # training part; LeCun et al. 1998, "Gradient-Based Learning Applied to Document Recognition"
IMAGENET_IMAGES = 1_281_167  # training part of ILSVRC 2012; Russakovsky et al. 2015, table 2

CIFAR10, MNIST, IMAGENET = "cifar10", "mnist", "imagenet"  # names that plug-ins may import

# neon v1.2.2, examples/cifar10_conv.py: GradientDescentMomentum(0.01, momentum_coef=0.9), and no weight decay.
NEON = Recipe(learning_rate=0.01, momentum=0.9)

cifar10 = partial(Workload, classes=10, images_per_epoch=CIFAR10_IMAGES, dataset="cifar10")
mnist = partial(Workload, classes=10, images_per_epoch=MNIST_IMAGES, dataset="mnist")
imagenet = partial(Workload, classes=1000, images_per_epoch=IMAGENET_IMAGES, dataset="imagenet")

# MXNet 0.11.0, example/image-classification: train_cifar10.py and train_mnist.py both start at --lr 0.05; common/fit.py
# has --mom 0.9 and --wd 1e-4. MXNet decays what is named weight or gamma, never a bias or a beta.
MXNET = Recipe(
    learning_rate=0.05,
    momentum=0.9,
    weight_decay=1e-4,
    decayed=("conv.kernel", "dense.kernel", "gamma"),
)
MXNET_CIFAR = replace(MXNET, drops=((200, 0.1), (250, 0.1)))  # --lr-step-epochs 200,250 with --lr-factor 0.1
MXNET_MNIST = replace(MXNET, drops=((10, 0.1),))  # --lr-step-epochs 10

# keras-mxnet-benchmarks (July 2017), keras1.2/: both scripts train with SGD(lr=0.01), without momentum or schedule.
KERAS = Recipe(learning_rate=0.01)

# Its ResNet puts W_regularizer l2(1e-4) on convolutions, not on the dense layer. Keras adds 1e-4 * sum(w**2) to the
# loss, so the gradient gets twice that.
KERAS_RESNET = replace(KERAS, weight_decay=2e-4, decayed=("conv.kernel",))

# tensorpack/benchmarks 8de4a25, ResNet-MultiGPU/resnet-multigpu.py: GradientDescentOptimizer(0.1) and l2_regularizer
# 1e-4, which is half the sum of squares: a decay of 1e-4. We take the parameters of its `tensorpack` model ('.*/W':
# kernels of convolutions and the dense layer); its `tfbench` model decays all variables, even beta and biases.
TENSORPACK = Recipe(learning_rate=0.1, weight_decay=1e-4, decayed=("conv.kernel", "dense.kernel"))

# torchvision, references/classification/train.py: --momentum 0.9 and --wd 1e-4 on all parameters. Its --lr 0.1 was for
# 8 GPUs with 32 images each, as in He et al. 2015 (0.1 for 256 images); one device with 32 gets an eighth of it.
TORCHVISION = Recipe(
    learning_rate=0.1 / 8,
    momentum=0.9,
    weight_decay=1e-4,
    decayed=("conv.kernel", "dense.kernel", "bias", "gamma", "beta"),
)


def mxnet_cifar_resnet(depth: int, note: str) -> Workload:
    return cifar10(
        name=f"cifar10-resnet{depth}",
        network=f"cifar-resnet{depth}",
        recipe=MXNET_CIFAR,
        batch_size=128,  # default of train_cifar10.py
        epochs=12,  # README_cifar.md of beeva-poc-mxnet; the program's own default is 300
        origin=f"MXNet 0.11.0 train_cifar10.py --num-layers {depth}, {note}",
        pipelines={f"level{level}": MXNET_LEVELS[level] for level in (2, 0, 1, 3)},  # its default is 2
    )


def mxnet_mnist(network: str, batch_size: int) -> Workload:
    return mnist(
        name=f"mnist-{network}",
        network=network,
        recipe=MXNET_MNIST,
        batch_size=batch_size,
        epochs=12,  # README.md of beeva-poc-mxnet; the program's own default is 20
        origin=f"MXNet train_mnist.py --network {network}, as measured in beeva-poc-mxnet README.md",
    )


ALL = (
    cifar10(
        name="cifar10-conv",
        network="cifar10-conv",
        recipe=NEON,
        batch_size=128,  # neon's default --batch_size, and the port's --batch-size
        epochs=10,  # neon's default --epochs, and the port's --num-epoch
        origin="neon v1.2.2 examples/cifar10_conv.py, of 'CIFAR 10 Conv MGPU Benchmark Neon vs. MXNet'",
        pipelines={"scaled": SCALED, "whitened": WHITENED},  # neon whitens from version 1.6.0 on
    ),
    mxnet_cifar_resnet(20, "a depth that beeva-poc-mxnet did not measure, with the settings of those it did"),
    mxnet_cifar_resnet(50, "as measured in beeva-poc-mxnet README_cifar.md (06ac51f)"),
    mxnet_cifar_resnet(110, "as measured in beeva-poc-mxnet README_cifar.md (06ac51f)"),
    cifar10(
        name="cifar10-resnet50-keras",
        network="keras-resnet50",
        recipe=KERAS_RESNET,
        batch_size=32,  # per GPU in the published runs; the script's own default is 64 in all
        epochs=10,  # first set of results; the second, "Reduce Randomization", has 100
        origin="keras-mxnet-benchmarks (f891251) keras1.2/test_cifar_resnet.py",
        pipelines={"shifted": KERAS_INPUT},
    ),
    cifar10(
        name="cifar10-inception-v3",
        network="inception-v3",  # the standard one: the script's own port wires its 35x35 modules wrongly
        recipe=KERAS,
        batch_size=32,  # published; whether per GPU or in all is not said
        epochs=5,  # first set of results; the second has 25
        origin="keras-mxnet-benchmarks (f891251) keras1.2/test_inception_v3.py, with the standard Inception-v3",
        pipelines={"enlarged": INCEPTION},
    ),
    imagenet(
        name="imagenet-resnet50",
        network="resnet50-v1",
        recipe=TENSORPACK,
        batch_size=64,  # per GPU, fixed in the script
        epochs=10,  # max_epoch; there an epoch was 100 steps of fake data, here it is one pass over ImageNet
        origin="tensorpack/benchmarks (8de4a25) ResNet-MultiGPU/resnet-multigpu.py",
    ),
    imagenet(
        name="imagenet-resnet50-v1.5",
        network="resnet50-v1.5",
        recipe=TORCHVISION,
        batch_size=32,  # default of --batch-size, per GPU
        epochs=90,  # default of --epochs
        origin="torchvision references/classification/train.py --model resnet50",
    ),
    mxnet_mnist("lenet", batch_size=64),  # default of train_mnist.py, and the first rows of the table
    mxnet_mnist("mlp", batch_size=128),  # the only one in the table
)

WORKLOADS: dict[str, Workload] = {workload.name: workload for workload in ALL}


@cache
def all_workloads() -> dict[str, Workload]:
    """Ours, and those of plug-ins."""
    return {**WORKLOADS, **plugins.load(plugins.WORKLOADS, set(WORKLOADS), _from_plugin)}


def _from_plugin(point: EntryPoint) -> Workload:
    workload = point.load()
    if not isinstance(workload, Workload) or workload.name != point.name:
        raise TypeError(f"{point.value} is not a Workload named {point.name}")
    workload.graph()  # what is wrong in it shows here and not in the middle of a plan
    return workload


def known_workload(name: str) -> Workload:
    if name not in all_workloads():
        raise unknown("workload", name, all_workloads())
    return all_workloads()[name]


@cache
def fingerprint(name: str, given: str) -> str:
    """Names what is trained and how, so that an edited network does not go on with old results.

    Of all that may be done to its images only what a cell is given belongs to it.
    """
    workload = known_workload(name)
    recipe, pipeline = without_defaults(workload.recipe), without_defaults(workload.pipelines.get(given))
    facts = (network_facts(workload.graph()), workload.classes, workload.images_per_epoch, recipe, pipeline)
    return short_key(facts, 12)
