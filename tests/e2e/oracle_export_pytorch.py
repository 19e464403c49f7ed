#!/usr/bin/env python3
"""`dlc export --as=pytorch` in PyTorch: names, outputs, statistics, training, every op; what it refuses, and which
files a refusal leaves.

oracle_export_pytorch.py BUILD [models] [ops] [data] [faults]
"""
import importlib.util
import inspect
import os
import pathlib
import py_compile
import re
import shutil
import subprocess
import sys

from checks import narrowed, takes
from oracle_tools import ROOT, SHARED, Workplace, check, finish, load_tensors, np, relative, save_tensors, torch
from export_nets import Net

from torch import nn

place = Workplace(sys.argv[1])
parts = sys.argv[2:] or ["models", "ops", "data", "faults"]
DLC = place.program("dlc")
torch.manual_seed(5)


def export(*args, status=0, says="", out="net"):
    shutil.rmtree(place / out, ignore_errors=True)
    r = subprocess.run([DLC, "export", *map(str, args), "-o", place / out, "--as=pytorch"], capture_output=True,
                       text=True, env=place.env,
                       stdin=subprocess.DEVNULL, cwd=place.dir)
    good = r.returncode == status and re.search(says, r.stderr) and (place / out).exists() == (status == 0)
    if not good or status:
        check(good,
              f"export {' '.join(map(str, args))[-120:]}: exit {r.returncode}, wanted {status}, /{says}/: "
              f"{r.stderr.strip()[-300:]}")
    return good and not list(place.dir.glob(".dlc-*"))


def loaded(folder):
    """The network of an exported folder with its weights; the file's text."""
    files = sorted(p.name for p in folder.iterdir())
    source = folder / next(f for f in files if f.endswith(".py"))
    text = source.read_text()
    py_compile.compile(str(source), cfile=str(place / "compiled.pyc"), doraise=True)
    widest = max(map(len, text.splitlines()))
    if len(files) != 2 or widest > 120:
        check(False, f"{source.name}: two files and lines up to 120: {files}, {widest}")
    spec = importlib.util.spec_from_file_location("exported", source)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    net = [c for c in vars(module).values() if isinstance(c, type) and issubclass(c, nn.Module)
           and c.__module__ == "exported"][-1]()
    weights = load_tensors(source.with_suffix(".safetensors"))
    net.load_state_dict(weights)
    assert list(weights.keys() ^ net.state_dict().keys()) == []
    return net.eval(), text


def call(net, inputs):
    with torch.no_grad():
        y = net(*inputs.values())
    return list(y) if isinstance(y, tuple) else [y]


def distance(got, want):
    """The largest difference, in parts of the largest number."""
    worst = 0.0
    for a, b in zip(got, want):
        if a.shape != b.shape or a.is_floating_point() != b.is_floating_point() or len(got) != len(want):
            return float("inf")
        finite = torch.isfinite(b)
        if not (torch.isfinite(a) == finite).all():
            return float("inf")
        scale = b[finite].double().abs().max().item() if finite.any() else 1.0
        worst = max(worst,
                    (a[finite].double() - b[finite].double()).abs().max().item() / (scale or 1.0) if finite.any()
                    else 0.0)
    return worst


def compare(model, *settings, batches=(1, 5), predicts=True, base=None):
    """A model with random weights: `dlrun predict` and PyTorch."""
    what = " ".join([pathlib.Path(model).name, *settings])
    torch.manual_seed(5)
    try:
        net = Net(place, model, *settings, *([f"--local_batch_size={base}"] if base else []))
        weights = net.random_weights(place / "w.safetensors")
        given = [f"--model={model}", *settings]
        if not export(place / "w.safetensors", *given, *([f"--local_batch_size={base}"] if base else [])):
            return check(False, what)
        exported, text = loaded(place / "net")
        names = [n if n in net.inputs else n[:-1] for n in inspect.signature(exported.forward).parameters]
        if exported.state_dict().keys() != weights.keys():
            return check(False, f"{what}: keys {exported.state_dict().keys() ^ weights.keys()}")
        far = 0.0
        for n in batches:
            inputs = net.random_inputs(n, names)
            got = call(exported, inputs)
            if predicts:
                far = max(far, distance(got, net.predict(place / "w.safetensors", inputs, *given)))
        check(far < 1e-5, f"{what}: {far:.1e}" + ("" if predicts else " (runs)"))
        return text
    except Exception as e:
        check(False, f"{what}: {type(e).__name__} {str(e)[:400]}")
        return ""


