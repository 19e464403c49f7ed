#!/usr/bin/env python3
"""models/convnext.dl and models/resunet.dl against PyTorch: losses, gradients, weights by PyTorch's own names; and they
learn.

oracle_examples.py BUILD [OPTION...]
"""
import json
import sys

from checks import turn
from oracle_nets import philox
from oracle_tools import Workplace, check, compare_training, finish, torch, train_in_torch
from torch import nn

f = nn.functional


class ConvNeXt(nn.Module):
    """The poles' padding is an argument, so is the rate of drop path, whose draws are drawn here too."""
    path = "models/convnext.dl"
    image, inputs, outputs, patch, width, depth = (20, 36), 3, 2, 2, 12, 3

    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.gamma = nn.Parameter(torch.full((width,), 0.1))
            self.dwconv, self.norm = nn.Conv2d(width, width, 7, groups=width), nn.LayerNorm(width, eps=1e-6)
            self.pwconv1, self.pwconv2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x, poles):
            x = self.dwconv(f.pad(f.pad(x, (3, 3, 0, 0), "circular"), (0, 0, 3, 3), poles))
            x = self.pwconv2(f.gelu(self.pwconv1(self.norm(x.permute(0, 2, 3, 1)))))
            return (self.gamma * x).permute(0, 3, 1, 2)

    class Last(nn.LayerNorm):
        def forward(self, x):
            return super().forward(x.permute(0, 2, 3, 1))

    def __init__(self, poles="constant", rate=0.0):
        super().__init__()
        self.poles, self.rate, self.step = poles, rate, -1
        self.stem = nn.Sequential(nn.Conv2d(self.inputs, self.width, self.patch, stride=self.patch),
                                  self.Last(self.width, eps=1e-6))
        self.blocks = nn.ModuleList([self.Block(self.width) for _ in range(self.depth)])
        self.norm, self.head = nn.LayerNorm(self.width, eps=1e-6), nn.Linear(self.width, self.patch**2 * self.outputs)
        self.options = [f"--img_size=[{self.image[0]},{self.image[1]}]", f"--n_in_channels={self.inputs}",
                        f"--n_out_channels={self.outputs}",
                        f"--patch_size={self.patch}", f"--embed_dim={self.width}", f"--depth={self.depth}",
                        f"--poles={poles}",
                        f"--drop_path_rate={rate}"]
        wt = torch.cos(torch.linspace(90, -90, self.image[0]) * torch.pi / 180)[:, None]
        self.weight = wt / wt.mean()

    def forward(self, x):
        self.step += 1
        z, drawn = self.stem(x).permute(0, 3, 1, 2), 0
        for i, block in enumerate(self.blocks):
            y, rate = block(z, self.poles), self.rate * i / (self.depth - 1)
            if rate:
                y = y * (philox(0, self.step, drawn, len(x)) >= rate)[:, None, None, None] / (1 - rate)
                drawn += 1
            z = z + y
        n, h, w = len(x), self.image[0] // self.patch, self.image[1] // self.patch
        y = self.head(self.norm(z.permute(0, 2, 3, 1))).reshape(n, h, w, self.patch, self.patch, self.outputs)
        return y.permute(0, 5, 1, 3, 2, 4).reshape(n, self.outputs, *self.image)

    def loss(self, y, t):
        return (self.weight * (y - t) ** 2).mean()

    def metrics(self, y, t):
        return {f"RMSE({k})": (self.weight * (y - t)[:, k] ** 2).mean((1, 2)).sqrt().mean().item()
                for k in range(self.outputs)}

    def batch(self, size=2):
        """Waves that travel to the east, across the border of the map, and fade."""
        places = torch.arange(self.image[1]) * 2 * torch.pi / self.image[1]
        shape = (size, self.inputs, self.image[0], 1)
        wave = sum(torch.randn(shape) * torch.cos(k * places + 6.3 * torch.rand(shape)) for k in range(1, 5))
        return wave, 0.8 * wave.roll(3, 3)[:, :self.outputs]


