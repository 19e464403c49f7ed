#!/usr/bin/env python3
"""Networks exported to ONNX: onnx's checker takes them, and ONNX Runtime computes what `dlrun predict` does.

oracle_onnx.py BUILD     needs scripts/install-oracle onnx; SKIP (77) without it

Every model has random weights, so that no part of it is without effect. Each file is run with several batches.
"""
import json
import math
import os
import pathlib
import re
import struct
import subprocess
import sys

PYTHON = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "dlc-onnx/bin/python"
try:
    import h5py
    import numpy as np
    import onnx
    import onnxruntime
except ImportError as missing:
    if PYTHON.exists() and pathlib.Path(sys.prefix) != PYTHON.parent.parent:
        os.execv(PYTHON, [str(PYTHON), *sys.argv])
    print(f"SKIP: {missing} (scripts/install-oracle onnx)")
    sys.exit(77)

from checks import DRAW, ENV, SHARE, TMP, check, finish, takes, write_safetensors
from onnx_models import LAYERS, MODELS, OPS

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv[1]).resolve()
DLC, DLRUN = (BUILD / "cli" / name for name in ("dlc", "dlrun"))
DTYPES = {"f32": ("F32", "<f4"), "f64": ("F64", "<f8"), "i64": ("I64", "<i8"), "i32": ("I32", "<i4"),
          "bool": ("BOOL", "?")}
OF_ONNX = {"tensor(float)": "f4", "tensor(double)": "f8", "tensor(int64)": "i8", "tensor(int32)": "i4",
           "tensor(bool)": "?"}
rng = np.random.default_rng(5)


def run(*args, **env):
    return subprocess.run([*map(str, args)], capture_output=True, text=True, env={**ENV, "NO_COLOR": "1", **env},
                          stdin=subprocess.DEVNULL,
                          cwd=ROOT)


def write(name, text):
    path = f"{TMP}/{name}"
    with open(path, "w") as f:
        f.write(text)
    return path


def save(path, tensors):
    write_safetensors(path, {name: (DTYPES[dtype][0], value.shape, value.astype(DTYPES[dtype][1]).tobytes())
                             for name, (dtype, value) in tensors.items()})
    return path


def tensors_of(model, *args):
    """A model's parameters and buffers with random elements: {name: (type, array)}."""
    r = run(DLC, "compile", model, "--dump=ir", *args)
    if not check(r.returncode == 0, f"{model}: {r.stderr[-600:]}"):
        finish()
    found = {}
    declared = r"^ *(?:param|state) \$(\S+)(?: by \S+)? = %\d+ : (\w+)\[(.*?)\](.*)$"
    for name, dtype, axes, rest in re.findall(declared, re.sub(r"(?ms)^body @.*?^}", "", r.stdout), re.M):
        if " of " in rest or name in ("optimizer.step", "random.step"):
            continue
        shape = [int(a.split("=")[-1]) for a in axes.split(",") if a.strip()]
        scale = np.prod(shape[1:]) ** -0.5 if len(shape) > 1 else 0.5
        found[name] = (dtype,
                       rng.uniform(0.5, 1.5, shape) if name.endswith("_var") else scale * rng.standard_normal(shape))
    return found


def export(source, out, *args, **env):
    """What `dlc export` writes on standard error; None: it failed."""
    r = run(DLC, "export", source, "-o", out, "--as=onnx", *args, **env)
    return r.stderr if check(r.returncode == 0,
                             f"export {source} {args}: exit {r.returncode}: {r.stderr[-600:]}") else None


def open_onnx(path):
    """A session, after onnx's own checks of the file and of each shape in it."""
    try:
        onnx.checker.check_model(path, full_check=True)
        return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    except Exception as fault:  # each of the two packages has its own
        check(False, f"{path}: {fault}")
        return None


def feeds_of(session, batch, scale=1.0):
    feeds = {}
    for i in session.get_inputs():
        shape = [batch if d == "N" else d for d in i.shape]
        whole = OF_ONNX[i.type][0] in "i?"
        feeds[i.name] = (rng.integers(0, 4, shape) if whole
                         else scale * rng.standard_normal(shape)).astype(OF_ONNX[i.type])
    return feeds