def compare_gradients(path, output, target, samples=3):
    """The gradients of a mean square error, of `dlrun` and of the exported network."""
    place_of = lambda name: place / f"gradients_{name}.safetensors"
    text = re.sub(r"loss = .*", f"loss = mse_loss({output}, {target})", path.read_text())
    own = model(text, "gradients.dl")
    net = Net(place, own)
    weights = net.random_weights(place_of("weights"))
    batch = net.random_inputs(samples, net.inputs) | {target: torch.randn(samples, 7, 6)}
    save_tensors(place_of("batch"), {f"{n}.0": v for n, v in batch.items()})
    net.run("dlrun", own, f"--local_batch_size={samples}", f"--expdir={place / 'gradients'}", "--optimizer=sgd",
            f"--init_weights={place_of('weights')}", f"--replay={place_of('batch')}",
            f"--save_grads={place_of('got')}")
    got = load_tensors(place_of("got"))
    if not export(place_of("weights"), f"--model={own}"):
        return
    exported = loaded(place / "net")[0]
    names = [n if n in net.inputs else n[:-1] for n in inspect.signature(exported.forward).parameters]
    y = exported(*(batch[n] for n in names))
    ((y[net.outputs.index(output)] - batch[target])**2).mean().backward()
    want = {n: p.grad for n, p in exported.named_parameters() if p.grad is not None and p.grad.any()}
    check(want.keys() == {n for n, v in got.items() if v.any()} and len(want) > len(weights) / 2,
          f"{path.name}: gradients of {sorted(want)}")
    far = max(relative(got[n].double(), v) for n, v in want.items() if n in got)
    check(far < 2e-5, f"{path.name}: gradients are {far:.1e} off")


def model(text, name="m.dl"):
    (place / name).write_text(text)
    return place / name


