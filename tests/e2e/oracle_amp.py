#!/usr/bin/env python3
"""Mixed precision next to PyTorch's autocast: errors of the first step's gradients against float64, and losses of five
steps.

oracle_amp.py BUILD [MODEL...]     all but the largest, or those named: ViT ResNet Classifier Mixed Small Volume

Autocast in the same type is the measure. The median over the parameters of our error by its error is at most 1.5; that
of each parameter at most 2.5: a few values at a kink (ReLU, a pool) make most of a parameter's error, and which of them
fall on its other side is chance, ours as autocast's. Of four seeds the largest was 2.03 (ResNet, fp16) and 1.52 (the
others): a wrong term of a product, by which a gradient is off by its own size, is beyond that. Debian's PyTorch 1.13
has autocast on the CPU in bf16 only, and transposed convolutions in float32 there, where later ones have 16 bits: those
are written out. fp16 is then held against a quarter of bf16's error: it has 8 times as fine a grid, and half of that is
slack, for what float32's own roundings and subnormal numbers add.
"""
import copy
import statistics
import sys

from oracle_nets import UNet
from oracle_tools import Workplace, check, finish, torch, train_in_torch
from torch import nn

f = nn.functional
TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
HAS_HALF = int(torch.__version__.split(".")[0]) > 1
SCALE = 65536.0  # of fp16's loss, as GradScaler begins
RATE = 1e-3
MEDIAN, EACH = 1.5, 2.5  # of the ratios of errors
LOSSES = {"bf16": 2e-3, "fp16": 5e-4}  # relative, of five steps


def in_f32(layer, x):
    """A layer that autocast leaves in float32 (group norm; on the CPU of PyTorch 1.13 it would fail), or that `as f32`
    pins there."""
    with torch.autocast("cpu", enabled=False):
        return layer(x.to(layer.weight.dtype))


def relative_norms(y, t):
    return ((y - t).flatten(1).norm(dim=1) / t.flatten(1).norm(dim=1)).mean()


class ViT(nn.Module):
    options = ("--model=models/vit.dl", "--img_size=[16,24]", "--n_in_channels=5", "--n_out_channels=5",
               "--patch_size=4", "--embed_dim=48",
               "--depth=2", "--num_heads=2")
    shapes = (2, 5, 16, 24), (2, 5, 16, 24)
    loss = staticmethod(relative_norms)

    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width, 1e-6), nn.LayerNorm(width, 1e-6)
            self.attn = nn.ModuleDict({name: nn.Linear(width, width) for name in ("q", "k", "v", "proj")})
            self.mlp = nn.ModuleDict({"fc1": nn.Linear(width, 4 * width), "fc2": nn.Linear(4 * width, width)})

        def forward(self, x):
            z = self.norm1(x)
            q, k, v = (self.attn[name](z).unflatten(2, (2, -1)).transpose(1, 2) for name in "qkv")
            share = torch.softmax(q @ k.transpose(2, 3) / q.shape[3]**0.5, 3)
            x = x + self.attn["proj"]((share @ v).transpose(1, 2).flatten(2))
            return x + self.mlp["fc2"](f.gelu(self.mlp["fc1"](self.norm2(x))))

    def __init__(self, width=48):
        super().__init__()
        self.patch_embed = nn.ModuleDict({"proj": nn.Conv2d(5, width, 4, 4)})
        self.pos_embed = nn.Parameter(0.02 * torch.randn(1, 24, width))
        self.blocks = nn.Sequential(*(ViT.Block(width) for _ in range(2)))
        self.norm, self.head = nn.LayerNorm(width, 1e-6), nn.Linear(width, 80, bias=False)

    def forward(self, x):
        z = self.patch_embed["proj"](x).flatten(2).transpose(1, 2) + self.pos_embed
        y = self.head(self.norm(self.blocks(z))).reshape(-1, 4, 6, 4, 4, 5)
        return y.permute(0, 5, 1, 3, 2, 4).reshape(-1, 5, 16, 24)


