"""Points: operators, equations, meshes and molecules."""
import math

import torch
import torch.nn.functional as F
from torch import nn

from base import Field, attend, folder, heads_of


def chain(widths):
    return folder(linears=nn.ModuleList(nn.Linear(a, b) for a, b in zip(widths, widths[1:])))


class DeepONet(Field):
    def __init__(self, sensors=100, points=100, dimensions=2, width=128, depth=3, basis=128):
        super().__init__()
        self.sensors, self.points, self.dimensions = sensors, points, dimensions
        widths = [width] * (depth - 1) + [basis]
        self.branch, self.trunk = chain([sensors, *widths]), chain([dimensions, *widths])
        self.b = nn.Parameter(torch.zeros(1))

    def batch(self, n):
        return {"u": torch.randn(n, self.sensors), "at": torch.randn(n, self.points, self.dimensions),
                "t": torch.randn(n, self.points)}

    def forward(self, u, at):
        *inner, last = self.branch.linears
        for layer in inner:
            u = layer(u).relu()
        for layer in self.trunk.linears:
            at = layer(at).relu()
        return torch.einsum("nb,npb->np", last(u), at) + self.b


class PINN(Field):
    def __init__(self, width=20, depth=8, nu=0.01 / math.pi):
        super().__init__()
        self.nu, widths = nu, [2] + [width] * depth + [1]
        self.layers = nn.Module()
        for i, (a, b) in enumerate(zip(widths, widths[1:])):
            setattr(self.layers, f"layer_{i}", nn.Linear(a, b))
        self.depth = depth

    def batch(self, n):
        within = lambda: torch.stack([2 * torch.rand(n) - 1, torch.rand(n)], 1)
        return {"z": within(), "known": within(), "u0": torch.randn(n, 1)}

    def field(self, z):
        h = torch.cat([z[:, :1], 2 * z[:, 1:] - 1], 1)
        for i in range(self.depth):
            h = torch.tanh(getattr(self.layers, f"layer_{i}")(h))
        return getattr(self.layers, f"layer_{self.depth}")(h)

    def forward(self, z):
        with torch.enable_grad():
            z = z.detach().requires_grad_()
            u = self.field(z)
            first, = torch.autograd.grad(u.sum(), z, create_graph=True)
            second, = torch.autograd.grad(first[:, 0].sum(), z, create_graph=True)
            return u, first[:, 1] + u[:, 0] * first[:, 0] - self.nu * second[:, 0]

    def loss(self, z, known, u0):
        return F.mse_loss(self.field(known), u0) + (self(z)[1]**2).mean()


def ssp(x):
    return F.softplus(x) - math.log(2)