if "models" in parts:
    unet = compare(model(narrowed((ROOT / "models/unet.dl").read_text(), 8), "unet.dl"), "--full_scale=false",
                   "--data_size=32")
    check("self.conv_down1 = nn.ModuleList([nn.Conv3d(4, 8, 4, stride=2, padding=1)])" in unet,
          "layers are those of torch.nn")
    compare(ROOT / "models/resunet.dl", "--data_size=16")
    compare(ROOT / "models/resnet.dl", "--input_shape=[64,64,3]")
    compare(ROOT / "models/resnet.dl", "--small=true", "--depths=[2,2,2,2]", "--expand=1", "--n_classes=10",
            "--input_shape=[32,32,3]")
    compare(ROOT / "models/convnext.dl", "--img_size=[16,32]", "--embed_dim=16", "--depth=3")
    compare(ROOT / "models/cnn_classifier.dl")
    compare(ROOT / "models/cnn_regressor.dl", "--data_size=32")
    shutil.copy(ROOT / "models/vit.dl", place / "vit.dl")  # away from its configuration, whose data have statistics
    vit = compare(place / "vit.dl", "--img_size=[16,32]", "--depth=3", "--embed_dim=32")
    check("for _ in range(3)" in vit and "for block in self.blocks:\n" in vit and vit.count(".attn.proj(") == 1,
          "equal blocks are a loop")
    compare(ROOT / "models/field/fno.dl", "--width=6", "--modes=3", "--layers=2", "--hidden=16", "--size=14")
    compare(ROOT / "models/field/lstm.dl", "--days=9", "--forcings=3", "--attributes=2", "--hidden=5", "--layers=2")
    alone = {"cancelling_bias", "derivatives"}  # mix samples, of which predict has one at a time
    not_predicted = {"kinks", "seeded", "language"}  # of a target; of inputs that dlrun does not serve
    for path in sorted((ROOT / "tests/data").glob("**/*.dl")):
        if path.stem not in not_predicted | {"odd_parts", "shuffled", "hello"}:
            compare(path, *(["--data_size=16"] if path.stem in ("small", "dropout") else []),
                    batches=(1,) if path.stem in alone else (1, 5),
                    base=2 if path.parent.name == "import" else None)  # a batch norm of vectors has no single sample
    compare(ROOT / "tests/data/language.dl", predicts=False)
    for name in ("cells", "derivatives"):
        compare_gradients(ROOT / f"tests/data/layers/{name}.dl", "y", "t")
    for name in ("odd_parts", "shuffled"):  # fix their number of samples
        compare(ROOT / f"tests/data/layers/{name}.dl", batches=(2,), predicts=False, base=2)
    lacks = {"windows": "affine"}  # of two axes: windows of taps
    pages = "".join(page.read_text() for page in sorted((ROOT / "docs/reference").glob("cookbook*.md")))
    recipes = re.findall(r"```dl file=(\S+)\.dl[^\n]*\n(.*?)```", pages, re.S)
    for name, text in [r for i, r in enumerate(recipes) if takes(i)]:
        path = model(text, f"recipe_{name}.dl")
        if name not in lacks:  # norms of a batch: predict has one sample at a time
            compare(path, batches=(1,) if name == "norms" else (1, 5))
            continue
        Net(place, path).random_weights(place / "w.safetensors")
        export(place / "w.safetensors", f"--model={path}", status=3,
               says=rf"recipe_{name}\.dl:\d+:\d+: error: PyTorch has no way to say '{lacks[name]}'")
    if (SHARED / "checks/field_cases").is_dir():
        for name in ("adaptive_pool_long", "clip_overflow", "constant_1e15", "predict_unused_input", "probe",
                     "segresnet_block",
                     "verify_min_of_itself", "where_axis_order"):
            compare(SHARED / f"checks/field_cases/{name}.dl")
        compare(SHARED / "checks/field_cases/amp_square_stored.dl", predicts=False)  # an output of parameters alone

