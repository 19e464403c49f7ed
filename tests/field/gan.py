"""pix2pix, whose two networks have a loss and an optimizer each: the PyTorch form of models/field/pix2pix.dl."""
import torch
import torch.nn.functional as F
from torch import nn


class Down(nn.Module):
    def __init__(self, i, o, norm):
        super().__init__()
        self.conv = nn.Conv2d(i, o, 4, 2, 1)
        self.norm = nn.BatchNorm2d(o) if norm else nn.Identity()

    def forward(self, x):
        return F.leaky_relu(self.norm(self.conv(x)), 0.2)


class Up(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.conv, self.norm = nn.ConvTranspose2d(i, o, 4, 2, 1), nn.BatchNorm2d(o)

    def forward(self, x):
        return F.relu(self.norm(self.conv(x)))


class Generator(nn.Module):
    def __init__(self, c, width, levels):
        super().__init__()
        w = [width * min(2**i, 8) for i in range(levels)]
        self.levels = levels
        for i in range(levels):
            setattr(self, f"down{i}", Down(w[i - 1] if i else c, w[i], 0 < i < levels - 1))
        for i in range(levels - 1):
            setattr(self, f"up{i}", Up(w[-1] if i == 0 else 2 * w[levels - 1 - i], w[levels - 2 - i]))
        self.last = nn.ConvTranspose2d(2 * w[0], c, 4, 2, 1)

    def forward(self, h):
        skips = []
        for i in range(self.levels):
            h = getattr(self, f"down{i}")(h)
            skips.append(h)
        for i in range(self.levels - 1):
            h = torch.cat([getattr(self, f"up{i}")(h), skips[self.levels - 2 - i]], 1)
        return torch.tanh(self.last(h))


class Discriminator(nn.Module):
    def __init__(self, c, width, levels):
        super().__init__()
        self.levels = levels
        for i in range(levels):
            setattr(self, f"down{i}", Down(width * min(2**(i - 1), 8) if i else 2 * c, width * min(2**i, 8), i > 0))
        self.conv = nn.Conv2d(width * min(2**(levels - 1), 8), width * min(2**levels, 8), 4, 1, 1)
        self.norm = nn.BatchNorm2d(width * min(2**levels, 8))
        self.last = nn.Conv2d(width * min(2**levels, 8), 1, 4, 1, 1)

    def forward(self, h):
        for i in range(self.levels):
            h = getattr(self, f"down{i}")(h)
        return self.last(F.leaky_relu(self.norm(self.conv(h)), 0.2))


class Pix2Pix(nn.Module):
    def __init__(self, width=64, levels=6, patches=3, channels=3, size=256):
        super().__init__()
        self.shape = channels, size, size
        self.generator = Generator(channels, width, levels)
        self.discriminator = Discriminator(channels, width, patches)

    def batch(self, n):
        return {"x": torch.randn(n, *self.shape), "t": torch.randn(n, *self.shape)}

    def losses(self, x, t):
        """By name, in the order of their steps: functions of what earlier steps left."""
        y = self.generator(x)
        judge = lambda u: self.discriminator(torch.cat([x, u], 1))
        loss, ones, zeros = F.binary_cross_entropy_with_logits, torch.ones_like, torch.zeros_like

        def d():
            # the running statistics see the true pictures first
            good, bad = judge(t), judge(y.detach())
            return 0.5 * (loss(good, ones(good)) + loss(bad, zeros(bad)))

        def g():
            self.discriminator.apply(lambda m: setattr(m, "momentum", 0) if hasattr(m, "momentum") else None)
            score = judge(y)
            self.discriminator.apply(lambda m: setattr(m, "momentum", 0.1) if hasattr(m, "momentum") else None)
            return loss(score, ones(score)) + 100 * F.l1_loss(y, t)

        return {"discriminator": d, "generator": g}

    def sets(self):
        """The parameters that each loss trains."""
        return {k: list(getattr(self, k).parameters()) for k in ("discriminator", "generator")}
