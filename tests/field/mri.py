"""fastMRI: images from a part of their spectrum."""
import torch
import torch.nn.functional as F
from torch import nn

from base import Field, folder


def conv_layers(i, o):
    layers = []
    for c in (i, o):
        layers += [nn.Conv2d(c, o, 3, padding=1, bias=False), nn.InstanceNorm2d(o), nn.LeakyReLU(0.2), nn.Identity()]
    return folder(layers=nn.Sequential(*layers))


def up_layers(i, o):
    return folder(layers=nn.Sequential(nn.ConvTranspose2d(i, o, 2, 2, bias=False), nn.InstanceNorm2d(o),
                                       nn.LeakyReLU(0.2)))


class Unet(nn.Module):
    def __init__(self, channels, width, pools):
        super().__init__()
        c = [width * 2**i for i in range(pools + 1)]
        self.down_sample_layers = nn.ModuleList(conv_layers(a, b) for a, b in zip([channels, *c], c[:-1]))
        self.conv = conv_layers(c[-2], c[-1])
        self.up_transpose_conv = nn.ModuleList(up_layers(c[i + 1], c[i]) for i in reversed(range(pools)))
        self.up_conv = nn.ModuleList(conv_layers(c[i + 1], c[i]) for i in reversed(range(1, pools)))
        self.up_conv.append(nn.ModuleList([conv_layers(c[1], c[0]), nn.Conv2d(c[0], channels, 1)]))

    def forward(self, x):
        skips = []
        for part in self.down_sample_layers:
            x = part.layers(x)
            skips.append(x)
            x = F.avg_pool2d(x, 2)
        x = self.conv.layers(x)
        *parts, (part, last) = self.up_conv
        for turn, part in zip(self.up_transpose_conv, [*parts, part]):
            x = part.layers(torch.cat([turn.layers(x), skips.pop()], 1))
        return last(x)


class FastMRI(Unet, Field):
    """Without dropout."""

    def __init__(self, size=320, channels=1, width=32, pools=4):
        super().__init__(channels, width, pools)
        self.shape = (channels, size, size)

    def batch(self, n):
        return {name: torch.randn(n, *self.shape) for name in ("x", "t")}

    def loss(self, x, t):
        return F.l1_loss(self(x), t)


class NormUnet(nn.Module):
    def __init__(self, width, pools):
        super().__init__()
        self.unet = Unet(2, width, pools)

    def forward(self, x):
        """Complex [N, H, W]."""
        x = torch.view_as_real(x).permute(0, 3, 1, 2)
        mean, std = x.mean((2, 3), keepdim=True), x.flatten(2).std(2)[..., None, None]
        y = self.unet((x - mean) / std) * std + mean
        return torch.view_as_complex(y.permute(0, 2, 3, 1).contiguous())


def centred(transform, x):
    shifted = torch.fft.ifftshift(x, dim=(-2, -1))
    return torch.fft.fftshift(transform(shifted, norm="ortho"), dim=(-2, -1))


class Cascade(nn.Module):
    def __init__(self, width, pools):
        super().__init__()
        self.model, self.dc_weight = NormUnet(width, pools), nn.Parameter(torch.ones(1))

    def forward(self, k, measured, mask, coils):
        seen = self.model((centred(torch.fft.ifft2, k) * coils.conj()).sum(1))
        apart = torch.where(mask[:, None, None], k - measured, torch.zeros_like(k)) * self.dc_weight
        return k - apart - centred(torch.fft.fft2, seen[:, None] * coils)


def ssim(x, t, window=7):
    x, t, range_of = x[:, None], t[:, None], t.amax((1, 2))[:, None, None, None]
    mean, unbiased = lambda u: F.avg_pool2d(u, window, 1), window**2 / (window**2 - 1)
    ux, ut = mean(x), mean(t)
    vx, vt, both = (unbiased * (mean(a * b) - ua * ub)
                    for a, b, ua, ub in ((x, x, ux, ux), (t, t, ut, ut), (x, t, ux, ut)))
    c1, c2 = (0.01 * range_of)**2, (0.03 * range_of)**2
    return ((2 * ux * ut + c1) * (2 * both + c2) / ((ux**2 + ut**2 + c1) * (vx + vt + c2))).mean()


class VarNet(Field):
    def __init__(self, size=(320, 320), coils=15, centre=24, cascades=12, width=18, pools=4, sens_width=8,
                 sens_pools=4):
        super().__init__()
        self.size, self.coils, self.centre = size, coils, centre
        self.sens_net = folder(norm_unet=NormUnet(sens_width, sens_pools))
        self.cascades = nn.ModuleList(Cascade(width, pools) for _ in range(cascades))

    def first_column(self):
        return (self.size[1] - self.centre + 1) // 2

    def batch(self, n):
        first, mask = self.first_column(), torch.rand(n, self.size[1]) > 0.6
        mask[:, first:first + self.centre] = True
        image = torch.rand(n, *self.size)
        k = centred(torch.fft.fft2, image[:, None] * torch.randn(n, self.coils, *self.size, dtype=torch.complex64))
        return {"k": torch.view_as_real(k * mask[:, None, None]), "mask": mask, "t": image}

    def forward(self, k, mask):
        k, first = torch.view_as_complex(k), self.first_column()
        column = torch.arange(self.size[1])
        middle = (column >= first) & (column < first + self.centre)
        coils = self.sens_net.norm_unet(centred(torch.fft.ifft2, k * middle).flatten(0, 1)).view(k.shape)
        coils = coils / torch.view_as_real(coils).pow(2).sum((1, 4), keepdim=True).sqrt()[..., 0]
        h = k
        for cascade in self.cascades:
            h = cascade(h, k, mask, coils)
        return torch.view_as_real(centred(torch.fft.ifft2, h)).pow(2).sum((1, 4)).sqrt()

    def loss(self, k, mask, t):
        return 1 - ssim(self(k, mask), t)
