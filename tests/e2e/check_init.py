"""`dlc init`: what it writes for a data file passes `dlc check`, trains, and learns.

check_init.py BUILD     from the project's root; needs numpy and h5py (77 without)
"""
import os
import re
import subprocess
import sys

from checks import ENV, TMP, check, finish

try:
    import h5py
    import numpy as np
except ImportError:
    sys.exit(77)

BIN = os.path.join(os.path.abspath(sys.argv[1]), "cli")
ENV["PATH"] = BIN + os.pathsep + ENV["PATH"]
rng = np.random.default_rng(7)


def run(command, folder):
    return subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True, env=ENV, timeout=300,
                          stdin=subprocess.DEVNULL)


def folder_with(name, **arrays):
    folder = os.path.join(TMP, name)
    os.makedirs(folder, exist_ok=True)
    with h5py.File(f"{folder}/d.h5", "w") as f:
        for key, values in arrays.items():
            f[key] = values
    return folder


def fields(n, *shape):
    return rng.standard_normal((n, *shape)).astype("f4")


def losses(out):
    return [float(x) for x in re.findall(r"Avg train loss=([\d.e+-]+)", out)]


x2, image = fields(80, 6), fields(40, 2, 16, 16)
label = rng.integers(0, 3, 80)
steps = np.cumsum(fields(60, 5), 0).astype("f4")
# name, arguments, arrays, a line of the model, a line of the configuration, the task that is found
CASES = [
    ("numbers", "--task=regression", dict(x=x2, t=np.stack([np.sin(x2[:, 0]), x2[:, 1]], 1)), "target t: f32[N, C=2]",
     "axes: [N, C], normalize", "regression"),
    ("one-number", "", dict(x=x2, t=x2[:, 0]), "target t: f32[N, C=1]", "axes: [N], normalize", "regression"),
    ("fields", "", dict(before=image, after=image[:, :1] * 2), "target t: f32[N, C=1, H=16, W=16]",
     "array: before, axes: [N, C, H, W]", "regression"),
    ("last", "", dict(x=np.moveaxis(image, 1, -1), t=image.mean((1, 2, 3))), "input x: f32[N, C=2, H=16, W=16]",
     "axes: [N, H, W, C]", "regression"),
    ("no-channels", "", dict(x=image[:, 0], y=image[:, 1]), "input x: f32[N, C=1, H=16, W=16]", "axes: [N, H, W]",
     "regression"),
    ("volumes", "", dict(x=fields(20, 8, 8, 8), t=fields(20, 3, 8, 8, 8)), "target t: f32[N, C=3, D=8, H=8, W=8]",
     "axes: [N, C, D, H, W]", "regression"),
    ("signals", "", dict(x=fields(40, 2, 64), t=fields(40, 2, 64)), "input x: f32[N, C=2, W=64]", "axes: [N, C, W]",
     "regression"),
    ("classes", "", dict(image=np.concatenate([image, image]), label=label), "linear(3) @head",
     "array: label, axes: [N]}", "classification"),
    ("table", "--task=classification", dict(features=x2, label=label.astype("u1")[:, None]), "target t: i64[N]",
     "axes: [N, 1]}", "classification"),
    ("points", "", dict(x=image, mask=(image[:, 0] > 0).astype("i2")), "target t: i64[N, H=16, W=16]",
     "array: mask, axes: [N, H, W]}", "segmentation"),
    ("next", "--task=forecast", dict(u=steps), "y = x + change", "offset: 1", "forecast"),
    ("next-field", "--task=forecast", dict(u=image), "y = x + change", "offset: 1", "forecast"),
    ("itself", "--task=autoencoder", dict(u=x2), "@code", "array: u, axes: [N, C], normalize", "autoencoder"),
    ("itself-field", "--task=autoencoder", dict(u=image[:, 0]), "conv_transpose", "axes: [N, H, W], normalize",
     "autoencoder"),
    ("odd", "--task=autoencoder", dict(u=image[:, :, :9, :15]), "conv(code, 1)", "axes: [N, C, H, W]", "autoencoder"),
]


