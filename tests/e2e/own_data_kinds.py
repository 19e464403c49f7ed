"""Of check_own_data.py: masks and labels, crops, flips and rotations. Runs when it is imported."""
import itertools
import os

from checks import check
from datasets import config, model, same, samples
from own_data_files import h5py, np, random

# ---- whole numbers, of which some are missing ----

model("marks", """model Marks():
    input x: f32[N, C=2, H=6, W=8]
    target label: i64[N]
    y = x |> conv(4, 3, pad=1) @c |> mean(over=[H, W]) |> linear(3) @head
    output y
    loss = cross_entropy(y, label)
""")
marks = (np.arange(20) % 3).astype("i2")
marks[[3, 17]] = -1
with h5py.File("marks.h5", "w") as f:
    f["y"], f["z"] = marks, np.where(marks < 0, np.nan, marks).astype("f4")
    f["y"].attrs["_FillValue"] = np.int16(-1)
config("inputs: {x: {file: x.npy, channels: [0, 1]}}\ntargets: {label: marks.h5:y}\nsplit: {valid: 0.2}")
text = samples("marks", "valid")
check(isinstance(text, str) and "[17] is -1: whole numbers have no NaN" in text
      or "[17] is nan: missing, by its attributes, where -1 is stored: whole numbers have no NaN" in text, text)
for array in ("y", "z"):
    config(f"inputs: {{x: {{file: x.npy, channels: [0, 1]}}}}\ntargets: {{label: {{file: marks.h5, array: {array}, "
           f"nan: -100}}}}\nsplit: {{valid: 0.2}}")
    same(samples("marks", "valid")["label"], np.where(marks[16:] < 0, -100, marks[16:]),
         f"nan: -100 of whole numbers, {array}")
config("inputs: {x: {file: x.npy, channels: [0, 1]}}\ntargets: {label: {file: marks.h5, array: y, nan: 0.5}}\n"
       "split: {valid: 0.2}")
check("nan: 0.5 is no such number" in samples("marks", "valid"), samples("marks", "valid"))

# ---- several inputs, a mask, labels, none ----

model("classes", """model Classes():
    input x: f32[N, C=2, H=6, W=8]
    input mask: f32[N, H=6, W=8]
    input weight: f32[N]
    target label: i64[N]
    h = x |> conv(4, 3, pad=1) @c
    y = (mean(h, over=[H, W]) |> linear(3) @head)
    output y
    loss = cross_entropy(y, label) * mean(weight) + mean(mask) * 0
""")
mask, weight, label = (random.random((6, 8)) < 0.5), random.random(20), random.integers(0, 3, 20)
np.save("mask.npy", mask)
with h5py.File("b.h5", "w") as f:
    f["weight"], f["label"], f["half"] = weight, label.astype("u1"), label + 0.5
config("inputs: {x: x.npy, mask: mask.npy, weight: b.h5:weight}\ntargets: {label: b.h5:label}\nsplit: {valid: 0.2}")
got = samples("classes", "valid")
if isinstance(got, str):
    check(False, got)
else:
    same(got["mask"], np.broadcast_to(mask, (4, 6, 8)), "mask"), same(got["weight"], weight[16:].astype("f4"), "scalar")
    same(got["label"], label[16:], "labels")
config("inputs: {x: x.npy, mask: mask.npy, weight: b.h5:weight}\ntargets: {label: b.h5:half}\nsplit: {valid: 0.2}")
check(isinstance(samples("classes", "valid"), str), "a label that is no whole number")

# ---- 1-D: an autoencoder of long signals, crops and steps ----

model("auto", """model Auto(n=16):
    input x: f32[N, C=1, L=n]
    h = x |> conv(4, 3, pad=1) @a |> relu
    y = h |> conv(1, 3, pad=1) @b
    output y
    loss = mse_loss(y, x)
""")
signal = np.arange(9 * 100, dtype="f4").reshape(9, 100)
np.save("signal.npy", signal)
for how, want in [("crop: origin", signal[6:, :16]), ("crop: center", signal[6:, 42:58]),
                  ("crop: center\nstep: {L: 3}", signal[6:, 27:73:3])]:
    config(f"inputs: {{x: signal.npy}}\nsplit: {{valid: 0.33}}\n{how}")
    got = samples("auto", "valid")
    same(got if isinstance(got, str) else got["x"][:, 0], want, how)
