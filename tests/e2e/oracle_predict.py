#!/usr/bin/env python3
"""`dlrun predict` beside PyTorch on the whole field, beside h5py and numpy: pieces, rollouts, statistics, memory,
faults.

oracle_predict.py BUILD
"""
import json
import os
import re
import subprocess
import sys

from oracle_tools import Workplace, check, finish, np, relative, save_tensors, torch

try:
    import h5py
except ImportError as missing:
    print(f"SKIP: {missing} (scripts/install-packages test)")
    sys.exit(77)

from torch import nn
from torch.nn import functional as F

place = Workplace(sys.argv[1])
DLRUN = place.program("dlrun")
torch.manual_seed(3)


def predict(*args, status=0, says=""):
    """Standard output of a prediction; with a status that is not 0, what it says must match."""
    r = subprocess.run([DLRUN, "predict", *map(str, args)], capture_output=True, text=True, env=place.env,
                       stdin=subprocess.DEVNULL,
                       cwd=place.dir)
    good = r.returncode == status and re.search(says, r.stderr if status else r.stdout + r.stderr)
    if not good or status:
        check(good,
              f"predict {' '.join(map(str, args))[:150]}: exit {r.returncode}, wanted {status}, /{says}/: "
              f"{(r.stderr or r.stdout).strip()[-300:]}")
    return r.stdout


def result(name, *args):
    """What was predicted into NAME.h5, and the JSON of it."""
    out = predict(*args, "-o", place / f"{name}.h5", "--json")
    return (h5py.File(place / f"{name}.h5", "r"), json.loads(out)) if out else finish()


def write(name, **arrays):
    with h5py.File(place / name, "w") as f:
        for key, value in arrays.items():
            f[key] = value
    return place / name


class UNet(nn.Module):
    """models/unet.dl with other widths and three scales."""
    text = """
module Down(c)(x): return x |> conv(c, 4, stride=2, pad=1) @0 |> leaky_relu(0.01)
module Up(c)(x):   return x |> conv_transpose(c, 4, stride=2, pad=1) @0 |> relu

model Narrow(w=[6, 8, 10]):
    input  x: f32[N, C=4, D, H, W]
    target t: f32[N, C=5, D, H, W]
    h = [x]
    for i in range(1, 4): h += [h[i-1] |> Down(w[i-1]) @conv_down{i}]
    y = h[3] |> Up(10) @conv_up3
    for i in range(2, 1, -1): y = cat(y, h[i], over=C) |> Up(w[i-2]) @conv_up{i}
    y = cat(y, h[1], over=C) |> conv_transpose(5, 4, stride=2, pad=1) @conv_last |> tanh
    output y
    loss = mean(abs(y - t))
"""

    def __init__(self):
        super().__init__()
        down = lambda a, b: nn.Sequential(nn.Conv3d(a, b, 4, 2, 1), nn.LeakyReLU(0.01))
        up = lambda a, b: nn.Sequential(nn.ConvTranspose3d(a, b, 4, 2, 1), nn.ReLU())
        self.conv_down1, self.conv_down2, self.conv_down3 = down(4, 6), down(6, 8), down(8, 10)
        self.conv_up3, self.conv_up2, self.conv_last = up(10, 10), up(18, 6), nn.ConvTranspose3d(12, 5, 4, 2, 1)

    def forward(self, x):
        a = self.conv_down1(x)
        b = self.conv_down2(a)
        y = torch.cat([self.conv_up3(self.conv_down3(b)), b], 1)
        return torch.tanh(self.conv_last(torch.cat([self.conv_up2(y), a], 1)))


class Plane(nn.Module):
    """2-D: pools, nearest upsampling, dilation, groups, a batch norm and dropout, which a prediction does not draw; two
    outputs."""
    text = """
model Plane():
    input  x: f32[N, C=3, H=24, W=36]
    target t: f32[N, C=2, H, W]
    a = x |> conv(8, 3, pad=2, dilation=2) @a |> batch_norm @norm |> relu |> dropout(0.5)
    b = a |> max_pool(2) |> conv(8, 3, pad=1, groups=4) @b |> relu
    c = b |> avg_pool(3, stride=3) |> conv(6, 1) @c
    y = cat(a, c |> upsample(scale_factor=6), over=C) |> conv(2, [1, 5], pad=[0, 2]) @y
    output y
    z = tanh(y) * 3
    output z
    loss = mean((y - t)**2)
"""

    def __init__(self):
        super().__init__()
        self.a, self.norm = nn.Conv2d(3, 8, 3, padding=2, dilation=2), nn.BatchNorm2d(8)
        self.b, self.c, self.y = nn.Conv2d(8, 8, 3, padding=1,
                                           groups=4), nn.Conv2d(8, 6, 1), nn.Conv2d(14, 2, (1, 5), padding=(0, 2))
        self.norm.running_mean.normal_(), self.norm.running_var.uniform_(0.5, 2)

    def forward(self, x):
        a = torch.relu(self.norm(self.a(x)))
        c = self.c(F.avg_pool2d(torch.relu(self.b(F.max_pool2d(a, 2))), 3))
        return self.y(torch.cat([a, F.interpolate(c, scale_factor=6)], 1))


