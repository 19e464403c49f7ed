#!/usr/bin/env python3
"""A run alone is enough to predict: the files that it was trained on, in their own order of axes, from any folder,
without the training data and the model's file. Next to PyTorch and numpy.

oracle_run_alone.py BUILD
"""
import io
import json
import os
import re
import shutil
import subprocess
import sys

from oracle_tools import Workplace, check, finish, load_tensors, np, relative, torch

try:
    import h5py
except ImportError as missing:
    print(f"SKIP: {missing} (scripts/install-packages test)")
    sys.exit(77)

from torch.nn import functional as F

place = Workplace(sys.argv[1])
DLRUN = place.program("dlrun")
random = np.random.default_rng(5)

MODEL = """
model Small():
    input  x: f32[N, C=2, H=6, W=8]
    target t: f32[N, C=2, H=6, W=8]
    y = x |> conv(4, 3, pad=1) @a |> tanh |> conv(2, 3, pad=1) @b
    output y
    loss = mse_loss(y, t)
"""


def predict(*args, status=0, says="", cwd=None, binary=False):
    r = subprocess.run([DLRUN, "predict", *map(str, args)], capture_output=True, env=place.env,
                       stdin=subprocess.DEVNULL, cwd=cwd or place.dir)
    text = (r.stderr if status or binary else r.stdout + r.stderr).decode(errors="replace")
    check(r.returncode == status and re.search(says, text),
          f"predict {args}: exit {r.returncode}, wanted {status}, /{says}/: {text[-400:]}")
    return r.stdout if binary else text


def near(what, got, want, bound=1e-5):
    error = relative(torch.from_numpy(np.asarray(got)), torch.as_tensor(want))
    check(got.shape == tuple(want.shape) and error < bound,
          f"{what}: {got.shape}, {error:.1e} from PyTorch (at most {bound:.0e})")


def train(name, data, model=MODEL, more=()):
    """A short run on `data`, a section of YAML; its directory and its weights."""
    (place.dir / name).mkdir()
    (place.dir / name / "small.dl").write_text(model)
    (place.dir / name / "small.yaml").write_text(f"base: {{local_batch_size: 4, num_epochs: 1, data: {data}}}\n")
    place.run("dlrun", place / name / "small.dl", f"--yaml_config={place / name}/small.yaml",
              f"--expdir={place / name}/r", *more)
    run = place.dir / name / "r/small-base/1GPU/00"
    return run, load_tensors(run / "checkpoints/best/model.safetensors")


def network(w, x):
    """The model in PyTorch, float64."""
    w = {k: v.double() for k, v in w.items()}
    h = torch.tanh(F.conv2d(torch.as_tensor(x).double(), w["a.weight"], w["a.bias"], padding=1))
    return F.conv2d(h, w["b.weight"], w["b.bias"], padding=1)


def statistics(a, part=24):
    """Of the training part's channels, as a column for [N, C, H, W]."""
    return tuple(f(a[:part].astype("f8"), (0, 2, 3)).reshape(1, -1, 1, 1) for f in (np.mean, np.std))


def standard(w, x, t, part=24):
    (mean, std), (of_t, by_t) = statistics(x, part), statistics(t, part)
    return network(w, (x - mean) / std) * by_t + of_t


def truth(w, x):
    return standard(w, x, fields["t"])


fields = {name: (random.standard_normal((32, 2, 6, 8)) * [[[3]], [[0.1]]] + [[[50]], [[-7]]]).astype("f4")
          for name in "xt"}
DATA = place / "d.h5"
with h5py.File(DATA, "w") as f:
    f["x"], f["t"] = fields["x"], fields["t"]
    f["last"] = np.moveaxis(fields["x"], 1, -1)                          # [N, H, W, C]
    f["odd"] = np.moveaxis(fields["x"], (0, 1, 2, 3), (3, 1, 0, 2))      # [H, C, W, N]
    f["many"] = np.concatenate([fields["x"][:, ::-1], fields["t"]], 1)   # channels 1, 0 are those of x
    f["flat"] = fields["x"][:, :, None]                                  # [N, C, 1, H, W]