if "ops" in parts:
    ops, rows = (re.findall(rf"^{macro}\((\w+)", (ROOT / file).read_text(), re.M)
                 for macro, file in (("OP", "ir/ops.def"), ("ROW", "exports/pytorch/rules.def")))
    check(ops == rows, f"every op has its row: {sorted(set(ops) ^ set(rows))}")
    compare(
        model("""
model Point():
    input x: f32[N, C=3, H=4, W=5]
    target t: f32[N, C, H, W]
    param a: [C] ~ normal(0, 1)
    param b: [W, C] ~ normal(0, 1)
    param c: [1, 1, H] ~ normal(0, 1)
    u = exp(-abs(x)) + log(abs(x) + 1) - expm1(x * 0.1) * log1p(x**2) + rsqrt(x**2 + 1) / sqrt(abs(x) + 2)
    v = tanh(x) + sigmoid(x) * sin(x) - cos(x) * erf(x) + floor(x) + sign(x) - -x
    w = relu(x) + leaky_relu(x, 0.2) + elu(x, 1.5) + gelu(x) + gelu(x, approximate="tanh") + silu(x) + softplus(x,
        2, 1.5)
    q = max(x, 0.1) + min(x, a) + max(a, x) * min(0.3, x) + clamp(x, min=-0.5, max=0.4) + clamp(x,
        min=0) + abs(x)**1.5 + 2**x
    z = where((x > a) and (x < 1.5) or not (x >= b), x * b, a - (b - x)) + where(x == 0, 1.0, 0.0) + where(x != a, x, 0)
    k = (x * 10) |> floor
    y = (u - (v - w)) * (q / (1 + z**2)) + a * (b + c) + stop_gradient(k) * 0.01 + (1 - (2 - x)) / 3
    output y
    loss = mse_loss(y, t)
"""))
    compare(
        model("""
model States():
    input x: f32[N, T=7, E=4]
    target t: f32[N, T, E=8]
    h = x[T=0:2] |> rearrange("n t e -> t n e") as [L, N, E]
    y, a, b = x |> lstm(4, bidirectional=true, states=true, h0=h, c0=2 * h) @0
    z, c = x |> gru(4, bidirectional=true, states=true, h0=a) @1
    w = x |> rnn(4, h0=b[L=0:1], bias=false) @2
    p, last, d = x |> lstm(3, layers=2, states=true) @3
    y = y + z + cat(w, w, over=E) + sum(c, over=[L, E]) + sum(last * d, over=[L, E])
    output y
    loss = mse_loss(y, t)
"""))
    compare(
        model("""
model Moves():
    input x: f32[N, C=6, H=8, W=5]
    target t: f32[N, C, H, W]
    param e: [C] ~ normal(0, 1)
    a = x[C=1:4] |> pad(2, mode="reflect", over=[H, W])
    b = x[C=::2, H=1:7] |> pad([1, 2], mode="circular", over=W) |> pad(1, mode="replicate", over=H)
    c = roll(x, 2, over=H) + flip(x, over=[H, W]) + roll(x, -1, over=W)
    d = x |> rearrange("n (g c) h w -> n h (c g) w", g=2) as [N, H, C, W]
    y = c + (d |> rearrange("n h c w -> n c h w")) * e + expand(e, W=5)
    s = sum(x, over=[H, W]) + mean(x, over=[W, H]) * max(x, over=[H, W]) - min(x,
        over=[W, H]) + prod(x * 0.5 + 1, over=[H, W])
    p = cumsum(x, over=W) + softmax(x, over=C) - log_softmax(x, over=H) + cumprod(x, over=H, reverse=true)
    p = p + linear_scan(sigmoid(x), x, over=C) + cumsum(linear_scan(e, x, over=W, reverse=true), over=H, exclusive=true)
    m = var(x, over=[C]) + std(x, over=C) + norm(x, over=C)
    q = where(any(x > 1, over=C), 1.0, 0.0) + where(all(x > -1, over=C), 1.0, 0.0)
    f = x[C=2] + x[C=0, H=3]
    output y
    output a
    output b
    output s
    output p
    output m
    output q
    output f
    loss = mse_loss(y, t)
"""))
    compare(
        model("""
model Layers():
    input x: f32[N, C=4, H=9, W=7]
    target t: f32[N, C=6, H=10, W=8]
    a = x |> conv(6, [3, 4], stride=2, pad=same) @same |> conv_transpose(6, 3, stride=2, pad=1, out_pad=1) @up
    b = x |> conv(8, 3, pad=1, groups=2, bias=false) @grouped |> instance_norm(eps=0.01) @free |> group_norm(4) @gn
    b = b |> batch_norm(affine=false) @still
    c = b |> max_pool(3, stride=2, pad=same) |> upsample(size=[9, 7]) |> upsample(scale_factor=3) |> avg_pool(3,
        pad=same, count_include_pad=false)
    d = b |> avg_pool(3, stride=1, pad=same) |> layer_norm(over=C) @ln |> max_pool(2,
        ceil_mode=true) |> adaptive_avg_pool([3, 2])
    e = x |> rearrange("n c h w -> n w h c") as [N, T, S, E] |> linear(5) @lin |> layer_norm(1e-3) @last
    f = x |> conv_transpose(3, 2, dilation=2, out_pad=1) @spread |> upsample(size=[6, 5],
        mode="bilinear", align_corners=true)
    y = a |> upsample(size=[10, 8], mode="bilinear")
    output y
    output c
    output d
    output e
    output f
    loss = mse_loss(y, t)
"""))
    compare(model("""
module Both(c)(x): return x |> linear(c) @in |> relu |> linear(c) @0
model Names():
    input lambda: f32[N, E=6]
    target t: f32[N, E]
    param type: [E] ~ normal(0, 1)
    param n: [E] ~ normal(0, 1)
    h = lambda |> Both(6) @half |> Both(6) @keys.3
    for i in range(12): h = h + (h |> linear(6) @list.{11-i})
    y = (h * type + n |> expand(L=4) |> rearrange("n e l -> n e l") as [N, E, L] |> batch_norm @bn)[L=0]
    output y
    loss = mse_loss(y, t)
"""))
    compare(model("""
model Words(V=11):
    input k: i32[N, T=7]
    target t: f32[N, T, E=V]
    both = linear(8) @both
    table = embedding(V, 8) @tokens
    h = table(k) + (table(k) |> both |> gelu |> both)
    y = h |> linear(V) @head
    best = gather(y, argmax(y, over=E), over=E) + gather(h, k - 1, over=E)
    sums = segment_sum(y, k - 1, over=T, S=3) + segment_mean(h, max(k, 1), over=T, S=3)[E=0]
    sums = sums + segment_max(y, k - 1, over=T, S=3) * sum(segment_min(h, max(k, 9), over=T, P=10), over=[E, P])
    best = best + sort(y, over=E) * (argsort(y, over=T, descending=true) as f32)
    output y
    output best
    output sums
    loss = mse_loss(y, t)
"""))
    compare(model("""
model Scores():
    input x: f32[N, C=5, W=6]
    target t: f32[N, C, W]
    param w: [A=4, C] ~ normal(0, 1)
    k = argmax(x, over=C)
    e = cross_entropy(x, k, reduction="none") + cross_entropy(x, softmax(x * 0.5, over=C), over=C, reduction="none")
    shares = one_hot(k, C=5)
    g = where(in_top_k(x[W=0], argmax(x[W=1], over=C), 2), 1.0, 0.0)
    param v: [W] ~ normal(0, 1)
    y = x * linspace(-1, 1, over=W) * v + shares * cos(linspace(0, 90, over=C) * pi / 180) * g
    c = sum(x * w, over=C) - mean(y, over=[C, W])
    output y
    output e
    output c
    loss = mse_loss(y, t)
"""))
    compare(model("""
model Double():
    input x: f64[N, C=3, W=6]
    target t: f64[N, C, W]
    y = x |> conv(3, 3, pad=1) @a |> group_norm(3) @n |> tanh |> linear(6) @b
    y = where(y > 0, 1.0, 0.0) * y
    output y
    loss = mse_loss(y, t)
"""))
    compare(model("""
model Mean():
    input x: f32[N, E=5]
    target t: f32[N, E]
    y = (x |> linear(5) @a) - mean(x, over=N) + var(x, over=N) * sum(x, over=N)
    output y
    loss = mse_loss(y, t)
"""), batches=(1,))
    (net, text), x = loaded(place / "net"), torch.randn(5, 5)
    want = net.a(x) - x.mean(0) + x.var(0, unbiased="unbiased" in text or "- 1" in text) * x.sum(0)
    check(distance(call(net, {"x": x}), [want]) < 1e-5, "what goes over the samples goes over those of a call")