def predicted(source, feeds, outputs, *args):
    """What `dlrun predict` makes of the same numbers, by output; None: it failed."""
    for name, x in feeds.items():
        np.save(f"{TMP}/{name}.npy", x)
    files = [f"{TMP}/{n}.npy" if len(feeds) == 1 else f"{n}={TMP}/{n}.npy" for n in feeds]
    out = f"{TMP}/predicted.{'npy' if len(outputs) == 1 else 'h5'}"
    r = run(DLRUN, "predict", source, *files, "-o", out, "--threads=1", *args)
    if not check(r.returncode == 0, f"predict {source} {args}: {r.stderr[-600:]}"):
        return None
    if len(outputs) == 1:
        return {outputs[0]: np.load(out)}
    with h5py.File(out) as f:
        return {name: f[name][...] for name in outputs}


def same(what, got, want, bound=1e-5):
    """Within `bound` of the largest number, and NaN and infinities at the same places."""
    got, want = got.astype("f8"), want.astype("f8")
    if not check(got.shape == want.shape and (np.isfinite(got) == np.isfinite(want)).all(),
                 f"{what}: {got.shape}, {want.shape}"):
        return
    fine = np.isfinite(want)
    worst = np.abs(got[fine] - want[fine]).max(initial=0) / (np.abs(want[fine]).max(initial=0) or 1)
    check(worst <= bound, f"{what}: {worst:.1e} of the largest number")


def compare(what, source, *args, batches=(1, 3), scale=1.0, says=None, bound=1e-5, further=()):
    """Exports, with further arguments, and compares ONNX Runtime with predict. Returns the file."""
    path = f"{TMP}/{re.sub('[^a-z0-9_]', '_', what.lower())}.onnx"
    said = export(source, path, *args, *further)
    session = open_onnx(path) if said is not None else None
    if not session:
        return path
    check(re.search(says, said) if says else not said, f"{what}: export says {said!r}, wanted {says}")
    outputs = [o.name for o in session.get_outputs()]
    for batch in batches:
        feeds = feeds_of(session, batch, scale)
        want, got = predicted(source, feeds, outputs, *args), session.run(outputs, feeds)
        for name, y in zip(outputs, got if want else ()):
            same(f"{what}, batch {batch}, {name}", y, want[name], bound)
    return path


def with_weights(name, model, *args, **more):
    weights = save(f"{TMP}/{name}.safetensors", tensors_of(model, *args, *more.get("further", ())))
    return compare(name, weights, f"--model={model}", *args, **more)


# ---- models: those of models/, of the tests and of the cookbook; each op with its variants ----

for i, (name, args) in enumerate(MODELS.items()):
    with_weights(name, ROOT / "models" / args[0], *args[1:])
for i, (name, (head, lines)) in enumerate(OPS.items()):
    body = "".join(f"    {line}\n    output {line.split(' = ')[0]}\n" for line in lines)
    text = (f"model Ops():\n    input x: {head}\n    target t: f32[N]\n    param v: [C=4] ~ normal(0, 1)\n"
            f"{body}    loss = mean(v)**2 + mean(t)\n")
    with_weights(name, write(f"{name}.dl", text))
for i, (name, text) in enumerate(LAYERS.items()):
    with_weights(name, write(f"{name}.dl", text))
with_weights("cells", "tests/data/layers/cells.dl")
pages = "".join(page.read_text() for page in sorted((ROOT / "docs/reference").glob("cookbook*.md")))
recipes = re.findall(r"```dl file=(\S+)\.dl[^\n]*\n(.*?)```", pages, re.S)
for i, (name, text) in enumerate(recipes):
    if takes(i):  # norms of a batch: predict has one sample at a time
        with_weights(f"recipe_{name}", write(f"{name}.dl", text), batches=(1,) if name == "norms" else (1, 3))

imported = sorted((ROOT / "tests/data/import").glob("*.dl"))
for path in [p for i, p in enumerate(imported) if takes(i)]:
    with_weights(f"import_{path.stem}", str(path), further=["--local_batch_size=2"])  # for a batch norm of vectors
# Random models (tests/tools/layers.h), some of which mix samples and are badly conditioned: one sample, and 1e-4. ONNX
# Runtime has positions of linear resizing in float32: off by 2^-24 of a long axis' length, twice that of differences.
for seed in range(DRAW % 10**6, DRAW % 10**6 + (30 if SHARE == 1 else 2)):
    text = run(BUILD / "tests/layer_fuzz", f"--print={seed}").stdout
    longest = max(map(int, re.findall(r"\b[A-Z]=(\d+)", text)), default=0) if '"linear"' in text else 0
    with_weights(f"random_{seed}", write(f"random_{seed}.dl", re.sub(r"N=\d+", "N", text)), batches=(1,),
                 bound=1e-4 + longest * 2**-23)

# ---- names, types, shapes ----