class ResUNet(nn.Module):
    path = "models/resunet.dl"
    widths, groups, heads, side = (8, 12, 24), 4, 3, 12

    class Res(nn.Module):
        def __init__(self, inputs, outputs, groups):
            super().__init__()
            self.norm1, self.conv1 = nn.GroupNorm(groups, inputs), nn.Conv3d(inputs, outputs, 3, padding=1)
            self.norm2, self.conv2 = nn.GroupNorm(groups, outputs), nn.Conv3d(outputs, outputs, 3, padding=1)
            self.shortcut = nn.Conv3d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

        def forward(self, x):
            return self.shortcut(x) + self.conv2(f.silu(self.norm2(self.conv1(f.silu(self.norm1(x))))))

    class Attention(nn.Module):
        def __init__(self, width, heads, groups):
            super().__init__()
            self.heads, self.norm = heads, nn.GroupNorm(groups, width)
            self.q, self.k, self.v, self.proj = (nn.Linear(width, width, bias=i != 1) for i in range(4))

        def forward(self, x):
            z = self.norm(x).flatten(2).transpose(1, 2)
            q, k, v = (p(z).unflatten(2, (self.heads, -1)).transpose(1, 2) for p in (self.q, self.k, self.v))
            share = torch.softmax(q @ k.transpose(2, 3) / q.shape[3]**0.5, 3)
            return x + self.proj((share @ v).transpose(1, 2).flatten(2)).transpose(1, 2).reshape(x.shape)

    def __init__(self):
        super().__init__()
        w, g = self.widths, self.groups
        self.stem, self.norm, self.last = nn.Conv3d(4, w[0], 3,
                                                    padding=1), nn.GroupNorm(g, w[0]), nn.Conv3d(w[0], 5, 3, padding=1)
        self.down = nn.ModuleList([self.Res(c, c, g) for c in w[:-1]])
        self.shrink = nn.ModuleList([nn.Conv3d(a, b, 3, stride=2, padding=1) for a, b in zip(w, w[1:])])
        self.mid = nn.Sequential(self.Res(w[-1], w[-1], g), self.Attention(w[-1], self.heads, g),
                                 self.Res(w[-1], w[-1], g))
        self.grow = nn.ModuleList([nn.Conv3d(b, a, 3, padding=1) for a, b in zip(w, w[1:])])
        self.up = nn.ModuleList([self.Res(2 * c, c, g) for c in w[:-1]])
        self.options = [f"--widths={list(w)}".replace(" ", ""), f"--norm_groups={g}", f"--heads={self.heads}",
                        f"--data_size={self.side}"]

    def forward(self, x):
        y, skips = self.stem(x), []
        for res, shrink in zip(self.down, self.shrink):
            skips.append(res(y))
            y = shrink(skips[-1])
        y = self.mid(y)
        for i in reversed(range(len(skips))):
            y = self.grow[i](y.repeat_interleave(2, 2).repeat_interleave(2, 3).repeat_interleave(2, 4))
            y = self.up[i](torch.cat([y, skips[i]], 1))
        return self.last(f.silu(self.norm(y)))

    @staticmethod
    def loss(y, t):
        return (y - t).abs().mean()

    @staticmethod
    def metrics(y, t):
        return {}

    def batch(self, size=2):
        """What lies around, smoothed, and a product of two fields."""
        x = torch.randn(size, 4, *[self.side] * 3)
        near = f.avg_pool3d(x, 3, 1, 1, count_include_pad=False)
        return x, torch.cat([3 * near, (near[:, :1] * near[:, 1:2]) * 9], 1)


# Of the configurations, the optimiser's part is left to others.
PLAIN = "--config=base", "--lr_schedule=none", "--optimizer=adam", "--weight_decay=0", "--clip_grad_norm=0"


def compare(place, net, what, *options, rate=1e-3):
    torch.manual_seed(7)
    weights = {name: p.detach().clone() for name, p in net.state_dict().items()}
    batches = [net.batch() for _ in range(5)]
    with torch.no_grad():
        metrics = net.metrics(net(batches[0][0]), batches[0][1])
    net.step = -1
    got = place.replay(weights, batches, net.path, *PLAIN, "--local_batch_size=2", *net.options, *options, rate=rate)
    compare_training(what, got, train_in_torch(net, net.loss, batches, rate=rate))
    for name, value in metrics.items():
        # a sum of some 1,000 terms in f32, and the network's own rounding before
        check(abs(got[2][0][name] / value - 1) < 1e-5,
              f"{what}: metric {name} is {got[2][0][name]:.6f}, in PyTorch {value:.6f}")


def learn(place, net, what, steps, rate, share, *options):
    """From equal weights on the same batches, both losses fall to less than `share`; as far apart as rounding may take
    them."""
    torch.manual_seed(11)
    weights = {name: p.detach().clone() for name, p in net.state_dict().items()}
    batches = [net.batch(4) for _ in range(steps)]
    ours = place.replay(weights, batches, net.path, *PLAIN, "--local_batch_size=4", *net.options, *options,
                        rate=rate)[0]
    theirs = train_in_torch(net, net.loss, batches, rate=rate)[0]
    first, last = (lambda v: sum(v[:3]) / 3), (lambda v: sum(v[-5:]) / 5)
    check(last(theirs) < share * first(theirs),
          f"{what}: PyTorch's loss falls from {first(theirs):.4f} to {last(theirs):.4f}")
    check(last(ours) < share * first(ours), f"{what}: our loss falls from {first(ours):.4f} to {last(ours):.4f}")
    check(abs(last(ours) / last(theirs) - 1) < 0.05, f"{what}: both end alike")


def train_on_noise(place, net, what, *options):
    """A run of dlrun by its configuration: the noise is the same at each epoch, and is learned by heart."""
    place.run("dlrun", net.path, "--config=short", *net.options, "--data_loader_config=synthetic",
              "--local_batch_size=2", "--Nsamples=8",
              "--Nsamples_val=2", "--num_epochs=40", "--lr_schedule=none", "--lr=3e-3", "--limit_nsamples=8",
              f"--expdir={place / what}",
              *options)
    lines = next((place / what).rglob("metrics.jsonl")).read_text().splitlines()
    losses = [p["Loss/train"] for p in map(json.loads, lines) if "Loss/train" in p]
    check(losses[-1] < 0.9 * losses[0],
          f"{what} on noise: the training loss falls from {losses[0]:.4f} to {losses[-1]:.4f}")


def main(build, *options):
    place = Workplace(build)
    torch.manual_seed(3)
    compare(place, ConvNeXt(), "ConvNeXt", *options)
    compare(place, ConvNeXt("reflect"), "ConvNeXt, mirrored at the poles", *options)
    compare(place, ConvNeXt(rate=0.6), "ConvNeXt with drop path", *options)
    if turn(0):
        learn(place, ConvNeXt(), "ConvNeXt", 60, 3e-3, 0.4, *options)
    if turn(1):
        train_on_noise(place, ConvNeXt(), "ConvNeXt", *options)
    compare(place, ResUNet(), "ResUNet", *options, rate=1e-4)
    if turn(1):
        learn(place, ResUNet(), "ResUNet", 60, 4e-3, 0.7, *options)
    if turn(0):
        train_on_noise(place, ResUNet(), "ResUNet", *options)
    finish()


main(*sys.argv[1:])