class SchNet(Field):
    def __init__(self, atoms=21, kinds=100, width=128, filters=128, interactions=6, gaussians=50, cutoff=10.0,
                 share=0.01):
        super().__init__()
        self.atoms, self.kinds, self.cutoff, self.gaussians, self.share = atoms, kinds, cutoff, gaussians, share
        self.embedding = nn.Embedding(kinds, width)
        self.interactions = nn.ModuleList(
            folder(mlp=nn.ModuleList([nn.Linear(gaussians, filters), nn.Identity(), nn.Linear(filters, filters)]),
                   conv=folder(lin1=nn.Linear(width, filters, bias=False), lin2=nn.Linear(filters, width)),
                   lin=nn.Linear(width, width)) for _ in range(interactions))
        self.lin1, self.lin2 = nn.Linear(width, width // 2), nn.Linear(width // 2, 1)

    def batch(self, n):
        kinds = torch.randint(1, self.kinds, (n, self.atoms))
        kinds[n // 2:, -2:] = 0  # smaller molecules
        return {"z": kinds, "pos": 0.3 * self.cutoff * torch.randn(n, self.atoms, 3), "energy": torch.randn(n),
                "force": torch.randn(n, self.atoms, 3)}

    def forward(self, z, pos):
        with torch.enable_grad():
            pos = pos.detach().requires_grad_()
            there, same = z > 0, torch.eye(self.atoms, dtype=torch.bool)
            square = (pos[:, :, None] - pos[:, None]).pow(2).sum(-1)
            d = torch.where(same, torch.ones_like(square), square).sqrt()
            near = (d < self.cutoff) & ~same & there[:, :, None] & there[:, None]
            near = 0.5 * (torch.cos(d * math.pi / self.cutoff) + 1) * near
            offsets = torch.linspace(0, self.cutoff, self.gaussians, dtype=d.dtype)
            bumps = torch.exp(-0.5 / (self.cutoff / (self.gaussians - 1))**2 * (d[..., None] - offsets)**2)
            h = self.embedding(z)
            for b in self.interactions:
                w = b.mlp[2](ssp(b.mlp[0](bumps))) * near[..., None]
                y = torch.einsum("nabf,nbf->naf", w, b.conv.lin1(h))
                h = h + b.lin(ssp(b.conv.lin2(y)))
            y = (self.lin2(ssp(self.lin1(h)))[..., 0] * there).sum(1)
            return y, -torch.autograd.grad(y.sum(), pos, create_graph=True)[0]

    def loss(self, z, pos, energy, force):
        y, f = self(z, pos)
        return self.share * F.mse_loss(y, energy) + (1 - self.share) * F.mse_loss(f, force)


def normed(i, o, out=None):
    layers = [nn.Linear(i, o), nn.ReLU(), nn.Linear(o, o), nn.ReLU(), nn.Linear(o, out or o)]
    return folder(model=nn.Sequential(*layers, *([] if out else [nn.LayerNorm(o)])))


class MeshGraphNet(Field):
    def __init__(self, nodes=1000, edges=6000, node_features=11, edge_features=3, width=128, steps=15, outputs=2):
        super().__init__()
        self.nodes, self.edges, self.outputs = nodes, edges, outputs
        self.features = node_features, edge_features
        self.node_encoder, self.edge_encoder = normed(node_features, width), normed(edge_features, width)
        parts = [folder(**{("edge_mlp", "node_mlp")[i % 2]: normed((3 - i % 2) * width, width)})
                 for i in range(2 * steps)]
        self.processor = folder(processor_layers=nn.ModuleList(parts))
        self.node_decoder = normed(width, width, outputs)

    def batch(self, n):
        ends = torch.randint(self.nodes, (2, n, self.edges), dtype=torch.int32)
        ends[:, n // 2:, -3:] = -1  # fewer edges
        return {"x": torch.randn(n, self.nodes, self.features[0]),
                "edge": torch.randn(n, self.edges, self.features[1]), "senders": ends[0].contiguous(),
                "receivers": ends[1].contiguous(), "t": torch.randn(n, self.nodes, self.outputs)}

    def forward(self, x, edge, senders, receivers):
        v, e = self.node_encoder.model(x), self.edge_encoder.model(edge)
        at = lambda i: i.clamp(min=0).long()[..., None].expand(-1, -1, v.shape[-1])
        here, there, kept = at(senders), at(receivers), (receivers >= 0)[..., None]
        layers = self.processor.processor_layers
        for edges, nodes in zip(layers[::2], layers[1::2]):
            e = e + edges.edge_mlp.model(torch.cat([e, v.gather(1, here), v.gather(1, there)], -1))
            sums = torch.zeros_like(v).scatter_add(1, there, e * kept)
            v = v + nodes.node_mlp.model(torch.cat([sums, v], -1))
        return self.node_decoder.model(v)


class SliceAttention(nn.Module):
    def __init__(self, width, heads, slices):
        super().__init__()
        c, self.heads = width // heads, heads
        self.temperature = nn.Parameter(0.5 * torch.ones(1, heads, 1, 1))
        self.in_project_x, self.in_project_fx = nn.Linear(width, width), nn.Linear(width, width)
        self.in_project_slice = nn.Linear(c, slices)
        self.to_q, self.to_k, self.to_v = (nn.Linear(c, c, bias=False) for _ in range(3))
        self.to_out = nn.Sequential(nn.Linear(width, width))

    def forward(self, x):
        field, h = heads_of(self.in_project_fx(x), self.heads), heads_of(self.in_project_x(x), self.heads)
        share = (self.in_project_slice(h) / self.temperature).softmax(-1)
        tokens = torch.einsum("bhnc,bhng->bhgc", field, share) / (share.sum(2) + 1e-5)[..., None]
        y = attend(self.to_q(tokens), self.to_k(tokens), self.to_v(tokens))
        return self.to_out(torch.einsum("bhgc,bhng->bhnc", y, share).transpose(1, 2).flatten(2))


def pre_post(i, hidden, o):
    return folder(linear_pre=nn.Sequential(nn.Linear(i, hidden), nn.GELU()), linear_post=nn.Linear(hidden, o))


class Transolver(Field):
    def __init__(self, points=972, dimensions=2, features=1, width=128, depth=8, heads=8, slices=64, ratio=1,
                 targets=1):
        super().__init__()
        self.shapes = {"at": dimensions, "x": features, "t": targets}
        self.points = points
        self.preprocess = pre_post(dimensions + features, 2 * width, width)
        self.placeholder = nn.Parameter(torch.rand(width) / width)
        self.blocks = nn.ModuleList(folder(ln_1=nn.LayerNorm(width), Attn=SliceAttention(width, heads, slices),
                                           ln_2=nn.LayerNorm(width), mlp=pre_post(width, ratio * width, width))
                                    for _ in range(depth))
        self.blocks[-1].ln_3, self.blocks[-1].mlp2 = nn.LayerNorm(width), nn.Linear(width, targets)

    def batch(self, n):
        return {name: torch.randn(n, self.points, c) for name, c in self.shapes.items()}

    def forward(self, at, x):
        mlp = lambda of, x: of.linear_post(of.linear_pre(x))
        h = mlp(self.preprocess, torch.cat([at, x], -1)) + self.placeholder
        for b in self.blocks:
            h = h + b.Attn(b.ln_1(h))
            h = h + mlp(b.mlp, b.ln_2(h))
        return b.mlp2(b.ln_3(h))

    def loss(self, at, x, t):
        return ((self(at, x) - t).flatten(1).norm(dim=1) / t.flatten(1).norm(dim=1)).mean()
