#!/usr/bin/env python3
"""Models of tests/zoo, exported by the newest PyTorch, imported and compared with it in float64.   oracle_import.py
BUILD

PyTorch 2.9 or newer and safetensors: those of the environment of scripts/install-torch, or of the interpreter that
DLC_TORCH names. Without them the test is skipped (77).
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from checks import ENV, check, finish, takes

HERE = pathlib.Path(__file__).resolve().parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
python = os.environ.get("DLC_TORCH") or str(CACHE / "dlc-torch/bin/python")
wanted = "import sys, torch, safetensors; sys.exit(tuple(map(int, torch.__version__.split('.')[:2])) < (2, 9))"
if not pathlib.Path(python).exists() or subprocess.run([python, "-c", wanted], capture_output=True).returncode:
    print("SKIP: no PyTorch 2.9 or newer (scripts/install-torch, or DLC_TORCH=PYTHON)")
    sys.exit(77)
NETS = """import torch

def make():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4)), torch.randn(2, 8)

def unfit():
    return torch.nn.Linear(8, 4), torch.randn(2, 9)
"""


def check_from_torch(folder):
    """python -m dlc.from_torch writes what `dlc import` writes of the archive, and says why where none is made."""
    build = pathlib.Path(sys.argv[1]).resolve()
    env = {**os.environ, "PYTHONPATH": str(HERE.parents[1] / "bindings/python"),
           "DLC_LIBRARY": f"{build}/library/libdlc.so", "PATH": f"{build}/cli:{os.environ['PATH']}"}
    (folder / "nets.py").write_text(NETS)

    def run(*words):
        return subprocess.run(words, env=env, cwd=folder, capture_output=True, text=True)

    made = run(python, "-m", "dlc.from_torch", "nets:make", "-o", "a.dl", "--weights=a.safetensors", "--loss=mse",
               "--archive=a.pt2")
    again = run("dlc", "import", "a.pt2", "-o", "b.dl", "--weights=b.safetensors", "--loss=mse")
    names = [folder / f"{name}.{kind}" for kind in ("dl", "safetensors") for name in "ab"]
    same = all(path.exists() for path in names) and all(
        x.read_bytes() == y.read_bytes() for x, y in zip(names[::2], names[1::2]))
    unfit = run(python, "-m", "dlc.from_torch", "nets:unfit", "-o", "c.dl")
    sound = (made.returncode == again.returncode == 0 and same and "linear(16) @0" in names[0].read_text() and
             unfit.returncode == 3 and "torch.export:" in unfit.stderr and not (folder / "c.dl").exists())
    if not sound:
        print(f"from_torch: {made} {again} {unfit}")
    print(f"{int(sound)} passed, {int(not sound)} failed")
    return int(not sound)


LACKS = {"SpectralNorm": "aten.div.out", "Kept": "keeps no state"}  # buffers that are written
# Modules and layers that are applied several times are bound to a name, as in PyTorch.
FORMS = {"Siamese": ["module Encoder()(x):", "encoder = Encoder() @encoder", "x |> encoder", "z |> encoder"],
         "Pyramid": ["head = conv(3, 1) @head", "down = conv(8, 3, stride=2, pad=1) @down"],
         "Recursive": ["step = Step() @step", "for i in range(4):", "norm_layer = layer_norm @norm"],
         "Branches": ["a = linear(6) @branch.a"], "Twice": ["mix = linear(4) @mix", "gru_layer = gru(4, states=true)"],
         "Cells": ["module GRUCell()(x, z):", "gru_layer = GRUCell() @gru", "u = gru_layer(x[T=i], u)"],
         "Seq2Seq": ["module LSTMCell()(x, z, u):", "cell = LSTMCell() @cell", "out = linear(5) @out"]}


def check_written(folder):
    """Networks as users write them (tests/zoo/library_written.py): text, outputs, loss and all gradients."""
    lists = "".join((HERE.parent / f"zoo/library_written{more}.py").read_text() for more in ("", "_more", "_shared"))
    names = re.findall(r"^@written\(.*\n^class (\w+)\(", lists, re.M)
    names = [n for i, n in enumerate(names) if takes(i)]
    pattern = rf"\.({'|'.join(names)})$"
    r = subprocess.run([python, HERE.parent / "zoo/zoo.py", sys.argv[1], folder / "written", "--list", "written",
                        "--only", pattern, "--times", "no"], env=ENV, capture_output=True, text=True)
    rows = dict(line.split(" ", 1) for line in r.stdout.splitlines() if line.startswith("written."))
    if check(len(rows) == len(names) > 0, f"{names}: {r.stdout[-300:]} {r.stderr[-1000:]}"):
        for name in names:
            row, lacks = rows[f"written.{name}"], LACKS.get(name)
            check(row.startswith("import") and lacks in row if lacks else row.startswith("agrees"), f"{name}: {row}")
            path = folder / f"written/written.{name}/model.dl"
            text = path.read_text() if path.exists() else ""  # a state is refused before a line is written
            missing = [form for form in FORMS.get(name, []) if form not in text]
            check(not missing, f"{name} lacks {missing}:\n{text}")


with tempfile.TemporaryDirectory(prefix="dlc_test_") as folder:
    made = subprocess.run([python, HERE.parent / "zoo/export.py", folder], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    if made.returncode:
        sys.exit(f"export.py: {made.stdout[-2000:]}")
    status = subprocess.run([sys.executable, HERE / "check_import.py", sys.argv[1], folder]).returncode
    check_written(pathlib.Path(folder))
    check(check_from_torch(pathlib.Path(folder)) == 0 and status == 0, "the models of models.py, from_torch")
    finish()