class ResNet(nn.Module):
    """The small one, narrow."""
    options = ("--model=models/resnet.dl", "--small=true", "--widths=[16,24,32,40]", "--depths=[1,2,1,1]",
               "--strides=[2,2,1,1]", "--expand=1",
               "--n_classes=10", "--input_shape=[16,16,3]")
    shapes, classes = ((16, 3, 16, 16), (16,)), 10

    class Part(nn.Sequential):
        def __init__(self, inputs, outputs, kernel=1, stride=1):
            super().__init__()
            self.conv, self.bn = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2), nn.BatchNorm2d(outputs)

    class Block(nn.Module):
        def __init__(self, inputs, width, stride, first):
            super().__init__()
            part = ResNet.Part
            self.a, self.b, self.c = part(inputs, width, 1, stride), part(width, width, 3), part(width, width)
            nn.init.constant_(self.c.bn.weight, 0.1)
            self.shortcut = part(inputs, width, 1, stride) if first else nn.Identity()

        def forward(self, x):
            return torch.relu(self.c(torch.relu(self.b(torch.relu(self.a(x))))) + self.shortcut(x))

    def __init__(self):
        super().__init__()
        block = ResNet.Block
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 3, padding=1), nn.BatchNorm2d(64)
        self.layer1, self.layer3 = nn.Sequential(block(64, 16, 2, True)), nn.Sequential(block(24, 32, 1, True))
        self.layer2 = nn.Sequential(block(16, 24, 2, True), block(24, 24, 1, False))
        self.layer4, self.fc = nn.Sequential(block(32, 40, 1, True)), nn.Linear(40, 10)

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        return self.fc(self.layer4(self.layer3(self.layer2(self.layer1(y)))).mean((2, 3)))

    def loss(self, y, t):
        squares = sum((m.weight**2).sum() for m in self.modules() if isinstance(m, (nn.Conv2d, nn.Linear)))
        return f.cross_entropy(y, t.long()) + 5e-5 * squares


class Classifier(nn.Module):
    options = ("--model=models/cnn_classifier.dl", "--dropout=0", "--input_shape=[16,16,3]", "--h1=8", "--h2=16",
               "--h3=24", "--h4=32")
    shapes, classes = ((16, 3, 16, 16), (16,)), 10

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2, self.conv3 = nn.Conv2d(3, 8, 3, 1, 1), nn.Conv2d(8, 16, 3, 1,
                                                                                 1), nn.Conv2d(16, 24, 3, 1, 1)
        self.fc1, self.fc2 = nn.Linear(96, 32), nn.Linear(32, 10)

    def forward(self, x):
        for layer in (self.conv1, self.conv2, self.conv3):
            x = f.max_pool2d(torch.relu(layer(x)), 2)
        return self.fc2(torch.relu(self.fc1(x.flatten(1))))

    @staticmethod
    def loss(y, t):
        return f.cross_entropy(y, t.long())


class Mixed(nn.Module):
    """A dense layer over the input itself, a group norm, a layer applied twice, an embedding, a layer pinned to
    float32."""
    text = """
model Mixed():
    input  x: f32[N, E=24]
    target t: f32[N, C=8, T=6]
    h = x |> linear(48) @first |> gelu |> rearrange("n (c t) -> n c t", c=8) as [N, C, T]
    h = h |> conv(8, 3, pad=1) @conv |> group_norm(2) @norm |> relu
    twice = linear(6)
    h = h + (h |> twice |> tanh |> twice)
    h = h + (argmax(x, over=E) |> embedding(24, 6) @table as [N, T])
    y = h as f32 |> linear(6) @last
    output y
    loss = mean((y - t)**2)
"""
    shapes = (7, 24), (7, 8, 6)

    def __init__(self):
        super().__init__()
        self.first, self.conv, self.norm = nn.Linear(24, 48), nn.Conv1d(8, 8, 3, padding=1), nn.GroupNorm(2, 8)
        self.twice, self.table, self.last = nn.Linear(6, 6), nn.Embedding(24, 6), nn.Linear(6, 6)

    def forward(self, x):
        h = f.gelu(self.first(x)).reshape(-1, 8, 6)
        h = torch.relu(in_f32(self.norm, self.conv(h)))
        h = h + self.twice(torch.tanh(self.twice(h)))
        h = h + self.table(x.argmax(1))[:, None]
        return in_f32(self.last, h)

    @staticmethod
    def loss(y, t):
        return ((y - t) ** 2).mean()


class Volume(UNet):
    """models/unet.dl in five scales."""
    options = "--model=models/unet.dl", "--full_scale=false", "--data_size=32"
    shapes = (1, 4, 32, 32, 32), (1, 5, 32, 32, 32)
    loss = staticmethod(f.l1_loss)

    def __init__(self):
        super().__init__(full_scale=False)


class Small(nn.Module):
    """tests/data/small.dl: a convolution, a transposed one, tanh."""
    options = "--model=tests/data/small.dl", "--data_size=8"
    shapes = (3, 4, 8, 8, 8), (3, 5, 8, 8, 8)
    loss = staticmethod(f.l1_loss)

    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Conv3d(4, 8, 4, 2, 1), nn.ConvTranspose3d(8, 5, 4, 2, 1)

    def forward(self, x):
        return torch.tanh(self.up(f.leaky_relu(self.down(x), 0.01)))