def both(array, more="", of="t"):
    return (f"{{inputs: {{x: {{file: {DATA}, array: {array}, normalize: standardize{more}}}}}, "
            f"targets: {{t: {{file: {DATA}, array: {of}, normalize: standardize}}}}, split: {{valid: 0.25}}}}")


def test_orders():
    """Arrays in the order of axes that the section `data` said, and the channels that it took."""
    for name, array, more in [("last", "last", ", axes: [N, H, W, C]"), ("odd", "odd", ", axes: [H, C, W, N]"),
                              ("channels", "many", ", channels: [1, 0]"),
                              ("unit", "flat", ', axes: [N, C, "1", H, W]')]:
        run, w = train(name, both(array, more))
        predict(run, f"{DATA}:{array}", "-o", place / f"{name}.npy")
        near(f"{name}: {more}", np.load(place / f"{name}.npy"), truth(w, fields["x"]))
    predict(run, f"{DATA}:last", "-o", place / "no.npy", status=3,
            says="'last' does not fit.*with the axes that the run's data had")


def test_alone():
    """A copied run in another folder, without data, statistics and model."""
    run, w = train("alone", both("x"))
    away = place.dir / "away"
    away.mkdir()
    shutil.copytree(run, away / "run")
    np.save(away / "x.npy", fields["x"])
    predict(run, f"{DATA}:x", "-o", place / "here.npy")
    near("here", np.load(place / "here.npy"), truth(w, fields["x"]))
    gone = [(p, p.parent / f"gone-{p.name}")
            for p in [place.dir / "alone/small.dl", DATA, *place.dir.glob("d.h5*.statistics")]]
    for p, q in gone:
        p.rename(q)
    text = predict(away / "run", away / "x.npy", "-o", away / "y.npy", cwd="/")
    check("warning" not in text, f"nothing is warned of: {text}")
    check(np.array_equal(np.load(away / "y.npy"), np.load(place / "here.npy")),
          "the same bits from a copied run, without data and model")
    predict(away / "run/checkpoints/last", away / "x.npy", "-o", away / "z.npy", cwd=away)
    check((away / "z.npy").exists(), "a checkpoint by itself")
    for p, q in gone:
        q.rename(p)


def test_edited():
    """The checkpoint's text counts; a file that was edited since is mentioned, and used where it is asked for."""
    run, w = train("edited", both("x"))
    model = place.dir / "edited/small.dl"
    model.write_text(MODEL.replace("tanh", "relu"))
    predict(run, f"{DATA}:x", "-o", place / "edited.npy",
            says="is not what the checkpoint was trained with, and is not used")
    near("the model as it was trained", np.load(place / "edited.npy"), truth(w, fields["x"]))
    predict(run, f"{DATA}:x", "-o", place / "asked.npy", f"--model={model}")
    check(not np.allclose(np.load(place / "asked.npy"), np.load(place / "edited.npy")),
          "the remedy: --model takes the file")


def test_offsets_and_gaps():
    """Inputs at other times than the target, and values that the run replaces."""
    model = MODEL.replace("    target",
                          "    input  b: f32[N, C=2, H=6, W=8]\n    target").replace("= x |>", "= x + 2 * b |>")
    x = fields["x"].copy()
    x[3, 1, 2, 5] = np.nan
    with h5py.File(place / "gaps.h5", "w") as f:
        f["x"], f["t"] = x, fields["t"]
    gaps = place / "gaps.h5"
    entry = lambda array, more: f"{{file: {gaps}, array: {array}{more}}}"
    run, w = train("gaps",
                   f"{{inputs: {{x: {entry('x', ', offset: 1, nan: 0.5')}, b: {entry('x', ', offset: -1, nan: -2')}}}, "
                   f"targets: {{t: {entry('t', '')}}}, split: {{valid: 0.25}}}}", model)
    predict(run, f"x={gaps}:x", f"b={gaps}:x", "-o", place / "gaps.npy")
    got = np.load(place / "gaps.npy")
    near("each input at its own time, gaps replaced", got,
         network(w,
                 np.where(np.isnan(x[2:]), np.float32(0.5), x[2:]) +
                 2 * np.where(np.isnan(x[:-2]), np.float32(-2), x[:-2])))


