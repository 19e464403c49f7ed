#!/usr/bin/env python3
"""System E's small ResNet on real pictures (the subset of CIFAR-10 in ../shared/data) next to PyTorch.

oracle_cifar.py BUILD STEPS [--double]     the same weights, the same batches in the files' order, nothing moved: losses
                                           step by step
oracle_cifar.py BUILD --epochs=N           both draw their own weights, order and moves, three times each: accuracy on
                                           what was held out

models/config/cifar10_resnet.yaml as it stands (Adam at 1e-4, batches of 64, L2 of 5e-5, batch norm with momentum 0.9),
Keras' constants and starts. Steps are compared from a calm start, where each block's last norm begins at 0.1: from
Keras' 1 no two float32 runs stay together, PyTorch's own in channels-last parts from itself by 4e-3 in 10 steps and by
1.5e-2 in 20. --double trains a third time, in PyTorch's float64, and says who is nearer to it; that takes as long as
the others together.
"""
import copy
import json
import math
import statistics
import sys

from oracle_cache import remembered
from oracle_tools import SHARED, Workplace, check, finish, skip, torch
from torch import nn

import numpy as np

DATA, CONFIG = SHARED / "data/images/cifar10_bin", "models/config/cifar10_resnet.yaml"
BATCH, RATE, SHIFT, SEEDS = 64, 1e-4, 0.1, 3
f = nn.functional


class CB(nn.Module):
    def __init__(self, inputs, outputs, kernel=1, stride=1):
        super().__init__()
        self.conv, self.bn = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2), nn.BatchNorm2d(outputs)

    def forward(self, x):
        return self.bn(self.conv(x))


class Block(nn.Module):
    def __init__(self, inputs, width, first):
        super().__init__()
        stride = 2 if first else 1
        self.a, self.b, self.c = CB(inputs, width, 1, stride), CB(width, width, 3), CB(width, width)
        self.shortcut = CB(inputs, width, 1, stride) if first else nn.Identity()

    def forward(self, x):
        return torch.relu(self.c(torch.relu(self.b(torch.relu(self.a(x))))) + self.shortcut(x))


class ResNetSmall(nn.Module):
    """models/resnet.dl with small=true, two blocks each of 64, 128, 256 and 512 channels."""

    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 3, padding=1), nn.BatchNorm2d(64)
        self.fc, inputs = nn.Linear(512, 10), 64
        for i, width in enumerate((64, 128, 256, 512)):
            self.add_module(f"layer{i + 1}", nn.Sequential(Block(inputs, width, True), Block(width, width, False)))
            inputs = width
        for m in self.modules():
            if isinstance(m, nn.Conv2d):  # Keras' he_normal: cut off at twice its deviation, which is widened for that
                std = math.sqrt(2 / m.weight[0].numel()) / 0.87962566103423978
                nn.init.trunc_normal_(m.weight, std=std, a=-2 * std, b=2 * std)
                nn.init.zeros_(m.bias)
        nn.init.xavier_uniform_(self.fc.weight)
        nn.init.zeros_(self.fc.bias)

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        return self.fc(self.layer4(self.layer3(self.layer2(self.layer1(y)))).mean((2, 3)))

    def loss(self, x, t):
        squares = sum((m.weight**2).sum() for m in self.modules() if isinstance(m, (nn.Conv2d, nn.Linear)))
        return f.cross_entropy(self(x), t.long()) + 5e-5 * squares


def read(name):
    """Pictures [n, 3, 32, 32] of 0 to 1 and classes of a file of CIFAR-10's binary layout."""
    records = np.fromfile(DATA / name, np.uint8).reshape(-1, 3073)
    return records[:, 1:].reshape(-1, 3, 32, 32).astype(np.float32) / 255, records[:, 0].astype(np.int32)


def optimizer_of(model):
    return torch.optim.Adam(model.parameters(), lr=RATE, eps=1e-7)


def step(model, optimizer, x, t):
    optimizer.zero_grad()
    loss = model.loss(x, t)
    loss.backward()
    optimizer.step()
    return loss.item()


# ---- the same batches ----

def losses_of(model, batches):
    optimizer = optimizer_of(model)
    return [step(model, optimizer, *b) for b in batches]