class Transposed(nn.ConvTranspose3d):
    """In 16 bits, as autocast has it since PyTorch 2, with the sums that PyTorch 1.13 has in float32 alone."""

    def forward(self, x):
        with torch.autocast("cpu", enabled=False):
            y = f.conv_transpose3d(x.bfloat16().float(), self.weight.bfloat16().float(), self.bias, self.stride,
                                   self.padding)
        return y.bfloat16()


NETS = ViT, ResNet, Classifier, Mixed, Small, Volume


def errors(got, truth):
    """Relative L2 error of each gradient; one that is zero but for rounding (a bias in front of a batch norm) is held
    against all."""
    whole = sum(v.norm().item()**2 for v in truth.values())**0.5
    return {k: (got[k].double() - v).norm().item() / max(v.norm().item(), 1e-4 * whole) for k, v in truth.items()}


def in_double(net, batches):
    """Losses by step and the first gradients, trained by Adam in float64."""
    wide = copy.deepcopy(net).double()
    return train_in_torch(wide, wide.loss,
                          [(x.double(), t.double() if t.is_floating_point() else t) for x, t in batches], RATE)


def by_autocast(net, batch, dtype):
    net = copy.deepcopy(net)
    if not HAS_HALF:
        for m in net.modules():
            if isinstance(m, nn.ConvTranspose3d):
                m.__class__ = Transposed
    scale = SCALE if dtype == torch.float16 else 1.0
    with torch.autocast("cpu", dtype=dtype):
        y = net(batch[0])
    (net.loss(y.float(), batch[1]) * scale).backward()
    return {name: p.grad / scale for name, p in net.named_parameters()}


def batch_of(net):
    x, t = (torch.randn(shape) for shape in net.shapes)
    return x, torch.randint(0, net.classes, net.shapes[1], dtype=torch.int32) if hasattr(net, "classes") else t


def compare(place, net):
    torch.manual_seed(7)
    name, model = net.__name__, net()
    for key, p in model.named_parameters():
        if key.endswith("bias"):
            nn.init.normal_(p, 0, 0.02)
    options = getattr(net, "options", None)
    if not options:
        path = place / f"{name.lower()}.dl"
        path.write_text(net.text.lstrip())
        options = [f"--model={path}"]
    weights = {k: v.detach().clone() for k, v in model.state_dict().items() if not k.endswith("num_batches_tracked")}
    batches = [batch_of(net) for _ in range(5)]
    truth_losses, truth = in_double(model, batches)
    autocast = {}
    for mode, dtype in TYPES.items():
        losses, grads, lines = place.replay(weights, batches, f"--yaml_config={place / 'models.yaml'}", "--config",
                                            "base",
                                            f"--local_batch_size={net.shapes[0][0]}", f"--amp_mode={mode}", *options,
                                            rate=RATE)
        if mode == "bf16" or HAS_HALF:
            autocast[mode] = errors(by_autocast(model, batches[0], dtype), truth)
        else:
            autocast[mode] = {k: v / 4 for k, v in autocast["bf16"].items()}
        mine, theirs = errors(grads, truth), autocast[mode]
        ratios = {k: mine[k] / theirs[k] for k in truth}
        ratio, largest = statistics.median(ratios.values()), max(ratios, key=ratios.get)
        middle = statistics.median(mine.values())
        check(ratio <= MEDIAN and middle > 1e-6, f"{name}, {mode}: gradients, median error {middle:.1e} (autocast "
              f"{statistics.median(theirs.values()):.1e}), of the ratios {ratio:.2f} (at most {MEDIAN})")
        check(set(grads) == set(truth) and ratios[largest] <= EACH,
              f"{name}, {mode}: the largest of {len(truth)} ratios is {ratios[largest]:.2f}, of {largest} (at most "
              f"{EACH})")
        worst = max(abs(a - b) / abs(b) for a, b in zip(losses, truth_losses))
        check(len(losses) == len(truth_losses) and worst <= LOSSES[mode],
              f"{name}, {mode}: {len(losses)} losses, worst {worst:.1e} relative (at most {LOSSES[mode]:.0e})")
        if mode == "fp16":
            check(not any(line["skipped"] for line in lines), f"{name}, {mode}: no step was skipped")


def main(build, *names):
    place = Workplace(build)
    (place / "models.yaml").write_text("base: {}\n")
    print("the measure is autocast of PyTorch", torch.__version__)
    for net in NETS:
        if net.__name__ in names or (not names and net is not Volume):
            compare(place, net)
    finish()


main(*sys.argv[1:])