def test_stdout():
    """-o - is .npy on standard output, into a pipe and into a file; nothing else is there."""
    run, _ = train("stdout", both("x"))
    predict(run, f"{DATA}:x", "-o", place / "file.npy")
    piped = predict(run, f"{DATA}:x", "-o", "-", binary=True)
    check(np.array_equal(np.load(io.BytesIO(piped)), np.load(place / "file.npy")), "a pipe gets the file's bytes")
    with open(place / "redirected.npy", "wb") as f:
        subprocess.run([DLRUN, "predict", run, f"{DATA}:x", "-o", "-"], stdout=f, env=place.env,
                       stdin=subprocess.DEVNULL, check=True)
    check(np.array_equal(np.load(place / "redirected.npy"), np.load(place / "file.npy")), "so does a file")
    predict(run, f"{DATA}:x", "-o", "-", "--json", status=2, says="name a file for --json")
    early = subprocess.run(f"{DLRUN} predict {run} {DATA}:x -o - | head -c 6", shell=True, capture_output=True,
                           env=place.env)
    check(early.stdout == b"\x93NUMPY", "a reader may leave early")


def test_several():
    """Inputs that share some axes, in a channels-last model: a field and its grid, which is one array for all
    samples."""
    model = """
model Grid():
    input  x: f32[N, H=6, W=8, C=2]
    input  g: f32[N, H=6, W=8, G=2]
    input  w: f32[N, S=3]
    target t: f32[N, H=6, W=8, C=2]
    y = tanh(cat(x, g as [N, H, W, C], over=C) |> linear(5) @a) |> linear(2) @b
    output y
    loss = mean((y - t)**2) * mean(w)
"""
    grid = random.standard_normal((6, 8, 2)).astype("f4")
    with h5py.File(place / "grid.h5", "w") as f:
        f["x"], f["t"], f["g"], f["w"] = np.moveaxis(fields["x"], 1, -1), np.moveaxis(fields["t"], 1,
                                                                                      -1), grid, np.ones((32, 3), "f4")
    data = place / "grid.h5"
    source = lambda array, more="": f"{{file: {data}, array: {array}{more}}}"
    run, w = train("grid",
                   f"{{inputs: {{x: {source('x', ', normalize: standardize')}, g: {source('g', ', axes: [H, W, G]')}, "
                   f"w: {source('w')}}}, "
                   f"targets: {{t: {source('t')}}}, split: {{valid: 0.25}}}}", model)
    predict(run, f"x={data}:x", f"g={data}:g", "-o", place / "grid.npy")
    (mean, std), w = statistics(fields["x"]), {k: v.double().numpy() for k, v in w.items()}
    x = np.moveaxis((fields["x"] - mean) / std, 1, -1)
    h = np.tanh(np.concatenate([x, np.broadcast_to(grid, x.shape)], -1) @ w["a.weight"].T + w["a.bias"])
    near("a field and its grid; what the loss alone reads is not asked for", np.load(place / "grid.npy"),
         h @ w["b.weight"].T + w["b.bias"])
    predict(run, f"x={data}:x", "-o", place / "no.npy", status=2, says="the input 'g' has 0 files")