def train(name, text, data, **arrays):
    """A run of one epoch on arrays of a file; `dlrun predict` of all its samples."""
    import h5py
    with h5py.File(place / f"{name}.h5", "w") as f:
        for key, value in arrays.items():
            f[key] = value
    model(text, f"{name}.dl")
    (place / f"{name}.yaml").write_text(f"base: {{local_batch_size: 4, num_epochs: 1, start_lr: 1.0e-2, expdir: "
                                        f"{place / name}, data: {data}}}\n")
    for args in ([f"{name}.dl", f"--yaml_config={name}.yaml"], ):
        r = subprocess.run([place.program("dlrun"), *args], capture_output=True, text=True, env=place.env,
                           stdin=subprocess.DEVNULL, cwd=place.dir)
        if r.returncode:
            check(False, f"training {name}: {(r.stderr or r.stdout)[-400:]}")
            finish()
    return next((place / name).glob("**/checkpoints")).parent


def predicted(name, run, *args):
    import h5py
    r = subprocess.run([place.program("dlrun"), "predict", run, *map(str, args), "-o", place / f"{name}_out.h5"],
                       capture_output=True, text=True,
                       env=place.env, stdin=subprocess.DEVNULL, cwd=place.dir)
    if r.returncode:
        check(False, f"predict {name}: {r.stderr[-400:]}")
        finish()
    with h5py.File(place / f"{name}_out.h5") as f:
        return {key: torch.from_numpy(np.asarray(f[key])) for key in f}


