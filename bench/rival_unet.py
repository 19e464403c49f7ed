#!/usr/bin/env python3
"""The rival: one training step of the 3-D U-Net in PyTorch, as fast as we know to make it. Called by bench/step.

rival_unet.py [--side 64] [--batch 1] [--threads 2] [--steps 5] [--fused] [--channels-last] [--compile]

Prints one line of JSON. tcmalloc is preloaded by the caller (LD_PRELOAD), since it cannot be taken later.
"""
import argparse
import json
import resource
import statistics
import time

import torch
from torch import nn

WIDTHS = [64, 128, 256, 512, 512, 512]


class UNet(nn.Module):
    """The network of models/unet.dl, activations in place as its authors have them."""

    def __init__(self, scales):
        super().__init__()
        channels = [4] + WIDTHS[:scales]
        self.down = nn.ModuleList(
            nn.Sequential(nn.Conv3d(a, b, 4, 2, 1), nn.LeakyReLU(0.01, inplace=True))
            for a, b in zip(channels, channels[1:]))
        up, below = [], channels[-1]
        for i in range(scales - 1, 0, -1):
            above = 512 if i == scales - 1 else WIDTHS[i - 1]
            up.append(nn.Sequential(nn.ConvTranspose3d(below, above, 4, 2, 1), nn.ReLU(inplace=True)))
            below = above + channels[i]
        self.up, self.last = nn.ModuleList(up), nn.ConvTranspose3d(below, 5, 4, 2, 1)

    def forward(self, x):
        skips = []
        for layer in self.down:
            x = layer(x)
            skips.append(x)
        skips.pop()
        for layer in self.up:
            x = torch.cat([layer(x), skips.pop()], 1)
        return torch.tanh(self.last(x))


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, value in (("side", 64), ("batch", 1), ("threads", 2), ("steps", 5), ("warm", 2)):
        options.add_argument(f"--{name}", type=int, default=value)
    for name in ("fused", "channels-last", "compile"):
        options.add_argument(f"--{name}", action="store_true")
    o = options.parse_args()

    torch.set_num_threads(o.threads)
    torch.manual_seed(0)
    model = UNet(6 if o.side >= 64 else 5)
    x, t = torch.randn(o.batch, 4, *[o.side] * 3), torch.randn(o.batch, 5, *[o.side] * 3)
    if o.channels_last:
        model, x = model.to(memory_format=torch.channels_last_3d), x.to(memory_format=torch.channels_last_3d)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, **({"fused": True} if o.fused else {}))
    call = torch.compile(model) if o.compile else model

    def step():
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.l1_loss(call(x), t)
        loss.backward()
        optimizer.step()
        return 1e3 * (time.perf_counter() - start), loss.item()

    first = step()[0]
    for _ in range(o.warm - 1):
        step()
    runs = [step() for _ in range(o.steps)]
    print(json.dumps({
        "torch": torch.__version__, "parameters": sum(p.numel() for p in model.parameters()),
        "step_ms": statistics.median(r[0] for r in runs), "step_ms_min": min(r[0] for r in runs), "first_ms": first,
        "loss": runs[-1][1], "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }))


main()