def test_without_samples():
    """Outputs whose type has no N, of each sample by itself: as if N came first, in pieces and in errors, too."""
    model = """
model Small():
    input  x: f32[N, C=2, H=6, W=8]
    target t: f32[N, C=2, H=6, W=8]
    y = x |> conv(2, 3, pad=1) @a
    total = sum(y)
    q = sum(y, over=[N])
    rows = mean(y, over=[N, C])
    output q
    output rows undo none
    output total undo none
    loss = mse_loss(y, t)
"""
    run, w = train("whole", both("x"), model)
    out = predict(run, f"{DATA}:x", "-o", place / "whole.h5", "--metrics", "--json", f"--target={DATA}:t")
    (mean, std), (of_t, by_t) = statistics(fields["x"]), statistics(fields["t"])
    y = F.conv2d(torch.from_numpy((fields["x"] - mean) / std), w["a.weight"].double(), w["a.bias"].double(),
                 padding=1).numpy()
    with h5py.File(place / "whole.h5") as f:
        near("an output of the target's shape and statistics", f["q"][()], y * by_t + of_t)
        near("an output of two axes", f["rows"][()], y.mean(1))
        near("a number", f["total"][()], y.sum((1, 2, 3)), 1e-4)
    rmse = np.sqrt(((y * by_t + of_t - fields["t"])**2).mean((0, 2, 3)))
    check(np.allclose(json.loads(out)["rmse"], rmse, rtol=1e-4), f"errors by channel: {out} {rmse}")
    large = (random.standard_normal((3, 2, 12, 20)) + 5).astype("f4")
    np.save(place / "large.npy", large)
    predict(run, place / "large.npy", "-o", place / "no.h5", "--tiles=exact", status=3, says="'total' is f32.*size")


def test_forced_rollout():
    """A rollout whose state is one of the inputs: another is read at each step's own time. The target has other
    statistics than the input, so that each step's output is undone by the ones and normalised by the others."""
    model = """
model Forced():
    input  f: f32[N, L=16]
    input  x: f32[N, C=2, L=16]
    target t: f32[N, C=2, L=16]
    z = x |> conv(2, 3, pad=1) @a
    y = z + f
    output y
    output z
    loss = mean((y - t)**2)
"""
    u = (random.standard_normal((20, 2, 16)) * [[3], [0.1]] + [[50], [-7]]).astype("f4")
    force = random.standard_normal((20, 16)).astype("f4")
    with h5py.File(place / "forced.h5", "w") as f:
        f["u"], f["f"] = u, force
    data = place / "forced.h5"
    source = lambda array, more="": f"{{file: {data}, array: {array}{more}}}"
    run, w = train("forced", f"{{inputs: {{x: {source('u', ', normalize: standardize')}, f: {source('f')}}}, "
                   f"targets: {{t: {source('u', ', mean: [48, -7.2], std: [2.5, 0.3], offset: 2')}}}, "
                   "split: {valid: 0.3}}", model)
    args = (run, f"x={data}:u", f"f={data}:f", "--rollout=3", "--samples=0:16")
    out = predict(*args, "-o", place / "forced.h5.out.h5", "--metrics", "--json")
    with h5py.File(place / "forced.h5.out.h5") as f:
        got = f["y"][()]
    part = u[:12].astype("f8")  # of the first 70%, less those without a target
    m, s = part.mean((0, 2))[:, None], part.std((0, 2))[:, None]
    w, x, worst = {k: v.double() for k, v in w.items()}, u[:16].astype("f8"), 0
    for step in range(3):
        x = F.conv1d(torch.from_numpy((x - m) / s), w["a.weight"], w["a.bias"],
                     padding=1).numpy() + force[2 * step:16 + 2 * step, None]
        x = x * [[2.5], [0.3]] + [[48], [-7.2]]
        worst = np.maximum(worst, np.abs((got[:, step] - x) / s).max())
    check(worst < 1e-4, f"three steps, forced at each: {worst:.1e}")
    check('"rmse"' in out, "the truth is the state's own array, 2 samples later")
    predict(*args[:-1], "--samples=0:17", "-o", place / "no.h5", status=3,
            says="takes sample 20 of the input 'f'.*--samples=0:16")