if "data" in parts:
    r = np.random.default_rng(3)
    img = (np.array([5, -3, 100]) + np.array([2, 0.1, 30]) * r.standard_normal((24, 4, 8, 3))).astype("f4")
    lab = (50 + 20 * img.mean((1, 2))[:, :2]).astype("f4")
    run = train("img", """
model Img():
    input x: f32[N, C=3, H=4, W=8]
    target t: f32[N, F=2]
    y = mean(x |> conv(4, 3) @c |> batch_norm @bn |> relu, over=[H, W]) |> linear(2) @fc as [N, F]
    output y
    loss = mse_loss(y, t)
""", "{inputs: {x: {file: img.h5, array: img, axes: [N, H, W, C], normalize: standardize}}, targets: {t: {file: "
     "img.h5, array: lab, "
                "normalize: standardize}}, split: {valid: 0.25}}", img=img, lab=lab)
    want = predicted("img", run, "img.h5:img")["y"]
    export(run)
    net, text = loaded(place / "net")
    got = call(net, {"x": torch.from_numpy(img.transpose(0, 3, 1, 2).copy())})
    check(distance(got, [want]) < 1e-5, f"raw numbers in, the target's units out: {distance(got, [want]):.1e}")
    check("persistent=False" in text and ".reshape(-1, 1, 1)" in text,
          "statistics by channel are buffers that the state_dict lacks")
    net.train()
    before, x = net.bn.running_mean.clone(), torch.from_numpy(img[:6].transpose(0, 3, 1, 2).copy())
    batch = net.c((x - net.x_mean) / net.x_deviation).mean((0, 2, 3)).detach()
    loss = ((net(x) - torch.from_numpy(lab[:6])) ** 2).mean()
    loss.backward()
    check(torch.allclose(net.bn.running_mean, 0.9 * before + 0.1 * batch, rtol=1e-4, atol=1e-6)
          and net.fc.weight.grad.abs().sum() > 0 and
          all(p.grad is not None for p in net.parameters()), "it trains on: gradients, and the norm's running mean")

    gaps = img[..., 0].copy()
    gaps[::3, 1, 2] = np.nan
    for how in ("", "normalize: minmax, "):
        run = train("gaps" + how[:4], """
model Gaps():
    input x: f32[N, H=4, W=8]
    target t: f32[N, H, W]
    target s: f32[N, W]
    y = x * 0.5 |> linear(8) @a
    z = mean(y, over=H)
    output y
    output z
    whole = sum(y, over=N)
    output whole
    loss = mse_loss(y, t) + mse_loss(z, s)
""", f"{{inputs: {{x: {{file: gaps{how[:4]}.h5, array: x, {how}nan: -0.5}}}}, targets: {{t: {{file: gaps{how[:4]}.h5, "
        f"array: t, normalize: standardize}}, "
                    f"s: {{file: gaps{how[:4]}.h5, array: s, normalize: minmax}}}}, split: {{valid: 0.25}}}}", x=gaps,
                    t=img[..., 1], s=img[..., 2].mean(1))
        want = predicted("gaps", run, f"gaps{how[:4]}.h5:x")
        export(run)
        net, text = loaded(place / "net")
        got = call(net, {"x": torch.from_numpy(gaps)})
        far = distance(got[:2], [want["y"], want["z"]])
        check(far < 1e-5, f"values that are not finite, and two targets {how}: {far:.1e}")
        whole = torch.stack([call(net, {"x": torch.from_numpy(gaps[i:i + 1])})[2] for i in range(3)])
        far = max(distance([whole], [want["whole"][:3]]), distance([want["whole"]], [want["y"]]))
        check(far < 1e-5, f"an output without samples, of each by itself {how}: {far:.1e}")

