"""Tables that are right: an audit contradicts nothing in them, whatever their layout."""

from __future__ import annotations

import pytest

from paceline.studies.audit.rules.all_rules import examine
from paceline.studies.audit.text.reading import read_csv, read_markdown

MARKDOWN = {
    "time to train, as MLPerf has it": """
# Closed division, time to train to 75.9% accuracy
| Submitter | System | Nodes | Accelerators | ResNet-50 (min) | SSD (min) | Mask R-CNN (min) |
|---|---|---|---|---|---|---|
| A | DGX A100 | 1 | 8 | 28.77 | 8.51 | 45.67 |
| A | DGX A100 | 16 | 128 | 2.72 | 1.89 | 8.04 |
| A | DGX A100 | 128 | 1024 | 0.63 | 0.48 | 3.24 |
| B | TPU v4 | 8 | 64 | 4.50 | 1.31 | 9.10 |
""",
    "sizes and accuracies, as Keras applications have them": """
## Available models
| Model | Size (MB) | Top-1 Accuracy | Top-5 Accuracy | Parameters | Depth | Time (ms) per step (CPU) | (GPU) |
|---|---|---|---|---|---|---|---|
| Xception | 88 | 79.0% | 94.5% | 22.9M | 81 | 109.4 | 8.1 |
| VGG16 | 528 | 71.3% | 90.1% | 138.4M | 16 | 69.5 | 4.2 |
| ResNet50 | 98 | 74.9% | 92.1% | 25.6M | 107 | 58.2 | 4.6 |
| MobileNetV2 | 14 | 71.3% | 90.1% | 3.5M | 105 | 25.9 | 3.8 |
| NASNetLarge | 343 | 82.5% | 96.0% | 88.9M | 533 | 344.5 | 20.0 |
| EfficientNetB7 | 256 | 84.3% | 97.0% | 66.7M | 438 | 1578.9 | 61.6 |
""",
    "a sweep of the batch, where speed stops growing": """
### Training throughput of ResNet-50, one V100
| batch size | images/s | memory (MiB) | step time (ms) |
|---|---|---|---|
| 16 | 251.3 | 2911 | 63.67 |
| 32 | 312.8 | 4519 | 102.3 |
| 64 | 359.1 | 7743 | 178.2 |
| 128 | 371.0 | 14207 | 345.0 |
| 192 | 355.4 | 15011 | 540.2 |
""",
    "images/s by batch across": """
### Throughput (images/s)
| model | 1 | 8 | 32 | 128 |
|---|---|---|---|---|
| resnet18 | 210 | 1450 | 3900 | 4800 |
| resnet50 | 120 | 690 | 1280 | 1390 |
| vgg16 | 95 | 310 | 420 | 428 |
""",
    "frameworks that scale differently": """
## ResNet-50, images/s
| GPUs | A | B | C | D |
|---|---|---|---|---|
| 1 | 360 | 345 | 372 | 301 |
| 2 | 701 | 640 | 730 | 420 |
| 4 | 1380 | 1105 | 1420 | 640 |
| 8 | 2710 | 1490 | 2800 | 655 |
""",
    "three that scale alike and one that breaks down": """
## Speed (images/s)
| GPUs | A | B | C | D |
|---|---|---|---|---|
| 1 | 100 | 105 | 98 | 95 |
| 2 | 190 | 200 | 185 | 180 |
| 4 | 370 | 380 | 360 | 340 |
| 8 | 720 | 740 | 700 | 310 |
""",
    "one framework that is fast alone": """
## Speed (images/s)
| GPUs | A | B | C | D |
|---|---|---|---|---|
| 1 | 100 | 101 | 99 | 131 |
| 2 | 190 | 191 | 188 | 189 |
| 4 | 370 | 372 | 366 | 371 |
| 8 | 720 | 724 | 716 | 722 |
""",
    "somewhat above linear": """
| GPUs | images/s | speed-up | efficiency |
|---|---|---|---|
| 1 | 41.2 | 1.00 | 100% |
| 2 | 95.1 | 2.31 | 115% |
| 4 | 203 | 4.93 | 123% |
| 8 | 351 | 8.52 | 106% |
""",
    "several devices slower than one": """
| devices | images/s | time per epoch (s) |
|---|---|---|
| 1 | 5000 | 10.0 |
| 2 | 3500 | 14.3 |
| 4 | 5200 | 9.6 |
| 8 | 6100 | 8.2 |
""",
    "mixed cards": """
### Time
| | GTX 980 | Titan X | Titan X + GTX 980 | V100 + GTX 980 |
|---|---|---|---|---|
| A | 80.1s | 51.2s | 40.3s | 15.9s |
| B | 85.0s | 55.5s | 44.0s | 16.2s |
""",
    "memory of one card": """
| GPUs | batch per GPU | memory per GPU (MiB) | memory (MiB) | images/s |
|---|---|---|---|---|
| 1 | 64 | 7511 | 7511 | 350 |
| 2 | 64 | 7640 | 7640 | 660 |
| 4 | 64 | 7622 | 7622 | 1290 |
| 8 | 64 | 7633 | 7633 | 2510 |
""",
    "a batch that is split": """
* Batch size 256 in all, CIFAR-10, 10 epochs
| GPUs | memory (MiB) | training time (s) | s/epoch | accuracy |
|---|---|---|---|---|
| 1 | 9120 | 612.3 | 61.2 | 0.91 |
| 2 | 5010 | 330.1 | 33.0 | 0.91 |
| 4 | 2998 | 190.7 | 19.1 | 0.90 |
""",
    "training measured with augmentation": """
| model | train accuracy | test accuracy |
|---|---|---|
| a | 0.612 | 0.741 |
| b | 0.655 | 0.767 |
| c | 0.701 | 0.779 |
| d | 0.489 | 0.688 |
""",
    "learning rates, most of which diverge": """
| lr | GPUs | accuracy |
|---|---|---|
| 0.8 | 4 | 10.0 |
| 0.4 | 4 | 10.0 |
| 0.2 | 4 | 10.0 |
| 0.1 | 4 | 91.2 |
| 0.05 | 4 | 90.7 |
| 0.01 | 4 | 88.9 |
""",
    "accuracy that falls with the batch": """
| GPUs | batch | test accuracy (%) | images/s |
|---|---|---|---|
| 1 | 256 | 76.3 | 380 |
| 8 | 2048 | 76.2 | 2900 |
| 64 | 16384 | 75.1 | 21500 |
| 128 | 32768 | 72.4 | 39800 |
| 256 | 65536 | 66.0 | 70100 |
""",
    "a split of 45,000 images to train on": """
CIFAR-10, 45,000 to train on
| GPUs | images/s | s/epoch |
|---|---|---|
| 1 | 1500 | 30.0 |
| 2 | 2903 | 15.5 |
| 3 | 4090 | 11.0 |
| 4 | 5294 | 8.5 |
| 8 | 9375 | 4.8 |
""",
    "minutes and hours": """
| GPUs | epochs | training time (h) | time per epoch (min) | images/s |
|---|---|---|---|---|
| 1 | 90 | 87.2 | 58.1 | 367 |
| 8 | 90 | 11.6 | 7.7 | 2770 |
""",
    "several machines of a kind": """
Run on 4 nodes, each a p3.16xlarge.
| GPUs | images/s |
|---|---|
| 8 | 2900 |
| 16 | 5650 |
| 32 | 11000 |
""",
    "machines one after another": """
### Setup
All runs on one p3.2xlarge.
| GPUs | images/s |
|---|---|
| 1 | 380 |
## Larger
Here we used a p3.16xlarge.
| GPUs | images/s |
|---|---|
| 8 | 2900 |
""",
    "two networks next to each other, one of which failed": """
| GPUs | images/s | speedup | images/s | speedup |
|---|---|---|---|---|
| 1 | 39.07 | 1.00x | 41 | 1.00x |
| 2 | 49.01 | 1.25x | 50.1 | 1.22x |
| 6 | error | N/A | 21.33 | 0.52x |
""",
    "nodes with their GPUs": """
| node_num | gpu_num | samples/s | speedup |
|---|---|---|---|
| 1 | 1 | 156.76 | 1 |
| 1 | 2 | 295.42 | 1.88 |
| 1 | 8 | 1153.08 | 7.36 |
| 2 | 16 | 2172.62 | 13.86 |
| 4 | 32 | 4340.89 | 27.69 |
""",
    "nodes with the GPUs of each": """
| nodes | gpus | samples/s |
|---|---|---|
| 1 | 1 | 157 |
| 1 | 8 | 1153 |
| 2 | 8 | 2172 |
| 4 | 8 | 4340 |
| 8 | 4 | 4400 |
""",
    "multiples of a machine": """
### Training performance: DGX-1 (8x V100)
| GPUs | samples/s |
|---|---|
| 1 | 371 |
| 8 | 2866 |
| 32 | 11008 |
""",
    "speed-up over something else than one device": """
| GPUs | loader | images/s | speed-up |
|---|---|---|---|
| 1 | a | 25.97 | --- |
| 8 | a | 128.1 | 1x (base) |
| 8 | b | 208.4 | 1.6x |
""",
    "thousands with a k, and ranges": """
| GPUs | images/s | s/epoch | dataset |
|---|---|---|---|
| 1 | 2.5k | 20.0 | CIFAR-10 |
| 4 | 9.1k | 5.5 | CIFAR-10 |
| 8 | 15-17k | 3.1 | CIFAR-10 |
""",
    "two data sets in one table": """
| dataset | images/s | s/epoch |
|---|---|---|
| cifar10 | 5000 | 10.0 |
| mnist | 20000 | 3.0 |
| cifar10 | 2500 | 20.0 |
| mnist | 10000 | 6.0 |
| cifar10 | 1250 | 40.0 |
| imagenet | 400 | 3203 |
""",
    "commands of several stages": """
## Train
### A + B
```
python train.py --gpus 0,1
```
### A + B
```
python train.py --gpus 0,1
```
### A + B
```
python prepare.py
```
## Test
### A + B
```
python test.py --gpus 0,1
```
### A + B
```
python test.py --gpus 0,1
```
| a | images/s |
|---|---|
| x | 1 |
""",
    "speeds of each device": """
| GPUs | images/s/GPU | images/s |
|---|---|---|
| 1 | 382.1 | 382.1 |
| 4 | 371.5 | 1486 |
| 8 | 355.0 | 2840 |
""",
    "time with a break-even between": """
| system | 1 GPU | 2 GPUs | 4 GPUs |
|---|---|---|---|
| Training time (s) | 410.2 | 260.9 | 255.0 |
| images/s | 1218.9 | 1916 | 1961 |
| Test accuracy | 0.88 | 0.87 | 0.61 |
""",
}
CSV = {
    "timm, inference": """model,infer_samples_per_sec,infer_step_time,infer_batch_size,infer_img_size,param_count
levit_128s,21485.8,47.648,1024,224,7.78
mobilenetv3_small,21242.2,48.193,1024,224,2.54
resnet50,2713.4,377.372,1024,224,25.56
vit_huge,62.9,1017.07,64,224,632.05
""",
    "timm, results": """model,top1,top1_err,top5,top5_err,param_count,img_size
eva_large,90.054,9.946,99.056,0.944,305.08,448
resnet50,80.374,19.626,94.614,5.386,25.56,224
tiny,7.352,92.648,17.6,82.4,1.01,64
other,0.1,99.9,0.5,99.5,25.56,224
""",
    "timm, training": """model,train_samples_per_sec,train_step_time,train_batch_size,train_img_size
resnet18,2945.1,173.126,512,224
resnet50,1005.3,253.8,256,224
""",
    "a log of epochs": """epoch,time (s),train accuracy,test accuracy,images/s
1,21.3,0.31,0.42,2347
2,20.1,0.52,0.55,2488
3,20.0,0.61,0.66,2500
4,20.2,0.69,0.61,2475
5,26.9,0.72,0.74,1859
""",
    "repeats": """framework,gpus,run,images/s,s/epoch
torch,1,1,1000,50.0
torch,1,2,1010,49.5
torch,2,1,1900,26.3
torch,2,2,1210,41.3
jax,1,1,990,50.5
jax,2,1,1930,25.9
""",
}


@pytest.mark.parametrize("name", MARKDOWN)
def test_right_page_is_not_contradicted(name: str) -> None:
    assert [each for each in examine(read_markdown("page.md", MARKDOWN[name])) if each and each.counts] == []


@pytest.mark.parametrize("name", CSV)
def test_right_file_is_not_contradicted(name: str) -> None:
    assert [each for each in examine(read_csv("results.csv", CSV[name])) if each and each.counts] == []
