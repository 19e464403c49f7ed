"""The rival's learning curves: PyTorch trained as bench/precision_curves trains ours, on one thread.

rival_curves.py MODEL MODE SEED      MODE: f32, or bf16: forward and loss under torch.autocast("cpu")

The same data, sizes, steps, losses, optimisers and schedules; weights, order, crops and moves are drawn by PyTorch and
numpy, so that a seed is not ours of that number. Networks and the readers of pictures and volumes are those of
tests/e2e. Prints a line of JSON for each validation: {"step": N, "train_loss": mean of the epoch, "valid_loss": L}.
"""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests/e2e"))
import h5py
import numpy as np
import oracle_cifar
import oracle_learning
import torch
from oracle_nets import UNet
from oracle_tools import SHARED
from rival_models import ViT, relative_l2
from torch import nn

ERA = SHARED / "data/weather/era_interim_europe"


def whole_batches(arrays, batch, order):
    """Batches of all arrays in an order; the last one, which is not full, is left out."""
    for i in range(len(order) // batch):
        yield [torch.from_numpy(a[order[i * batch:(i + 1) * batch]]) for a in arrays]


class Pictures:
    """CIFAR-10 and the small ResNet of models/config/cifar10_resnet.yaml."""
    epochs, total, schedule = 3, None, None

    def __init__(self, random):
        self.random = random
        self.model = oracle_cifar.ResNetSmall()
        self.loss = self.model.loss
        self.optimizer = oracle_cifar.optimizer_of(self.model)
        self.kept, self.held = (oracle_cifar.read(n) for n in ("data_batch_1.bin", "test_batch.bin"))

    def train(self):
        for x, t in whole_batches(self.kept, oracle_cifar.BATCH, self.random.permutation(len(self.kept[0]))):
            yield oracle_cifar.moved(x.numpy(), self.random), t

    def valid(self):
        return whole_batches(self.held, oracle_cifar.BATCH, np.arange(len(self.held[0])))


class Weather:
    """ERA-Interim and a small models/vit.dl; a year pairs each day with the next one."""
    batch, total = 32, 1000

    def __init__(self, random):
        self.random = random
        self.model = ViT((8, 12), channels=3, patch=2, width=64, depth=4, heads=4)
        nn.init.trunc_normal_(self.model.pos, std=0.02)
        for m in self.model.modules():
            if isinstance(m, nn.Linear):
                nn.init.trunc_normal_(m.weight, std=0.02)
                if m.bias is not None:
                    nn.init.zeros_(m.bias)
        self.loss = lambda x, t: relative_l2(self.model(x), t)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3, betas=(0.9, 0.95))
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, self.total)
        self.kept, self.held = self.pairs("train"), self.pairs("valid")
        self.epochs = -(-self.total // (len(self.kept[0]) // self.batch))

    def pairs(self, folder):
        mean, std = (np.load(ERA / f"stats/global_{n}.npy") for n in ("means", "stds"))
        now, later = [], []
        for path in sorted((ERA / folder).glob("*.h5")):
            with h5py.File(path) as file:
                fields = ((file["fields"][:, :, :8, :12] - mean) / std).astype(np.float32)
            at = np.arange(len(fields)) % (len(fields) - 1)
            at[at < 1] += 1
            now.append(fields[at])
            later.append(fields[at + 1])
        return np.concatenate(now), np.concatenate(later)

    def train(self):
        return whole_batches(self.kept, self.batch, self.random.permutation(len(self.kept[0])))

    def valid(self):
        return whole_batches(self.held, self.batch, np.arange(len(self.held[0])))


class Volumes:
    """Crops of 32^3 of the N-body volumes and models/unet.dl of five scales."""
    epochs, steps, total, validations = 6, 16, 96, 8

    def __init__(self, random):
        self.model = UNet(full_scale=False)
        self.loss = lambda x, t: nn.functional.l1_loss(self.model(x), t)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=2e-4)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, self.total)
        seeds = random.integers(0, 2**31, 2)
        self.kept = oracle_learning.Crops(oracle_learning.TRAIN, 32, seeds[0])
        held = oracle_learning.Crops(oracle_learning.VALID, 32, seeds[1])
        self.batches = [held.batch() for _ in range(self.validations)]

    def train(self):
        return (self.kept.batch() for _ in range(self.steps))

    def valid(self):
        return self.batches


def main(model, mode, seed):
    torch.set_num_threads(1)
    torch.manual_seed(int(seed))
    case = {"resnet_small": Pictures, "vit": Weather, "unet": Volumes}[model](np.random.default_rng(int(seed)))
    step = 0

    def loss_of(x, t):
        with torch.autocast("cpu", torch.bfloat16, enabled=mode == "bf16"):
            return case.loss(x, t)

    for _ in range(case.epochs):
        case.model.train()
        losses = []
        for x, t in case.train():
            if step == case.total:
                break
            case.optimizer.zero_grad()
            loss = loss_of(x, t)
            loss.backward()
            case.optimizer.step()
            if case.schedule:
                case.schedule.step()
            losses.append(loss.item())
            step += 1
        case.model.eval()
        with torch.no_grad():
            valid = [loss_of(x, t).item() for x, t in case.valid()]
        print(json.dumps({"step": step, "train_loss": float(np.mean(losses)), "valid_loss": float(np.mean(valid))}),
              flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