def validation(run):
    """The last point's values of validation, by tag."""
    return json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])


def test_metrics():
    """--metrics has the model's own loss and metrics: those of the run's validation on the same samples."""
    model = """
model Two():
    input  x: f32[N, C=2, L=8]
    input  w: f32[N, S=1]
    target k: i64[N]
    target t: f32[N, C=2, L=8]
    z = x |> conv(2, 3, pad=1) @a
    output z
    logits = mean(x |> conv(3, 3, pad=1) @b, over=L) as [N, K]
    output logits
    metric accuracy = mean(in_top_k(logits, k, 1))
    loss = cross_entropy(logits, k, over=K) + mean((z - t)**2 * (sum(w, over=S)))
"""
    x, w, k = (random.standard_normal(n).astype("f4") for n in ((40, 2, 8), (40, 1), 40))
    with h5py.File(place / "two.h5", "w") as f:
        f["x"], f["w"], f["k"], f["t"] = x, w**2, (np.abs(k) * 2).astype("i8") % 3, x * 3 + 7
    data = place / "two.h5"
    source = lambda array, more="": f"{{file: {data}, array: {array}{more}}}"
    run, weights = train("two",
                         f"{{inputs: {{x: {source('x', ', normalize: standardize')}, w: {source('w')}}}, targets: {{k: "
                         f"{source('k')}, "
                   f"t: {source('t', ', normalize: standardize')}}}, split: {{valid: 0.2}}}}", model)
    args = (run, f"x={data}:x", f"w={data}:w", "--checkpoint=last", "--samples=32:40", "--json", "-o",
            place / "two_out.h5", "--metrics")
    got, want = json.loads(predict(*args, f"--target=t={data}:t,k={data}:k").splitlines()[0]), validation(run)
    for name, value in (("loss", got["loss"]), ("accuracy", got["metrics"]["accuracy"])):
        near_value = [v for tag, v in want.items() if tag.lower().startswith(name) and tag.endswith("/valid")]
        check(near_value and abs(value - near_value[0]) < 1e-5 * max(1, abs(value)),
              f"{name}: {value}, in validation {near_value} of {want}")
    check(len(got["rmse"]) == 2, "errors by channel, too")
    with h5py.File(place / "two_out.h5") as f:
        z, logits = f["z"][()], f["logits"][()]
    w = {key: value.double() for key, value in weights.items()}
    a = torch.from_numpy((x - x[:32].mean((0, 2), keepdims=True)) / x[:32].std((0, 2), keepdims=True)).double()
    near("logits, which have no target's shape, as they are", logits,
         F.conv1d(a, w["b.weight"], w["b.bias"], padding=1).mean(2)[32:])
    near("z by the statistics of t", z,
         (F.conv1d(a, w["a.weight"], w["a.bias"], padding=1) * (3 * x[:32]).std((0, 2), keepdims=True)
                                         + (3 * x[:32] + 7).mean((0, 2), keepdims=True))[32:])
    text = predict(*[a for a in args if a != "--json"], f"--target=t={data}:t")
    check("the model's own metrics are left out: no data is named for the target 'k': --target=k=FILE" in text,
          f"what is missing is said: {text}")
    predict(run, f"x={data}:x", "-o", place / "no.h5", "--metrics", f"--target=k={data}:k", status=2,
            says="names no data of the output 'z'")
    check(not (place.dir / "no.h5").exists(), "nothing is left of what failed")