class Wave(nn.Module):
    """1-D: odd strides, odd kernels."""
    text = """
model Wave():
    input  x: f32[N, C=2, L=60]
    target t: f32[N, C=1, L]
    y = x |> conv(6, 5, stride=3, pad=1) @a |> tanh |> conv(6, 3, pad=1) @b |> tanh \
        |> conv_transpose(1, 5, stride=3, pad=1) @c
    output y
    loss = mean((y - t)**2)
"""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Conv1d(2, 6, 5, 3, 1), nn.Conv1d(6, 6, 3, 1, 1), nn.ConvTranspose1d(6, 1, 5, 3, 1)

    def forward(self, x):
        return self.c(torch.tanh(self.b(torch.tanh(self.a(x)))))


class Both(nn.Module):
    """A field, one beside it, and numbers that hold for all places."""
    text = """
model Both():
    input  v: f32[N, K=4]
    input  s: f32[N, C=1, H=24, W=36]
    input  x: f32[N, C=3, H=24, W=36]
    target t: f32[N, C=2, H=24, W=36]
    g = v |> linear(8) @g
    a = (cat(x, s, over=C) |> conv(8, 3, pad=1) @a) + (g as [N, C]) |> tanh
    y = (a |> max_pool(2) |> conv(8, 3, pad=1) @b |> upsample(scale_factor=2)) + (s |> conv(8, 5, pad=2) @c) \
        |> conv(2, 1) @y
    output y
    loss = mean((y - t)**2)
"""

    def __init__(self):
        super().__init__()
        self.g, self.a, self.b = nn.Linear(4, 8), nn.Conv2d(4, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.c, self.y = nn.Conv2d(1, 8, 5, padding=2), nn.Conv2d(8, 2, 1)

    def forward(self, x, s, v):
        a = torch.tanh(self.a(torch.cat([x, s], 1)) + self.g(v)[:, :, None, None])
        return self.y(F.interpolate(self.b(F.max_pool2d(a, 2)), scale_factor=2) + self.c(s))


def model_of(net, name):
    """Its text and weights as files: options for predict."""
    with open(place / f"{name}.dl", "w") as f:
        f.write(net.text)
    save_tensors(place / f"{name}.safetensors", dict(net.state_dict()))
    return [place / f"{name}.safetensors"], [f"--model={place / (name + '.dl')}"]


def whole(net, x):
    with torch.no_grad():
        return net.eval()(torch.from_numpy(x))


def near(what, got, want, bound=1e-5):
    error = relative(torch.from_numpy(np.asarray(got)), want)
    check(error < bound, f"{what}: {error:.1e} from PyTorch on the whole field (at most {bound:.0e})")


def test_unet():
    """128^3 with a model of 64^3: at once, and in pieces whose edges are discarded, to the same bits."""
    net = UNet()
    weights, model = model_of(net, "narrow")
    x = np.random.default_rng(1).standard_normal((4, 128, 128, 128)).astype("f4")
    want = whole(net, x[None])[0]
    data = write("box.h5", Nbody=x, Hydro=want.numpy())
    once, how = result("once", *weights, data, *model, "--data_size=64")
    near("U-Net, 128^3 at once", once["y"], want)
    check(how["tiles"] == "whole" and how["pieces"] == [1, 1, 1], f"at once: {how}")
    exact, how = result("exact", *weights, data, *model, "--data_size=96", "--tiles=exact", "--metrics",
                        f"--target={data}")
    near("U-Net, 128^3 in pieces of 96^3", exact["y"], want)
    check(np.array_equal(exact["y"], once["y"]), "the same bits as at once")
    check(how["tiles"] == "exact" and how["pieces"] == [2, 2, 2] and "sees 43" in how["way"], f"its pieces: {how}")
    error = np.sqrt(((exact["y"][:].astype("f8") - want.numpy().astype("f8")) ** 2).mean((1, 2, 3)))
    check(np.allclose(how["rmse"], error, rtol=1e-6) and len(how["rmse"]) == 5, f"RMSE of each channel: {how['rmse']}")
    predict(*weights, data, *model, "--data_size=32", "--tiles=exact", "-o", place / "no.h5", status=3,
            says="sees 43 positions, too many for pieces of 32")
    blended, how = result("blended", *weights, data, *model, "--data_size=64", "--tiles=blend")
    error = relative(torch.from_numpy(blended["y"][:]), want)
    check(how["pieces"] == [3, 3, 3] and 1e-4 < error < 0.1, f"blended pieces of 64^3 are near: {error:.3f}")


def test_pieces():
    """A field that the model's own size does not reach, several samples, and attributes."""
    net = Plane()
    weights, model = model_of(net, "plane")
    x = np.random.default_rng(2).standard_normal((4, 3, 60, 72)).astype("f4")
    want = whole(net, x)
    data = write("plane_data.h5", x=x, lat=np.linspace(-1, 1, 60), time=np.arange(4), lon=np.arange(72))
    got, how = result("plane", *weights, data, *model)
    near("2-D, two outputs, 60 x 72 with a model of 24 x 36", got["y"], want)
    near("its second output", got["z"], torch.tanh(want) * 3)
    check(how["tiles"] == "exact" and how["samples"] == 4 and "states the size of its input itself" in how["way"],
          f"exactly: {how}")
    check(np.array_equal(got["lat"], np.linspace(-1, 1, 60)) and list(got["time"]) == [0, 1, 2, 3] and "lon" in got,
          "coordinates go along")
    check(got.attrs["model"] == b"Plane" and got["y"].chunks is None and got["y"].dtype == np.dtype("<f4"),
          "contiguous f32; the model named")
    one, _ = result("one", *weights, data, *model, "--samples=1:2")
    check(one["y"].shape == (1, 2, 60, 72) and np.array_equal(one["y"][0], got["y"][1]) and "time" not in one,
          "a part of the samples")
    two, how = result("two", *weights, data, f"{data}:x", *model)
    check(how["samples"] == 8 and np.array_equal(two["y"][4:], got["y"]), "two files, one behind the other")
    predict(*weights, write("odd.h5", x=x[:, :, :, :71]), *model, "-o", place / "no.h5", "--tiles=exact", status=3,
            says="multiple of 6 \\(66 would do\\)")
    predict(*weights, write("less.h5", x=x[:, :, :20]), *model, "-o", place / "no.h5", status=3,
            says="20 positions along H, fewer than the 24.*; not whole: the model states the size")
    wave = Wave()
    weights, model = model_of(wave, "wave")
    x = np.random.default_rng(4).standard_normal((2, 300)).astype("f4")
    got, how = result("wave", *weights, write("wave_data.h5", x=x), *model)
    near("1-D, strides of 3", got["y"], whole(wave, x[None])[0])
    check(how["tiles"] == "exact" and how["pieces"][2] > 1, f"1-D pieces: {how}")
    predict(*weights, place / "wave_data.h5", *model, "-o", place / "wave.npy")
    alone = np.load(place / "wave.npy")
    check(alone.dtype == np.dtype("<f4") and np.array_equal(alone, got["y"]),
          "a .npy file, as its name says: the one output's numbers")


def test_inputs():
    """Several inputs, in pieces and at once: fields are cut alike, an array of one sample serves all, numbers without
    places go whole."""
    net = Both()
    weights, model = model_of(net, "both")
    r = np.random.default_rng(7)
    x, s, v = (r.standard_normal(n).astype("f4") for n in ((3, 3, 60, 72), (1, 60, 72), (3, 4)))
    with torch.no_grad():
        want = net(torch.from_numpy(x), torch.from_numpy(s).expand(3, 1, 60, 72), torch.from_numpy(v))
    data = write("both_data.h5", x=x, s=s, v=v)
    named = [f"x={data}:x", f"v={data}:v", f"s={data}:s"]
    got, how = result("both", *weights, *named, *model)
    near("three inputs, 60 x 72 with a model of 24 x 36", got["y"], want)
    check(how["tiles"] == "exact" and how["samples"] == 3 and how["pieces"][1] > 1, f"in exact pieces: {how}")
    check(got.attrs["input v"].decode().endswith(": 'v'"), f"the inputs named: {dict(got.attrs)}")
    with open(place / "both_open.dl", "w") as f:
        f.write(
            net.text.replace("C=3, H=24, W=36",
                             "C=3, H, W").replace("C=1, H=24, W=36",
                                                  "C=1, H, W").replace("C=2, H=24, W=36", "C=2, H, W"))
    once, how = result("both_once", *weights, *named, f"--model={place / 'both_open.dl'}", "--data_size=24")
    near("three inputs at once", once["y"], want)
    check(how["tiles"] == "whole" and how["pieces"] == [1, 1, 1], f"at once: {how}")
    check(np.array_equal(once["y"], got["y"]), "the same bits as in pieces")
    part, _ = result("both_part", *weights, *named, *model, "--samples=1:3")
    check(np.array_equal(part["y"], got["y"][1:]), "samples of all inputs go together")
    twice, how = result("both_twice", *weights, *named, *named, *model)
    check(how["samples"] == 6 and np.array_equal(twice["y"][3:], got["y"]), "two files of each")
    _, how = result("both_scored", *weights, *named, *model, "--metrics",
                    f"--target={write('both_truth.h5', t=want.numpy() + 2)}")
    check(np.allclose(how["rmse"], [2, 2], rtol=1e-5), f"beside a target: {how['rmse']}")
    out = ["-o", place / "no.h5"]
    less = write("both_less.h5", s=s[:, :50], v=v[:2])
    for status, says, args in [
        (2, "3 inputs, and each is named: .*x=FILE", [f"{data}:x"]), (2, "each is named", [*named, f"w={data}:v"]),
        (2, "the input '[sv]' has 0 files, another 1: as many", [named[0]]),
        (2, "has 1 files, another 2", [*named, named[0]]),
        (3, "different sizes, for one sample", [*named[:2], f"s={less}:s"]),
        (3, "has [23] samples, and another input's array [23]: as many", [named[0], f"v={less}:v", named[2]]),
        (3, "must be of floats and of its shape", [*named, "--rollout=2"]),
        (2, "say where the truth is", [*named, "--metrics"]),
    ]:
        predict(*weights, *args, *model, *out, status=status, says=says)
    with open(place / "some.dl", "w") as f:
        f.write("model M():\n    input x: f32[N, C=3, H=24, W=36]\n    input r: f32[N, C=3, H=24]\n"
                "    target t: f32[N, C=3, H, W]\n"
                "    y = (x + r) |> conv(3, 1) @a\n    output y\n    loss = mean((y - t)**2)\n")
    save_tensors(place / "some.safetensors", {"a.weight": torch.ones(3, 3, 1, 1), "a.bias": torch.zeros(3)})
    rows = write("some.h5", x=x[:, :, :24, :36], r=x[:, :, :24, 0])
    named = [f"r={rows}:r", f"--model={place / 'some.dl'}"]
    predict(place / "some.safetensors", f"x={data}:x", *named, *out, status=3,
            says="has some of the axes along which larger")
    got, _ = result("some_out", place / "some.safetensors", f"x={rows}:x", *named)
    near("an input with some of the axes, at the model's own size", got["y"],
         torch.from_numpy((x[:, :, :24, :36] + x[:, :, :24, :1]).sum(1, keepdims=True).repeat(3, 1)))


class Tokens(nn.Module):
    """Whole numbers: tokens, a mask, a class of the whole sample."""
    text = """
model Tokens():
    input  x: f32[N, T=9, F=3]
    input  tokens: i64[N, T]
    input  seen: bool[N, T]
    input  kind: i32[N]
    e = (tokens |> embedding(70000, 6) @tokens) + (x |> linear(6) @x as [N, T, E])
    h = where(seen, e, 0) + (kind |> embedding(4, 6) @kind)
    y = h |> tanh |> linear(5) @y
    output y
    loss = mean(y**2)
"""

    def __init__(self):
        super().__init__()
        self.tokens, self.kind, self.x, self.y = nn.Embedding(70000,
                                                              6), nn.Embedding(4, 6), nn.Linear(3, 6), nn.Linear(6, 5)

    def forward(self, x, tokens, seen, kind):
        e = self.tokens(tokens) + self.x(x)
        return self.y(torch.tanh(torch.where(seen[..., None], e, torch.zeros(())) + self.kind(kind)[:, None]))


def test_whole_numbers():
    """Inputs of whole numbers and truth values, of any type of numbers in the files; what the model's type does not
    hold is refused."""
    net = Tokens()
    (place / "tokens.dl").write_text(net.text)
    save_tensors(place / "tokens.safetensors", dict(net.state_dict()))
    r = np.random.default_rng(8)
    x, tokens, seen, kind = r.standard_normal((5, 9, 3)).astype("f4"), r.integers(0, 70000, (5, 9)), r.random(
        (5, 9)) > 0.3, np.array([0, 3, 1, 2, 3], "u1")
    tokens[1, 2] = 69999
    with torch.no_grad():
        want = net(torch.from_numpy(x), torch.from_numpy(tokens), torch.from_numpy(seen),
                   torch.from_numpy(kind.astype("i8")))
    data = write("tokens_data.h5", x=x, tokens=tokens, seen=seen, kind=kind, half=tokens + 0.5,
                 large=np.where(tokens == 69999, 16777217, tokens), two=seen * 2,
                 floats=tokens.astype("f8"))
    args = [place / "tokens.safetensors", f"--model={place / 'tokens.dl'}", f"x={data}:x", f"kind={data}:kind"]
    for name in ("tokens", "floats"):
        got, how = result(f"tokens_{name}", *args, f"tokens={data}:{name}", f"seen={data}:seen")
        near(f"tokens from {name}", got["y"], want)
        check(how["samples"] == 5, f"all samples: {how}")
    for says, name, seen in (("sample 0, channel 0, .*the model wants whole numbers", "half", "seen"),
                             ("wants 0 or 1", "tokens", "two"),
                             ("sample 1, channel 2, .* is 16777216: whole numbers are read below", "large", "seen")):
        predict(*args, f"tokens={data}:{name}", f"seen={data}:{seen}", "-o", place / "no.h5", status=3, says=says)
    alone = Tokens.text.replace("    input  x: f32[N, T=9, F=3]\n",
                                "").replace("i64[N, T]", "i64[N, T=9]").replace(" + (x |> linear(6) @x as [N, T, E])",
                                                                                "")
    (place / "alone.dl").write_text(alone)
    save_tensors(place / "alone.safetensors", {k: v for k, v in net.state_dict().items() if not k.startswith("x.")})
    nn.init.zeros_(net.x.weight), nn.init.zeros_(net.x.bias)
    with torch.no_grad():
        want = net(torch.from_numpy(x), torch.from_numpy(tokens), torch.from_numpy(r.random((5, 9)) > -1),
                   torch.zeros(5, dtype=torch.int64))
    ones = write("ones.h5", seen=np.ones((5, 9), bool), kind=np.zeros(5, "i4"))
    got, _ = result("alone", place / "alone.safetensors", f"--model={place / 'alone.dl'}", f"tokens={data}:tokens",
                    f"seen={ones}:seen", f"kind={ones}:kind")
    near("whole numbers alone", got["y"], want)


def test_whole_outputs():
    """Classes and masks beside scores, in pieces too; means of classes there are none of, and what a float does not
    hold is refused."""
    torch.manual_seed(5)  # whichever tests ran before: both classes are best somewhere
    weights, _ = model_of(Plane(), "plane")
    (place / "classes.dl").write_text(Plane.text.replace("    z = tanh(y) * 3\n    output z\n",
                                                         "    best = argmax(y, over=C)\n    output best\n"
                                                         "    above = y > 0\n    output above\n"))
    model = [f"--model={place / 'classes.dl'}"]
    x = np.random.default_rng(12).standard_normal((3, 3, 60, 72)).astype("f4")
    data = write("classes_data.h5", x=x)
    got, how = result("classes", *weights, data, *model)
    check(how["tiles"] == "exact" and got["best"].shape == (3, 60, 72) and got["best"].dtype == np.dtype("<i8"),
          f"classes: {how} {got['best']}")
    check(np.array_equal(got["best"], got["y"][:].argmax(1)) and 0 < got["best"][:].mean() < 1,
          "the best of each position")
    check(np.array_equal(got["above"], got["y"][:] > 0) and got["above"].dtype == np.dtype("<i8"), "a mask")
    predict(*weights, data, *model, "--tiles=blend", "-o", place / "no.h5", status=3,
            says="takes means where pieces overlap, and the output 'best' is i32")
    net = Tokens()
    (place / "many.dl").write_text(net.text.replace("    output y\n",
                                                    "    output y\n    far = tokens * 300\n    output far\n"))
    save_tensors(place / "tokens.safetensors", dict(net.state_dict()))
    ones = write("far_data.h5", x=np.zeros((2, 9, 3), "f4"), tokens=np.full((2, 9), 55924), seen=np.ones((2, 9), bool),
                 kind=np.zeros(2, "i4"), more=np.full((2, 9), 55925))
    args = [place / "tokens.safetensors", f"--model={place / 'many.dl'}",
            *(f"{name}={ones}:{name}" for name in ("x", "seen", "kind"))]
    got, _ = result("far", *args, f"tokens={ones}:tokens")
    check(np.array_equal(got["far"], np.full((2, 9), 55924 * 300)), "large whole numbers")
    predict(*args, f"tokens={ones}:more", "-o", place / "no.h5", status=3,
            says="the output 'far' has 16777500: predict writes whole numbers below 2.24")


class ViT(nn.Module):
    """models/vit.dl."""

    def __init__(self, size, channels, patch, width, depth, heads):
        super().__init__()
        self.p, self.heads, self.c = patch, heads, channels
        tokens = size[0] // patch * (size[1] // patch)
        self.pos_embed = nn.Parameter(torch.randn(1, tokens, width) * 0.02)
        self.patch_embed = nn.ModuleDict({"proj": nn.Conv2d(channels, width, patch, patch)})
        block = lambda: nn.ModuleDict({
            "norm1": nn.LayerNorm(width, eps=1e-6), "norm2": nn.LayerNorm(width, eps=1e-6),
            "attn": nn.ModuleDict({k: nn.Linear(width, width) for k in ("q", "k", "v", "proj")}),
            "mlp": nn.ModuleDict({"fc1": nn.Linear(width, 4 * width), "fc2": nn.Linear(4 * width, width)})})
        self.blocks = nn.ModuleList([block() for _ in range(depth)])
        self.norm, self.head = nn.LayerNorm(width, eps=1e-6), nn.Linear(width, patch * patch * channels, bias=False)

    def forward(self, x):
        n, _, h, w = x.shape
        z = self.patch_embed["proj"](x).flatten(2).transpose(1, 2) + self.pos_embed
        for b in self.blocks:
            a, y = b["attn"], b["norm1"](z)
            split = lambda t: t.reshape(n, -1, self.heads, t.shape[-1] // self.heads).transpose(1, 2)
            q, k, v = (split(a[name](y)) for name in "qkv")
            y = torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, -1) @ v
            z = z + a["proj"](y.transpose(1, 2).flatten(2))
            z = z + b["mlp"]["fc2"](F.gelu(b["mlp"]["fc1"](b["norm2"](z))))
        y, p = self.head(self.norm(z)).reshape(n, h // self.p, w // self.p, self.p, self.p, self.c), self.p
        return y.permute(0, 5, 1, 3, 2, 4).reshape(n, self.c, h, w)


def test_rollout():
    """Ten steps of a ViT from files of weather, each beside PyTorch's; RMSE by lead time in the data's units, pairs dt
    steps apart."""
    c, h, w, times, dt, steps = 3, 16, 24, 40, 2, 10
    net = ViT((h, w), c, 8, 32, 2, 4)
    save_tensors(place / "vit.safetensors", dict(net.state_dict()))
    r = np.random.default_rng(5)
    mean, std = np.array([3, -20, 1e4], "f4"), np.array([2, 7, 800], "f4")
    fields = (r.standard_normal((times, c, 17, 25)) * std[:, None, None] + mean[:, None, None]).astype("f4")
    np.save(place / "means.npy", mean.reshape(1, c, 1, 1)), np.save(place / "stds.npy", std.reshape(1, c, 1, 1))
    data = write("2007.h5", fields=fields, lat=np.linspace(90, -90, 17), lon=np.arange(25))
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    model = [f"--model={root}/models/vit.dl", f"--img_size=[{h},{w}]", f"--n_in_channels={c}", f"--n_out_channels={c}",
             "--embed_dim=32", "--depth=2",
             "--num_heads=4", f"--dt={dt}", "--data_loader_config=pytorch",
             f"--global_means_path={place / 'means.npy'}",
             f"--global_stds_path={place / 'stds.npy'}"]
    got, how = result("roll", place / "vit.safetensors", data, *model, f"--rollout={steps}", "--metrics")
    x = torch.from_numpy((fields[:, :, :h, :w] - mean[:, None, None]) / std[:, None, None])
    scale = lambda y: y.double() * torch.from_numpy(std.astype("f8"))[:, None, None] + torch.from_numpy(
        mean.astype("f8"))[:, None, None]
    errors = []
    check(got["y"].shape == (times, steps, c, h, w), f"times, steps, channels, lat, lon: {got['y'].shape}")
    with torch.no_grad():
        for step in range(steps):
            x = net(x)
            error = relative(torch.from_numpy(got["y"][:, step] - mean[:, None,
                                                                       None]) / torch.from_numpy(std)[:, None, None], x)
            if step in (0, steps - 1):
                check(error < 1e-4, f"step {step + 1} of the rollout: {error:.1e} from PyTorch (at most 1e-04)")
            lead = (step + 1) * dt
            errors.append(((scale(x)[:times - lead] - torch.from_numpy(fields[lead:, :, :h, :w]).double())**2).mean(
                (0, 2, 3)).sqrt().tolist())
    check(np.allclose(how["rmse"], errors, rtol=1e-4), f"RMSE by lead time: {how['rmse'][-1]} beside {errors[-1]}")
    check(how["tiles"] == "crop" and got["lat"].shape == (h,) and got["lon"].shape == (w,),
          "from the origin, coordinates too")
    again, _ = result("again", place / "vit.safetensors", data, *model, f"--rollout={steps}", "--threads=1",
                      "--samples=7:9")
    check(np.array_equal(again["y"], got["y"][7:9]), "the same bits on one thread")
    write("nan.h5", fields=np.where(np.arange(17)[:, None] == 3, np.nan, fields[:5]).astype("f4"))
    predict(place / "vit.safetensors", place / "nan.h5", *model, "-o", place / "no.h5", status=3,
            says=r"sample 0, channel 0, place \[0, 3, 0\] is nan")
    predict(place / "vit.safetensors", data, *model, "-o", place / "no.h5", "--tiles=exact", status=3,
            says="there is no bound to what an output sees")


def test_run():
    """From a run's directory, best and last, a checkpoint of it; less memory than training."""
    net = Plane()
    _, model = model_of(net, "plane")
    options = [place / "plane.dl", "--data_loader_config=synthetic", "--local_batch_size=1", "--Nsamples=2",
               "--Nsamples_val=2", "--lr_schedule=none",
               f"--expdir={place / 'runs'}", "--num_epochs=2"]
    place.run("dlrun", *options)
    trains = json.loads([line for line in place.run("dlrun", *options, "--dry_run", "--json").splitlines()
                         if line.startswith("{")][0])
    run = place / "runs/plane-base/1GPU/00"
    x = np.random.default_rng(6).standard_normal((3, 24, 36)).astype("f4")
    data = write("small.h5", x=x)
    got, how = result("best", run, data)
    check(how["peak_bytes"] < 0.6 * trains["peak_bytes"],
          f"{how['peak_bytes']} bytes to predict, {trains['peak_bytes']} to train")
    from oracle_tools import load_tensors
    for which in "best", "last":
        net.load_state_dict(load_tensors(run / f"checkpoints/{which}/model.safetensors"))
        out, _ = result(which, run, data, f"--checkpoint={which}")
        near(f"the {which} checkpoint", out["y"], whole(net, x[None])[0])
    step = os.readlink(run / "checkpoints/last")
    out, _ = result("step", run / "checkpoints" / step, data)
    check(out.attrs["weights"].decode().endswith(step), "a checkpoint by its name")
    with open(run / f"checkpoints/{step}/model.safetensors", "r+b") as f:
        f.seek(-1, 2), f.write(b"x")
    predict(run / "checkpoints" / step, data, "-o", place / "no.h5", status=3, says="damaged")
    memory = json.loads(predict(run, data, "--dry_run", "--json"))
    check(memory["peak_bytes"] == how["peak_bytes"] and "samples" not in memory, "dry run: memory alone")


def test_own_data():
    """A run on data of one's own: its statistics are taken off and put on again; the next state as truth."""
    net = nn.ModuleDict({"a": nn.Conv1d(2, 2, 3, padding=1)})
    with open(place / "own.dl", "w") as f:
        f.write("model Own():\n    input x: f32[N, C=2, L=16]\n    target t: f32[N, C=2, L]\n"
                "    y = x |> conv(2, 3, pad=1) @a\n    output y\n"
                "    loss = mean((y - t)**2)\n")
    a = np.random.default_rng(8).standard_normal((20, 2, 16)) * [[3], [0.1]] + [[50], [-7]]
    data = write("series.h5", u=a.astype("f4"))
    entry = f"{{file: {data}, array: u, normalize: standardize"
    with open(place / "own.yaml", "w") as f:
        f.write("base:\n  local_batch_size: 2\n  num_epochs: 1\n  lr_schedule: none\n  data:\n"
                f"    inputs: {{x: {entry}}}}}\n"
                f"    targets: {{t: {entry}, offset: 1}}}}\n    split: {{valid: 0.2}}\n")
    place.run("dlrun", place / "own.dl", f"--yaml_config={place / 'own.yaml'}", f"--expdir={place / 'own'}")
    run = place / "own/own-base/1GPU/00"
    from oracle_tools import load_tensors
    net.load_state_dict(load_tensors(run / "checkpoints/last/model.safetensors"))
    got, how = result("series_out", run, f"{data}:u", "--checkpoint=last", "--metrics", "--rollout=3")
    kept = {line for p in place.dir.glob("series.h5*.statistics") for line in open(p)}
    check(kept and got["y"].shape == (20, 3, 2, 16), f"statistics of the training part are kept: {len(kept)} lines")
    # of the first 80%, less what has no next one, for the input as for the target
    m, s = (f(a[:15].astype("f4"), (0, 2)).astype("f4")[:, None] for f in (np.mean, np.std))
    x, worst = a.astype("f4"), 0
    with torch.no_grad():
        for step in range(3):
            x = net["a"](torch.from_numpy((x - m) / s)).numpy() * s + m
            worst = max(worst, np.abs((got["y"][:, step] - x) / s).max())
    check(worst < 1e-4, f"three steps in the data's units: {worst:.1e}")
    error = np.sqrt(((got["y"][:19, 0].astype("f8") - a[1:]) ** 2).mean((0, 2)))
    check(np.allclose(how["rmse"][0], error, rtol=1e-4), f"RMSE one sample later: {how['rmse'][0]} {error}")
    stored = np.round(a * 100).astype("i2")
    with h5py.File(write("packed.h5", u=stored), "r+") as f:
        f["u"].attrs["scale_factor"] = 0.01
    packed, _ = result("packed_out", run, place / "packed.h5", "--checkpoint=last")
    plain, _ = result("plain_out", run, write("plain.h5", u=(stored * 0.01).astype("f4")), "--checkpoint=last")
    check(np.allclose(packed["y"], plain["y"], rtol=1e-5), "NetCDF's packed numbers stand for others")


def test_own_inputs():
    """Each input by its own statistics, whichever leads."""
    with open(place / "two.dl", "w") as f:
        f.write("model Two():\n    input b: f32[N, K=2]\n    input a: f32[N, C=1, L=16]\n    target t: f32[N, C=1, L]\n"
                "    y = (a |> conv(1, 3, pad=1) @a) + (sum(b, over=K) as [N]) |> tanh\n    output y\n"
                "    loss = mean((y - t)**2)\n")
    r = np.random.default_rng(9)
    a, b = (r.standard_normal((20, 1, 16)) * 3 + 50).astype("f4"), (r.standard_normal((20, 2)) * [0.1, 7] +
                                                                    [-4, 9]).astype("f4")
    data = write("two.h5", a=a, b=b)
    entry = lambda name, rest="": f"{{file: {data}, array: {name}{rest}}}"
    with open(place / "two.yaml", "w") as f:
        f.write("base:\n  local_batch_size: 2\n  num_epochs: 1\n  lr_schedule: none\n  data:\n    inputs:\n"
                f"      a: {entry('a', ', normalize: standardize')}\n"
                f"      b: {entry('b', ', mean: 2.5, std: 4').replace('array: b', 'array: b, axes: [N, K]')}\n"
                f"    targets: {{t: {entry('a')}}}\n    split: {{valid: 0.2}}\n")
    place.run("dlrun", place / "two.dl", f"--yaml_config={place / 'two.yaml'}", f"--expdir={place / 'two'}")
    run = place / "two/two-base/1GPU/00"
    from oracle_tools import load_tensors
    net = nn.ModuleDict({"a": nn.Conv1d(1, 1, 3, padding=1)})
    net.load_state_dict(load_tensors(run / "checkpoints/last/model.safetensors"))
    got, _ = result("two_out", run, f"b={data}:b", f"a={data}:a", "--checkpoint=last")
    with torch.no_grad():
        want = torch.tanh(net["a"](torch.from_numpy((a - a[:16].mean()) / a[:16].std())) +
                          torch.from_numpy((b - 2.5) / 4).float().sum(1)[:, None, None])
    near("two inputs, each less its own mean", got["y"], want)


def targets_run(name, text, targets, data):
    """A run of one epoch on targets with `normalize: standardize`; its directory and weights."""
    from oracle_tools import load_tensors
    with open(place / f"{name}.dl", "w") as f:
        f.write(text)
    source = lambda array, norm: f"{{file: {data}, array: {array}{', normalize: standardize' if norm else ''}}}"
    with open(place / f"{name}.yaml", "w") as f:
        f.write(f"base: {{local_batch_size: 4, num_epochs: 1, data: {{inputs: {{a: {source('a', True)}}}, targets: {{"
                + ", ".join(f"{t}: {source(array, norm)}" for t, (array, norm) in targets.items()) +
                "}, split: {valid: 0.2}}}\n")
    place.run("dlrun", place / f"{name}.dl", f"--yaml_config={place / name}.yaml", f"--expdir={place / name}")
    run = place / name / f"{name}-base/1GPU/00"
    return run, load_tensors(run / "checkpoints/best/model.safetensors")


def test_two_targets():
    """Outputs are undone by the statistics of the target of their name, else of their place; predict does not guess
    else."""
    model = ("model M():\n    input a: f32[N, F=8]\n    target b: f32[N, F]\n    target c: f32[N, F]\n"
             "    {first} = a |> linear(8) @l as [N, F]\n"
             "    {second} = a |> linear(8) @m as [N, F]\n{more}    output {first}\n    output {second}\n"
             "    loss = mse_loss({loss_b}, b) + mse_loss({loss_c}, c)\n")
    r = np.random.default_rng(11)
    a, b = r.normal(300, 5, (40, 8)).astype("f4"), r.normal(0, 10, (40, 8)).astype("f4")
    data = write("targets.h5", a=a, b=b, c=a * 3)
    scaled = {"b": ("b", True), "c": ("c", True)}
    statistics = {"b": (b[:32].mean(), b[:32].std()), "c": (3 * a[:32].mean(), 3 * a[:32].std()), "none": (0, 1)}
    cases = [("order", {"first": "y", "second": "z", "loss_b": "y", "loss_c": "z"}, scaled,
              {"y": ("l", "b"), "z": ("m", "c")}),
             ("half", {"first": "y", "second": "z", "loss_b": "y", "loss_c": "z"}, {**scaled, "b": ("b", False)},
              {"y": ("l", "none"), "z": ("m", "c")})]
    for name, names, targets, outputs in cases:
        run, weights = targets_run(name, model.format(more="", **names), targets, data)
        got, _ = result(f"{name}_out", run, f"{data}:a")
        x = (a - a[:32].mean()) / a[:32].std()
        for output, (layer, target) in outputs.items():
            mean, std = statistics[target]
            want = (x.astype("f8") @ weights[f"{layer}.weight"].numpy().T +
                    weights[f"{layer}.bias"].numpy()) * std + mean
            near(f"{name}: the output '{output}' in the units of its target", got[output], torch.from_numpy(want))
    three = model.format(first="y", second="z", loss_b="y", loss_c="z", more="    u = relu(y)\n    output u\n")
    run, _ = targets_run("three", three, scaled, data)
    predict(run, f"{data}:a", "-o", place / "three_out.h5", status=3,
            says="3 outputs and 2 targets.*the model can say `output u undo b`")
    run, _ = targets_run("units", three, {"b": ("b", False), "c": ("c", False)}, data)
    got, _ = result("units_out", run, f"{data}:a")
    check(got["u"].shape == (40, 8), "the remedy: outputs in the targets' units, which nothing normalised")


def test_faults():
    weights, model = model_of(Plane(), "plane")
    x = np.zeros((3, 24, 36), "f4")
    data, out = write("zero.h5", x=x, other=x), ["-o", place / "no.h5"]
    for status, says, args in [
        (2, "CHECKPOINT DATA", []), (2, "CHECKPOINT DATA", [weights[0]]), (2, "where to", [*weights, data, *model]),
        (2, "says nothing of its model", [*weights, data, *out]),
        (3, "several arrays fit", [*weights, data, *model, *out]),
        (3, "no array 'nix'", [*weights, f"{data}:nix", *model, *out]),
        (4, "cannot open .*nowhere", [place / "nowhere", data, *out]),
        (4, "cannot open .*none.h5", [*weights, place / "none.h5", *model, *out]),
        (3, "no directory of a run", [place.dir, data, *out]),
        (2, "--tiles=much", [*weights, f"{data}:x", *model, *out, "--tiles=much"]),
        (2, "--rollout needs a whole number", [*weights, f"{data}:x", *model, *out, "--rollout=0"]),
        (3, "the first output feeds an input", [*weights, f"{data}:x", *model, *out, "--rollout=2"]),
        (3, "is empty: an axis of it has no elements",
         [*weights, f"{write('hollow.h5', x=np.zeros((0, 3, 24, 36), 'f4'))}:x", *model, *out]),
        (2, "--samples=5", [*weights, f"{data}:x", *model, *out, "--samples=5"]),
        (2, "has 1", [*weights, f"{data}:x", *model, *out, "--samples=4:5"]),
        (2, "say where the truth is", [*weights, f"{data}:x", *model, *out, "--metrics"]),
        (3, "does not fit", [*weights, f"{data}:x", *model, *out, "--metrics", f"--target={data}:x"]),
        (2, "is what this command reads", [*weights, f"{data}:x", *model, "-o", data]),
        (2, "unknown option '--depht'", [*weights, data, *model, *out, "--depht=3"]),
        (4, "no file can be made", [*weights, f"{data}:x", *model, "-o", place / "none/no.h5"]),
        (2, r"a .npy file holds one array, and the model has 2 outputs \('y', 'z'\): name a file that ends with .h5",
         [*weights, f"{data}:x", *model, "-o", place / "no.npy"]),
        (2, r"no writer for '.npz'", [*weights, f"{data}:x", *model, "-o", place / "no.npz"]),
    ]:
        predict(*args, status=status, says=says)
    with open(place / "of_target.dl", "w") as f:
        f.write("model M():\n    input x: f32[N, C=3, H=24, W=36]\n    target t: f32[N, C=3, H, W]\n"
                "    y = x |> conv(3, 1) @a\n"
                "    output y\n    z = y - t\n    output z\n    loss = mean(z**2)\n")
    predict(*weights, data, f"--model={place / 'of_target.dl'}", *out, status=3, says="made of its target 't'")
    check(not any(os.path.exists(place / name) for name in ("no.h5", "no.npy", "no.npz")),
          "nothing is left of what failed")


for name, test in list(globals().items()):
    if name.startswith("test_") and (len(sys.argv) < 3 or name[5:] in sys.argv[2:]):
        test()
finish()
