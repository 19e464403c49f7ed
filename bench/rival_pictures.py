#!/usr/bin/env python3
"""The rival of bench/pictures: torchvision's ImageFolder and PyTorch's DataLoader. Called by it.

rival_pictures.py FOLDER --way WAY [--side 224] [--workers 2] [--batch 32] [--epochs 5]      or: --versions

WAY: stock (Pillow, as ImageFolder comes), draft (Pillow decodes at a half, a quarter or an eighth of the size where
that is large enough, as our loader does), tensor (torchvision.io decodes, transforms on tensors of bytes). Prints a
line of JSON: images a second, the median of all epochs but the first, and milliseconds of CPU an image, workers
included.
"""
import argparse
import json
import os
import statistics
import time

import PIL.Image
import torch
import torchvision
from torchvision.io import ImageReadMode, decode_image
from torchvision.transforms import v2


def loader_of(way, side):
    if way == "draft":
        def load(path):
            image = PIL.Image.open(path)
            image.draft("RGB", (side, side))
            return image.convert("RGB")
        return load
    return (lambda path: decode_image(path, ImageReadMode.RGB)
            ) if way == "tensor" else torchvision.datasets.folder.default_loader


def transform_of(way, side):
    first = [] if way == "tensor" else [v2.PILToTensor()]
    sized = [v2.Resize((side, side), antialias=True), v2.RandomHorizontalFlip()]
    return v2.Compose((sized + first if first else sized) + [v2.ToDtype(torch.float32, scale=True)])


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("folder", nargs="?")
    options.add_argument("--way", choices=["stock", "draft", "tensor"], default="stock")
    for name, value in (("side", 224), ("workers", 2), ("batch", 32), ("epochs", 5)):
        options.add_argument(f"--{name}", type=int, default=value)
    options.add_argument("--versions", action="store_true")
    o = options.parse_args()
    if o.versions:
        print(json.dumps({"torch": torch.__version__, "torchvision": torchvision.__version__,
                          "Pillow": PIL.__version__}))
        return
    torch.set_num_threads(1)
    data = torchvision.datasets.ImageFolder(o.folder, transform_of(o.way, o.side), loader=loader_of(o.way, o.side))
    loader = torch.utils.data.DataLoader(data, o.batch, shuffle=True, drop_last=True, num_workers=o.workers,
                                         persistent_workers=o.workers > 0)
    rates, images, before = [], 0, sum(os.times()[:4])
    for _ in range(o.epochs):
        start, count = time.perf_counter(), 0
        for x, t in loader:
            x.mean((2, 3))
            count += len(t)
        rates.append(count / (time.perf_counter() - start))
        images += count
    del loader  # ends the workers, whose CPU time is counted when they are gone
    print(json.dumps({"images_per_second": statistics.median(rates[1:]),
                      "cpu_ms": 1e3 * (sum(os.times()[:4]) - before) / images}))


main()