def test_cases():
    for name, args, arrays, line, entry, task in CASES:
        folder = folder_with(name, **arrays)
        r = run(f"dlc init mine --data d.h5 {args}", folder)
        want = f"{task}: wrote mine.dl, config/mine.yaml and README-mine.md, where the next five commands are\n"
        if not check(r.returncode == 0 and r.stdout == want and not r.stderr, f"{name}: {r.stdout} {r.stderr}"):
            continue
        model, text = open(f"{folder}/mine.dl").read(), open(f"{folder}/config/mine.yaml").read()
        check(line in model, f"{name}: '{line}' is not in\n{model}")
        check(entry in text, f"{name}: '{entry}' is not in\n{text}")
        check(run("dlc fmt --check mine.dl", folder).returncode == 0, f"{name}: dlc fmt would change the model")
        r = run("dlc check mine.dl --config mine && dlrun mine.dl --config mine --num_epochs=6 --start_lr=0.01", folder)
        got = losses(r.stdout + r.stderr)
        check(r.returncode == 0 and "warning" not in r.stderr, f"{name}: {r.stdout[-500:]} {r.stderr[-500:]}")
        check(len(got) == 6 and got[-1] < 0.97 * got[0], f"{name}: it does not learn: {got}\n{model}")


def test_kinds():
    """Other kinds of files, each of whose README's commands run."""
    table = np.concatenate([x2[:, :3], np.sin(x2[:, :1]), label[:, None]], 1)
    head = "length,width,net weight,rate,kind"
    files = {
        "d.npz": lambda path: np.savez(path, x=x2, t=x2[:, :2]),
        "u.npy": lambda path: np.save(path, steps),
        "t.csv": lambda path: np.savetxt(path, table[:, :4], delimiter=",", header=head[:-5], comments=""),
        "k.csv": lambda path: np.savetxt(path, table, delimiter=",", header=head, comments="", fmt="%.6g"),
    }
    for file, args, line, entry in (
            ("d.npz", "--task=regression", "target t: f32[N, C=2]", "{file: d.npz, array: t, axes: [N, C]"),
            ("u.npy", "--task=forecast", "input x: f32[N, C=5]", "{file: u.npy, axes: [N, C], offset: 1"),
            ("t.csv", "", "input x: f32[N, C=3]", "array: [length, width, 'net weight'], axes: [N], normalize"),
            ("t.csv", "--target=width", "input x: f32[N, C=3]", "array: [length, 'net weight', rate], axes: [N]"),
            ("t.csv", "--task=autoencoder", "input x: f32[N, C=4]", "array: [length, width, 'net weight', rate]"),
            ("k.csv", "--task=classification", "h |> linear(3) @head", "{file: k.csv, array: kind, axes: [N]}")):
        folder = os.path.join(TMP, f"kind{args}-{file}")
        os.makedirs(folder)
        files[file](f"{folder}/{file}")
        r = run(f"dlc init mine --data {file} {args}", folder)
        if not check(r.returncode == 0 and not r.stderr, f"{file} {args}: {r.stdout} {r.stderr}"):
            continue
        model, text = open(f"{folder}/mine.dl").read(), open(f"{folder}/config/mine.yaml").read()
        check(line in model and entry in text, f"{file} {args}: '{line}', '{entry}'\n{model}\n{text}")
        for c in re.search(r"```sh\n(.*?)```", open(f"{folder}/README-mine.md").read(), re.S)[1].splitlines():
            r = run(c, folder)
            check(r.returncode == 0, f"{file} {args}: `{c}`: exit {r.returncode} {r.stderr[-300:]}")
        y = np.load(f"{folder}/mine-prediction.npy")
        check(len(y) == (60 if file == "u.npy" else 80), f"{file} {args}: predictions {y.shape}")


def test_pictures():
    """A folder of pictures: classes by the names of folders; the README's commands run."""
    folder = os.path.join(TMP, "pictures")
    os.makedirs(folder)
    r = run("dldata images -o pics --jpeg --train 60 --valid 20 --side 40 -q && dlc init mine --data pics", folder)
    check(r.returncode == 0 and r.stdout.startswith("classification: wrote mine.dl"), f"{r.stdout} {r.stderr}")
    classes = len(os.listdir(f"{folder}/pics/train"))
    model, text = open(f"{folder}/mine.dl").read(), open(f"{folder}/config/mine.yaml").read()
    check("input x: f32[N, C=3, H=64, W=64]" in model and f"linear({classes}) @head" in model
          and "valid_dir: pics/val\n" in text, f"{model}\n{text}")
    for c in re.search(r"```sh\n(.*?)```", open(f"{folder}/README-mine.md").read(), re.S)[1].splitlines():
        r = run(c.replace("dlrun mine.dl", "dlrun mine.dl --num_epochs=2"), folder)
        check(r.returncode == 0 and ("warning" not in r.stderr or "export" in c),
              f"`{c}`: exit {r.returncode} {r.stderr[-300:]}")
    check(np.load(f"{folder}/mine-prediction.npy").shape == (20, classes), "predictions")
    os.makedirs(f"{folder}/one/train/a"), os.makedirs(f"{folder}/two/train/a"), os.makedirs(f"{folder}/two/val")
    for args, want in (("--data one", "none to validate on: val, valid"), ("--data two", "two/train holds 1 folders"),
                       ("--data pics --task=regression", "pics has pictures, which are for --task=classification"),
                       ("--data one/train", "one/train is a directory, and no Zarr")):
        r = run(f"dlc init other {args}", folder)
        check(r.returncode in (2, 3) and want in r.stderr and r.stderr.count("\n") == 1, f"{args}: {r.stderr}")
    check(not os.path.exists(f"{folder}/other.dl"), "a refused project leaves nothing")


