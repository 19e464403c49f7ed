"""A trained run for the tests of the bindings, and what `dlrun predict` makes of its data."""
import os
import random
import struct
import subprocess

from checks import ENV, TMP

SAMPLES, WIDTH = 24, 32
TWO = """model Two(c=4):
    input u: f32[N, C=1, W=16]
    input v: f32[N, C=1, W=16]
    target t: f32[N, C=1, W=16]
    y = cat(u, v, over=C) |> conv(c, 3, pad=1) @a |> tanh |> conv(1, 1) @b
    z = mean(y, over=[C, W]) as [N]
    output y
    output z
    loss = mse_loss(y, t)
    metric mae = mean(abs(y - t))
"""
DOUBLE = """model Double():
    input x: f64[N, F=3]
    target t: f64[N, F=2]
    y = x |> linear(2) @fc as [N, F]
    output y
    loss = mse_loss(y, t)
"""
WEIGHTED = """model Weighted():
    input w: f32[N, F=2]
    input x: f32[N, F=2]
    target t: f32[N, F=2]
    y = 2 * x
    output y
    loss = mean(w * ((x |> linear(2) @fc as [N, F]) - t)**2)
"""
CONFIG = """field:
  model: field.dl
  local_batch_size: 4
  num_epochs: 2
  lr: 0.01
  data:
    inputs: {x: {file: x.npy, normalize: standardize}}
    targets: {t: {file: t.npy, normalize: standardize}}
    split: {valid: 0.25}
"""


def write_npy(path, shape, values):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header.encode())
        f.write(struct.pack(f"<{len(values)}f", *values))


def read_npy(path):
    """The bytes of the numbers."""
    with open(path, "rb") as f:
        data = f.read()
    return data[10 + struct.unpack("<H", data[8:10])[0]:]


def train(build, root):
    """(run, raw input, raw prediction of dlrun predict, raw targets); models two.dl, double.dl and
    weighted.dl lie next to them, in TMP."""
    draw = random.Random(3)
    x = [5 + 2 * draw.gauss(0, 1) for _ in range(SAMPLES * WIDTH)]
    t = [0.5 * v + 1 for v in x]
    shape = (SAMPLES, 1, WIDTH)
    for name, values in (("x", x), ("t", t)):
        write_npy(f"{TMP}/{name}.npy", shape, values)
        with open(f"{TMP}/{name}.f32", "wb") as f:
            f.write(struct.pack(f"<{len(values)}f", *values))
    with open(f"{root}/examples/embed/field.dl") as f:
        model = f.read()
    for name, text in (("field.dl", model), ("field.yaml", CONFIG), ("two.dl", TWO), ("double.dl", DOUBLE),
                       ("weighted.dl", WEIGHTED)):
        with open(f"{TMP}/{name}", "w") as f:
            f.write(text)
    for command in (["field.yaml"], ["predict", "runs/field/1GPU/00", "x.npy", "-o", "y.npy"]):
        r = subprocess.run([f"{build}/cli/dlrun", *command], cwd=TMP, env=ENV, capture_output=True, text=True)
        assert r.returncode == 0, r.stderr[-600:]
    with open(f"{TMP}/y.f32", "wb") as f:
        f.write(read_npy(f"{TMP}/y.npy"))
    return f"{TMP}/runs/field/1GPU/00"


def same_bytes(a, b):
    with open(a, "rb") as f, open(b, "rb") as g:
        return f.read() == g.read() and os.path.getsize(a) > 0