config("inputs: {x: signal.npy}\nsplit: {valid: 0.33}\ncrop: random\naugment: {flip: L}")
got = samples("auto", "train", 0, "--Nsamples=300")["x"][:, 0]
rows, flips, corners = set(), 0, set()
for s in got:
    back = s[0] > s[-1]
    s = s[::-1] if back else s
    row, corner = divmod(int(s[0]), 100)
    check(row < 6 and np.array_equal(s, signal[row, corner:corner + 16]), "a random crop")
    rows.add(row), corners.add(corner)
    flips += bool(back)
check(rows == set(range(6)) and 100 < flips < 200 and min(corners) < 5 and max(corners) == 84,
      f"{rows} {flips} {min(corners)} {max(corners)}")
one, two = samples("auto", "valid")["x"], samples("auto", "valid", 1)["x"]
same(one, two, "crops of validation are drawn once")
check((one[:, 0, 1] > one[:, 0, 0]).all(), "and not flipped")
config("inputs: {x: signal.npy}\nsplit: {valid: 0.33}\ncrop: random\naugment: {shift: [L]}")
begins = set()
for s in samples("auto", "train", 0, "--Nsamples=300")["x"][:, 0]:
    row, corner = divmod(int(s[0]), 100)
    begins.add(corner)
    same(s, np.roll(signal[row], -corner)[:16], "moved round")
check(max(begins) > 90, "beginning anywhere")

# ---- 3-D: crops of a box that is no cube, turned ----

model("box", """model Box():
    input x: f32[N, C=2, D=4, H=4, W=6]
    target t: f32[N, C=3, D=4, H=4, W=6]
    y = x |> conv(3, 3, pad=1) @c
    output y
    loss = mse_loss(y, t)
""")
place = np.arange(12 * 10 * 14, dtype="f4").reshape(12, 10, 14)
with h5py.File("box.h5", "w") as f:
    f.create_dataset("x", data=np.stack([place, -place]), chunks=(1, 5, 5, 5), compression="gzip")
    f["t"] = np.stack([place * 0 + 7, place * 2, place + 1], -1)
config("inputs: {x: box.h5:x}\ntargets: {t: {file: box.h5, array: t, axes: [D, H, W, C]}}\n"
       "split: {valid: 0.34, axis: D}\ncrop: random\naugment: {rotate: [D, H, W]}",
       Nsamples=200, Nsamples_val=20)


def rotations(a):
    """Rotations of a box whose first two edges are equal: signed permutations of determinant 1."""
    for order in itertools.permutations(range(3)):
        for signs in itertools.product((1, -1), repeat=3):
            m = np.zeros((3, 3))
            m[range(3), order] = signs
            turned = a.transpose(order)[tuple(slice(None, None, s) for s in signs)]
            if np.linalg.det(m) > 0 and turned.shape == a.shape:
                yield turned


got, seen = samples("box"), set()
if isinstance(got, str):
    check(False, got)
else:
    for x, t in zip(got["x"], got["t"]):
        d, rest = divmod(int(x[0].min()), 140)
        h, w = divmod(rest, 14)
        crop = place[d:d + 4, h:h + 4, w:w + 6]
        turn = [i for i, r in enumerate(rotations(crop)) if np.array_equal(r, x[0])]
        check(len(turn) == 1 and d + 4 <= 8, f"a turned crop of the training part: {d} {h} {w} {turn}")
        seen.update(turn)
        check(np.array_equal(x[1], -x[0]) and np.array_equal(t[1], 2 * x[0]) and (t[0] == 7).all()
              and np.array_equal(t[2], x[0] + 1),
              "input and target are turned alike")
    check(len(seen) == 8, f"the 8 rotations of a square prism: {seen}")
    deep = [int(x[0].min()) // 140 for x in samples("box", "valid")["x"]]
    check(deep == [8] * 20, f"validation is after it: {deep}")

# A box that a device is brought in pieces.
np.save("large.npy", random.standard_normal((4, 800, 700, 3)).astype("f4"))
config("inputs: {x: {file: large.npy, axes: [D, H, W, C], channels: [2, 0]}}\n"
       "targets: {t: {file: large.npy, axes: [D, H, W, C]}}\nsplit: {valid: 0.2}\n"
       "crop: random\naugment: {rotate: [D, H, W]}", Nsamples=20, Nsamples_val=20)
for part in ("train", "valid"):
    check(not isinstance(samples("box", part), str), samples("box", part))
os.remove("large.npy")