def compare_losses(place, steps, in_double):
    torch.manual_seed(1)
    model = ResNetSmall()
    for block in model.modules():
        if isinstance(block, Block):
            nn.init.constant_(block.c.bn.weight, 0.1)
    weights = {k: v.clone() for k, v in model.state_dict().items() if not k.endswith("num_batches_tracked")}
    x, t = (torch.from_numpy(a) for a in read("data_batch_1.bin"))
    at = [slice(i % (len(x) // BATCH) * BATCH, (i % (len(x) // BATCH) + 1) * BATCH) for i in range(steps)]
    batches = [(x[i], t[i]) for i in at]
    ours = place.replay(weights, batches, CONFIG, rate=None)[0]
    double = copy.deepcopy(model).double()
    theirs = remembered(losses_of, model, batches)
    if not check(len(ours) == steps, f"{len(ours)} losses of {steps}"):
        return
    apart = lambda a, b: max(abs(u / v - 1) for u, v in zip(a, b))
    print(f"losses: ours {ours[0]:.4f} to {ours[-1]:.4f}, PyTorch's {theirs[0]:.4f} to {theirs[-1]:.4f}")
    check(apart(ours, theirs) < 1e-3, f"{steps} losses, worst {apart(ours, theirs):.1e} relative (at most 1e-3)")
    check(statistics.mean(theirs[-5:]) < 0.95 * theirs[0], "it learned")
    if in_double:
        truth = losses_of(double, [(x.double(), t) for x, t in batches])
        for n in [k for k in (10, 20, 50) if k < steps] + [steps]:
            print(f"first {n} losses next to PyTorch's float64: ours {apart(ours[:n], truth):.1e}, PyTorch's float32 "
                  f"{apart(theirs[:n], truth):.1e}", flush=True)


# ---- draws of their own ----

def places(shifts, n, flips=None):
    """Where each of n points comes from, a row a picture: linear between points, the outermost one beyond them."""
    at = np.clip(np.arange(n) + shifts[:, None] * n, 0, n - 1)
    if flips is not None:
        at[flips] = at[flips, ::-1]
    low = at.astype(int)
    return low, np.minimum(low + 1, n - 1), (at - low).astype(np.float32)


def moved(x, random):
    """What `data: cifar10` does: moved by up to a tenth of the height and the width, every second one flipped."""
    n, channels, height, width = x.shape
    vertical, horizontal = random.uniform(-SHIFT, SHIFT, (2, n))
    low, high, part = places(vertical, height)
    i = np.arange(n)[:, None]
    x = x.transpose(0, 2, 3, 1)
    x = x[i, low] + (x[i, high] - x[i, low]) * part[:, :, None, None]
    low, high, part = places(horizontal, width, random.random(n) < 0.5)
    x = x.transpose(0, 2, 1, 3)
    x = x[i, low] + (x[i, high] - x[i, low]) * part[:, :, None, None]
    return torch.from_numpy(x.transpose(0, 3, 2, 1).copy())


def accuracy_in_torch(seed, epochs):
    torch.manual_seed(seed)
    random, model = np.random.default_rng(seed), ResNetSmall()
    optimizer = optimizer_of(model)
    (x, t), (held, classes) = read("data_batch_1.bin"), read("test_batch.bin")
    for _ in range(epochs):
        order = random.permutation(len(x))
        for i in range(len(x) // BATCH):
            these = order[i * BATCH:(i + 1) * BATCH]
            step(model, optimizer, moved(x[these], random), torch.from_numpy(t[these]))
    model.eval()
    with torch.no_grad():
        return (model(torch.from_numpy(held)).argmax(1).numpy() == classes).mean()


def accuracy_of_ours(place, seed, epochs):
    place.run("dlrun", CONFIG, f"--data_dir={DATA}", f"--n_epochs={epochs}", f"--seed={seed}",
              f"--output_dir={place / 'run'}{seed}")
    lines = (place / f"run{seed}/metrics.jsonl").read_text().splitlines()
    return [p["accuracy/valid"] for p in map(json.loads, lines) if "accuracy/valid" in p][-1]


def compare_accuracy(place, epochs):
    """The means lie within twice the spread of PyTorch's three, which is at least two points: 19 in 1,000 pictures are
    the deviation of a single run's accuracy by chance alone."""
    ours, theirs = [], []
    for seed in range(SEEDS):
        ours.append(accuracy_of_ours(place, seed, epochs))
        theirs.append(accuracy_in_torch(seed, epochs))
        print(f"seed {seed}: ours {ours[-1]:.3f}, PyTorch's {theirs[-1]:.3f}", flush=True)
    text = lambda values: " ".join(f"{v:.3f}" for v in values)
    spread = max(max(theirs) - min(theirs), 0.02)
    check(abs(statistics.mean(ours) - statistics.mean(theirs)) < spread,
          f"accuracy after {epochs} epochs: ours {text(ours)}, PyTorch's {text(theirs)}")


def main(build, what, *options):
    if not DATA.exists():
        skip("the shared data is not next to the project")
    place = Workplace(build)
    if what.startswith("--epochs="):
        compare_accuracy(place, int(what.split("=")[1]))
    else:
        compare_losses(place, int(what), "--double" in options)
    finish()


if __name__ == "__main__":
    main(*sys.argv[1:])