def test_commands():
    """The five commands of the README, as they stand there."""
    folder = folder_with("commands", x=x2, t=x2[:, :2])
    run("dlc init mine --data d.h5", folder)
    block = re.search(r"```sh\n(.*?)```", open(f"{folder}/README-mine.md").read(), re.S)[1]
    commands = block.splitlines()
    check(len(commands) == 5, f"commands: {commands}")
    for c in commands:
        r = run(c, folder)
        check(r.returncode == 0, f"`{c}`: exit {r.returncode} {r.stdout[-300:]} {r.stderr[-300:]}")
    said = open(f"{folder}/README-mine.md").read()
    run("dlrun mine.dl --config mine --num_epochs=1 && dlrun mine.dl --config mine --num_epochs=1 --run_num=01", folder)
    check(sorted(os.listdir(f"{folder}/runs/mine/1GPU")) == ["00", "00.1", "01"] and "1GPU/00.1`" in said
          and "--run_num=01" in said, f"a second run: {os.listdir(f'{folder}/runs/mine/1GPU')}")
    y = np.load(f"{folder}/mine-prediction.npy")
    # The target is the half of the input: a trained network reaches some of it.
    check(y.shape == (80, 2) and np.mean((y - x2[:, :2])**2) < 0.9 * np.var(x2[:, :2]), f"prediction {y.shape}")
    check(os.path.getsize(f"{folder}/mine.onnx") > 1000, "mine.onnx")


def test_refusals():
    folder = folder_with("refused", x=x2, t=x2[:, :2], few=x2[:4], minus=label - 1, words=np.array([b"a"] * 80),
                         other=fields(80, 3, 7))
    for args, text in (("--data d.h5", "which name"), ("mine", "which data"), ("9lives --data d.h5", "cannot name"),
                       ("../mine --data d.h5", "cannot name"), ("mine --data none.h5", "none.h5"),
                       ("mine --data d.h5 --task=regresion", "did you mean 'regression'?"),
                       ("mine --data d.h5 --input nope", "has no array 'nope'; it holds: "),
                       ("mine --data d.h5 --input few", "4 samples along its first axis"),
                       ("mine --data d.h5 --input words", "cannot be samples"),
                       ("mine --data d.h5 --target minus", "labels go from -1 to 1"),
                       ("mine --data d.h5 --target few", "no other array with the samples of 'few'"),
                       ("mine --data d.h5 --input x --target few", "the first axis, the samples, differs"),
                       ("mine --data d.h5 --target other", "no model of ours joins these"),
                       ("mine --data d.h5 --task=segmentation --target t", "classes of points"),
                       ("mine --data d.h5 --task=forecast --target t", "has no target but the input")):
        r = run(f"dlc init {args}", folder)
        check(r.returncode in (2, 3, 4) and text in r.stderr and r.stderr.count("\n") == 1,
              f"init {args}: exit {r.returncode} {r.stderr}")
    check(sorted(os.listdir(folder)) == ["d.h5"], f"left: {os.listdir(folder)}")
    one = folder_with("one", u=x2)
    r = run("dlc init mine --data d.h5", one)
    check(r.returncode == 2 and "--task=forecast or --task=autoencoder" in r.stderr, f"one array: {r.stderr}")
    run("dlc init mine --data d.h5 --task=forecast", one)
    before = open(f"{one}/mine.dl").read()
    r = run("dlc init mine --data d.h5 --task=autoencoder", one)
    check(r.returncode == 4 and "mine.dl exists" in r.stderr and open(f"{one}/mine.dl").read() == before,
          f"twice: {r.stderr}")


for test in [v for k, v in list(globals().items()) if k.startswith("test_")]:
    test()
finish()