def test_undo():
    """`output y undo t`: by the statistics of the target that the model names, in predictions and exports; `undo none`:
    by none."""
    model = """
model Undo():
    input  x: f32[N, C=2, H=6, W=8]
    target t: f32[N, C=2, H=6, W=8]
    target u: f32[N, C=2, H=6, W=8]
    h = x |> conv(4, 3, pad=1) @a |> tanh
    p = h |> conv(2, 1) @b
    q = h |> conv(2, 1) @c
    low = mean(p, over=H)
    spread = exp(q)
    output q undo u
    output p undo t
    output low undo t
    output spread undo none
    loss = mse_loss(p, t) + mse_loss(q, u)
"""
    u = (fields["x"][::-1] * 3 - 2).copy()
    with h5py.File(place / "undo.h5", "w") as f:
        f["x"], f["t"], f["u"] = fields["x"], fields["t"], u
    data = place / "undo.h5"
    source = lambda array: f"{{file: {data}, array: {array}, normalize: standardize}}"
    run, w = train("undo",
                   f"{{inputs: {{x: {source('x')}}}, targets: {{t: {source('t')}, u: {source('u')}}}, split: {{valid: "
                   f"0.25}}}}", model)
    text = predict(run, f"{data}:x", "-o", place / "undo_out.h5")
    check("warning" not in text, f"nothing is warned of: {text}")
    (mean, std), (of_t, by_t), (of_u, by_u) = (statistics(a) for a in (fields["x"], fields["t"], u))
    w = {k: v.double() for k, v in w.items()}
    h = torch.tanh(F.conv2d(torch.from_numpy((fields["x"] - mean) / std), w["a.weight"], w["a.bias"], padding=1))
    p, q = (F.conv2d(h, w[f"{k}.weight"], w[f"{k}.bias"]) for k in "bc")
    want = {"q": q * by_u + of_u, "p": p * by_t + of_t, "low": (p * by_t + of_t).mean(2), "spread": torch.exp(q)}
    with h5py.File(place / "undo_out.h5") as f:
        for name, values in want.items():
            near(f"{name} in predict", f[name][()], values)
    place.run("dlc", "export", run, "-o", place / "undo_torch", "--as=pytorch")
    code = ("import sys, numpy, torch; sys.path.insert(0, sys.argv[1]); import undo; net = undo.Undo(); "
            "net.load_state_dict(torch.load(sys.argv[2])); out = "
            "net.eval()(torch.from_numpy(numpy.load(sys.argv[3]))); "
            "numpy.savez(sys.argv[4], *[o.detach().numpy() for o in out])")
    torch.save(load_tensors(place / "undo_torch/undo.safetensors"), place / "undo.pt")
    np.save(place / "undo_x.npy", fields["x"])
    r = subprocess.run([sys.executable, "-c", code, place / "undo_torch", place / "undo.pt", place / "undo_x.npy",
                        place / "undo_y.npz"],
                       capture_output=True, text=True)
    if check(r.returncode == 0, f"the exported module runs: {r.stderr[-400:]}"):
        for got, (name, values) in zip(np.load(place / "undo_y.npz").values(), want.items()):
            near(f"{name} of the exported module", got, values)
    silent = place.dir / "undo/silent.dl"
    silent.write_text(re.sub(" undo .*", "", model))
    text = predict(run, f"{data}:x", "-o", place / "no.h5", f"--model={silent}", status=3,
                   says="3 outputs and 2 targets have the shape of the output 'q'.*the model can say `output q undo t`")
    silent.write_text(re.sub(" undo .*", "", model).replace("output q",
                                                            "output q undo t").replace("output spread",
                                                                                       "output spread undo none"))
    predict(run, f"{data}:x", "-o", place / "said.h5", f"--model={silent}",
            says="the output 'low' has the name and the shape of no target")
    with h5py.File(place / "said.h5") as f:
        near("the remedy: q by the statistics of t", f["q"][()], q * by_t + of_t)
        near("p by those that are left", f["p"][()], p * by_u + of_u)


for test in (test_orders, test_alone, test_edited, test_offsets_and_gaps, test_stdout, test_several,
             test_without_samples, test_forced_rollout, test_metrics, test_undo):
    test()
finish()