small = "tests/data/small.dl"
tensors = small_tensors = tensors_of(small, "--data_size=8")
weights = save(f"{TMP}/small.safetensors", tensors)
path = compare("small", weights, f"--model={small}", "--data_size=8")
graph = onnx.load(path).graph
check([i.name for i in graph.input] == ["x"] and [o.name for o in graph.output] == ["y"], "names of inputs and outputs")
dims = [d.dim_param or d.dim_value for d in graph.input[0].type.tensor_type.shape.dim]
check(dims == ["N", 4, 8, 8, 8], f"the input is {dims}")
held = {t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer}
check(all(n in held and np.array_equal(held[n], v.astype("f4")) for n, (_, v) in tensors.items()),
      f"parameters by name: {sorted(held)}")
check(any(n.doc_string == f"{small}:6:14" for n in graph.node if n.op_type == "Conv"), "a node names its line")
both = {n: ("f64", v) for n, (_, v) in tensors.items()}  # as another program may have stored them
compare("widened", save(f"{TMP}/wide.safetensors", both), f"--model={small}", "--data_size=8", batches=(1,))

# ---- batches ----

BATCH = """model Batch():
    input x: f32[N, C=4]
    target t: f32[N, C=4]
    param v: [C=4] ~ normal(0, 1)
    h = {h}
    output h
    loss = mean((h + v - t)**2)
"""
DEPENDS = (r"has a fixed batch, N=2: '\w+' \(\S*batch\d\.dl:5\) depends on the batch's size; --local_batch_size sets "
           r"it\n$")
FIXED = ["roll(x * v, 1, over=N)", "x[N=N-1:] * v |> rearrange(\"n c -> c n\") as [C, M]",
         "x * v + mean(x[N=0:N // 2])",
         "x * v * (N / 3)", "x * v + mean(cat(x, x[N=0:1], over=N), over=N)",
         "gather(x * v, argmax(x, over=N) as [C], over=N)"]
for i, h in enumerate(FIXED):
    model = write(f"batch{i}.dl", BATCH.format(h=h))
    save(f"{TMP}/batch{i}.safetensors", tensors_of(model))
    said = export(f"{TMP}/batch{i}.safetensors", f"{TMP}/batch{i}.onnx", f"--model={model}", "--local_batch_size=2")
    check(said and re.search(DEPENDS, said), f"{h}: {said}")
    session = open_onnx(f"{TMP}/batch{i}.onnx")
    check(session and session.get_inputs()[0].shape == [2, 4], f"{h}: the batch is fixed")
    if session:
        session.run(None, feeds_of(session, 2))
pair = write("pair.dl", """model Pair():
    input a: f32[N, C=4]
    input b: f32[N, C=4]
    target t: f32[N, C=4]
    param v: [C=4] ~ normal(0, 1)
    e = cat(a, b, over=N) * v
    y = e[N=0:N] - e[N=N:]**2
    output y
    loss = mean((y - t)**2)
""")
with_weights("pair", pair)
two = write("two.dl",
            "model Two():\n    input x: f32[N=2, C=4]\n    target t: f32[N=2, C=4]\n    y = x |> linear(4) @a\n"
            "    output y\n"
            "    loss = mse_loss(y, t)\n")
tensors = tensors_of(two, "--local_batch_size=2")
save(f"{TMP}/two.safetensors", tensors)
said = export(f"{TMP}/two.safetensors", f"{TMP}/two.onnx", f"--model={two}", "--local_batch_size=2")
check(said and said.endswith("fixed batch, N=2: the model has no other batch\n"), f"{said}")
session = open_onnx(f"{TMP}/two.onnx")
if session:
    feeds = feeds_of(session, 2)
    same("a model of two samples", session.run(None, feeds)[0],
         feeds["x"] @ tensors["a.weight"][1].T + tensors["a.bias"][1])

# An output of an input's name, and one whose size is a multiple of N.
flat = write("flat.dl", """model Flat():
    input x: f32[N, C=4]
    target t: f32[N, C=4]
    param v: [C=4] ~ normal(0, 1)
    output x
    m = x * v |> rearrange("n c -> (n c)") as [M]
    output m
    loss = mean((x * v - t)**2)
""")
tensors = tensors_of(flat)
said = export(save(f"{TMP}/flat.safetensors", tensors), f"{TMP}/flat.onnx", f"--model={flat}")
session = open_onnx(f"{TMP}/flat.onnx")
if session:
    outputs, feeds = {o.name: o.shape for o in session.get_outputs()}, feeds_of(session, 3)
    check(said == "" and outputs == {"x_out": ["N", 4], "m": ["4*N"]}, f"{outputs} {said}")
    got = session.run(["x_out", "m"], feeds)
    same("an output that is an input", got[0], feeds["x"], 0)
    same("samples in a row", got[1], (feeds["x"] * tensors["v"][1]).ravel())