if "faults" in parts:
    for name in ("Random", "Torch"):  # a program in the folder imports modules of these names
        named = model(f"model {name}():\n    input x: f32[N, E=3]\n    target t: f32[N, E=3]\n"
                      "    y = x |> linear(3) @a\n    output y\n    loss = mse_loss(y, t)\n", "named.dl")
        Net(place, named).random_weights(place / "named.safetensors")
        export(place / "named.safetensors", f"--model={named}")
        source = next((place / "net").glob("*.py"))
        program = f"from {source.stem} import {name}; print(list({name}().state_dict()))"
        r = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=place / "net",
                           stdin=subprocess.DEVNULL)
        check(r.stdout == "['a.weight', 'a.bias']\n", f"a network of the name {name}: {r.stdout} {r.stderr[-300:]}")
    small = model("""
model Net(c=4):
    input x: f32[N, C=1, W=7]
    target t: f32[N, C=1, W]
    y = x |> conv(c, 3, pad=1) @a |> relu |> conv(1, 3, pad=1) @b
    output y
    loss = mse_loss(y, t)
""", "net.dl")
    Net(place, small).random_weights(place / "small.safetensors")
    check(export(place / "small.safetensors", f"--model={small}"), "a file of weights and a model are enough")
    weights = load_tensors(place / "net/net.safetensors")
    check(all(torch.equal(v, weights[k]) for k, v in load_tensors(place / "small.safetensors").items()),
          "the weights' bits")
    torch.save({k: v.transpose(0, -1).contiguous().transpose(0, -1) for k, v in weights.items()}, place / "small.pt")
    check(export(place / "small.pt", f"--model={small}") and
          all(torch.equal(v, weights[k]) for k, v in load_tensors(place / "net/net.safetensors").items()),
          "weights of PyTorch's file, in another order")
    taken = (place / "net/net.py").read_text()
    for what, out, says in (("a folder that is there", place / "net", "net.*exists|exists.*net|not empty"),
                            ("a parent that is not", place / "no/net", "no/net|/no"),
                            ("a file", small, "net.dl")):
        r = subprocess.run([DLC, "export", place / "small.safetensors", f"--model={small}", "-o", out, "--as=pytorch"],
                           capture_output=True, text=True,
                           env=place.env, cwd=place.dir)
        check(r.returncode in (2, 4) and re.search(says, r.stderr) and not list(place.dir.glob(".dlc-*")),
              f"{what}: {r.returncode} {r.stderr.strip()[-200:]}")
    check((place / "net/net.py").read_text() == taken and "model Net" in small.read_text(),
          "what was there is as it was")
    if os.geteuid():
        shut = place / "shut"
        shut.mkdir()
        shut.chmod(0o500)
        r = subprocess.run([DLC, "export", place / "small.safetensors", f"--model={small}", "-o", shut / "net",
                            "--as=pytorch"], capture_output=True,
                           text=True, env=place.env, cwd=place.dir)
        check(r.returncode == 4 and "shut" in r.stderr and not list(shut.iterdir()),
              f"a folder that cannot be written: {r.stderr.strip()[-200:]}")
    odd = model("""
model Odd():
    input x: f32[N, C=2, H=8, W=8]
    target t: f32[N, C=2, H=4, W=4]
    y = x |> conv(2, 1) @a |> max_pool(3, stride=2, pad=same, ceil_mode=true)
    output y
    loss = mean(y) + mean(t)
""", "odd.dl")
    Net(place, odd).random_weights(place / "odd.safetensors")
    export(place / "odd.safetensors", f"--model={odd}", status=3,
           says=r"odd.dl:5:\d+: error: PyTorch has no way to say 'max_pool'")
    export(place / "odd.safetensors", f"--model={small}", status=3, says=r"odd.safetensors.*(another model|b\.weight)")
finish()