# ---- statistics of the run's data ----

x = (280 + 5 * rng.standard_normal((24, 6, 5, 3))).astype("f4") * np.array([1, 0.1, 10], "f4")
x[rng.random(x.shape) < 0.05] = np.nan
np.save(f"{TMP}/field.npy", x)
np.save(f"{TMP}/gas.npy", (40 - 7 * rng.standard_normal((24, 2, 6, 5))).astype("f4"))
scaled = write("scaled.dl", """model Scaled():
    input  x: f32[N, C=2, H=6, W=5]
    target t: f32[N, C=2, H, W]
    y = x |> conv(4, 3, pad=1) @a |> gelu |> conv(2, 1) @b
    output y
    whole = sum(y, over=N)
    output whole
    loss = mse_loss(y, t)
""")
config = write(
    "scaled.yaml", f"""base:
  local_batch_size: 4
  num_epochs: 1
  expdir: {TMP}/scaled
  data:
    inputs: {{x: {{file: {TMP}/field.npy, axes: [N, H, W, C], channels: [2, 0], nan: -0.5, mean: [2800, 280], \
        std: [50, 5]}}}}
    targets: {{t: {{file: {TMP}/gas.npy, normalize: minmax}}}}
    split: {{valid: 0.25}}
""")


def scaled_by_numpy(source, raw):
    """Scaled()'s outputs in the target's units: statistics and layers in float64, weights of the run."""
    w = {}
    with open(source / "checkpoints/last/model.safetensors", "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        at = f.tell()
        for name in ("a.weight", "a.bias", "b.weight", "b.bias"):
            f.seek(at + header[name]["data_offsets"][0])
            shape = header[name]["shape"]
            w[name] = np.frombuffer(f.read(4 * int(np.prod(shape))), "<f4").reshape(shape).astype("f8")
    statistics = np.array([[2800, 280], [50, 5]]).reshape(2, 1, 2, 1, 1)
    v = np.nan_to_num((raw - statistics[0]) / statistics[1], nan=-0.5)
    v = np.lib.stride_tricks.sliding_window_view(np.pad(v, ((0, 0), (0, 0), (1, 1), (1, 1))), (3, 3), (2, 3))
    v = np.einsum("nchwij,ocij->nohw", v, w["a.weight"]) + w["a.bias"][:, None, None]
    v = v / 2 * (1 + np.vectorize(math.erf)(v / 2**0.5))
    v = np.einsum("nchw,oc->nohw", v, w["b.weight"].reshape(2, 4)) + w["b.bias"][:, None, None]
    gas = np.load(f"{TMP}/gas.npy")[:18].astype("f8")  # the training part
    low, high = (f(gas, axis=(0, 2, 3), keepdims=True) for f in (np.min, np.max))
    return low + (high - low) * v


r = run(DLRUN, scaled, f"--yaml_config={config}", "--threads=1")
if check(r.returncode == 0, r.stderr[-600:]):
    source = next(pathlib.Path(f"{TMP}/scaled").rglob("checkpoints")).parent
    said, out = export(source, f"{TMP}/scaled.onnx"), f"{TMP}/scaled.h5"
    session = open_onnx(f"{TMP}/scaled.onnx") if said == "" else check(False, f"export of a run says {said}")
    r = run(DLRUN, "predict", source, f"{TMP}/field.npy", "-o", out, "--threads=1")
    if session and check(r.returncode == 0, r.stderr[-600:]):
        raw = np.ascontiguousarray(np.moveaxis(x[..., [2, 0]], 3, 1))
        with h5py.File(out) as f:
            want, whole = f["y"][...], f["whole"][...]
        same("the target's statistics undone, as NumPy does it", scaled_by_numpy(source, raw), want)
        same("numbers of the files in, in the target's units out", session.run(None, {"x": raw})[0], want)
        same("an output without samples, of each by itself",
             np.stack([session.run(None, {"x": raw[i:i + 1]})[1] for i in range(3)]), want[:3])
        same("so predicted", whole, want)

half = write("half.dl", """model Half():
    input  x: f16[N, C=2, H=6, W=5]
    target t: f32[N, C=2, H, W]
    y = x as f32 |> conv(2, 3, pad=1) @a
    output y
    loss = mse_loss(y, t)
""")
args = [f"--model={half}", f"--yaml_config={config}"]
save(f"{TMP}/half.safetensors", tensors_of(half))
if export(f"{TMP}/half.safetensors", f"{TMP}/half.onnx", *args) is not None:
    r = run(DLRUN, "predict", f"{TMP}/half.safetensors", f"{TMP}/field.npy", "-o", f"{TMP}/half.npy", "--threads=1",
            *args)
    session = open_onnx(f"{TMP}/half.onnx")
    if session and check(r.returncode == 0, r.stderr[-600:]):
        check(session.get_inputs()[0].type == "tensor(float)", "raw numbers are f32 where the model's are f16")
        same("16 bits", session.run(None, {"x": np.ascontiguousarray(np.moveaxis(x[..., [2, 0]], 3, 1))})[0],
             np.load(f"{TMP}/half.npy"))

# ---- weights in a file of their own ----

# sizes that are no multiples of 64
args = ["--model=models/cnn_regressor.dl", "--hidden=7", "--depth=4", "--data_size=8"]
kept = save(f"{TMP}/kept.safetensors", tensors_of("models/cnn_regressor.dl", *args[1:]))
export(kept, f"{TMP}/whole.onnx", *args)
export(kept, f"{TMP}/apart.onnx", *args, DLR_DEBUG="onnx_data")
sizes = [os.path.getsize(f"{TMP}/{name}") for name in ("whole.onnx", "apart.onnx", "apart.onnx.data")]
check(sizes[1] < sizes[0] - 3000 and 3000 < sizes[2] < sizes[0], f"weights apart: {sizes}")
session = open_onnx(f"{TMP}/apart.onnx")
if session:
    feeds = feeds_of(session, 2)
    one = onnxruntime.InferenceSession(f"{TMP}/whole.onnx", providers=["CPUExecutionProvider"])
    check(np.array_equal(session.run(None, feeds)[0], one.run(None, feeds)[0]), "weights apart: the same numbers")


# ---- what is refused ----

def refused(status, says, source, out, *args):
    r = run(DLC, "export", source, "-o", out, "--as=onnx", *args)
    check(r.returncode == status and re.search(says, r.stderr),
          f"{args}: exit {r.returncode}, wanted {status} and /{says}/: {r.stderr[-300:]}")
    check(not os.path.exists(f"{TMP}/no.onnx"), f"{args}: a file is left")


some = save(f"{TMP}/some.safetensors", {n: v for n, v in small_tensors.items() if n != "up.bias"})
refused(3, r"some\.safetensors has no 'up\.bias' \(f32\[C=5\]\)", some, f"{TMP}/no.onnx", f"--model={small}",
        "--data_size=8")
refused(3, r"'down\.weight' is not f32\[O=6, C=4", weights, f"{TMP}/no.onnx", f"--model={small}", "--data_size=8",
        "--width=6")
refused(4, r"/none/no\.onnx", weights, f"{TMP}/none/no.onnx", f"--model={small}", "--data_size=8")
REFUSED = [  # ops that ONNX lacks: asked for by line 5
    ("conv_grad_weight", "f32[N, C=3, T=8]", "x * sum(grad(sum(conv(x, kernel=w)**2), w))"),
    ("recurrent", "f64[N, C=3, T=8]", "x |> lstm(3) @l"),
    ("recurrent", "f32[N, C=3, T=8]", "grad(sum(x |> gru(3) @l), x)"),
    ("fourier", "f32[N, C=3, T=12000]", "rfft(x, over=T)"),  # of too large a table
    ("recurrent", "f64[N, C=3, T=8, E=3]", "scan(lstm(3) @l, x, none, over=C)[0]"),  # within a body
]
for i, (op, head, y) in enumerate(REFUSED):
    model = write(f"refused{i}.dl", f"model Refused():\n    input x: {head}\n    target t: f32[N]\n"
                                    f"    param w: [O=2, C=3, k=3] ~ normal(0, 1)\n    y = {y}\n    output y\n"
                                    "    loss = mean(w**2) + mean(t)\n")
    save(f"{TMP}/refused{i}.safetensors", tensors_of(model))
    refused(3, rf"refused{i}\.dl:5:\d+: error: ONNX has no way to say '{op}'", f"{TMP}/refused{i}.safetensors",
            f"{TMP}/no.onnx", f"--model={model}")
refused(4, "directory", weights, TMP, f"--model={small}", "--data_size=8")
finish()
