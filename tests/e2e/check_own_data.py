#!/usr/bin/env python3
"""Data of one's own, as a scientist would write it: samples beside numpy, faults by place, and whole runs.

check_own_data.py BUILD

What is in the files says where it is from, so that a sample tells its crop and its moves; numpy then makes the same
one.
"""
import gzip
import itertools
import json
import os
import re
import sys

from checks import check, finish
from datasets import BUILD, config, faults, model, run, same, samples, write

try:
    import h5py
    import numpy as np
except ImportError as missing:
    print(f"SKIP: {missing} (scripts/install-packages test)")
    sys.exit(77)

random = np.random.default_rng(3)

# ---- 2-D: what there is, in every format's way ----

model("field", """model Field(h=6, w=8):
    input x: f32[N, C=2, H=h, W=w]
    target t: f32[N, C=1, H=h, W=w]
    y = x |> conv(1, 3, pad=1) @head
    output y
    loss = mse_loss(y, t)
""")
X = random.standard_normal((20, 2, 6, 8)).astype("f4")
T = random.standard_normal((20, 6, 8))
with h5py.File("a.h5", "w") as f:
    f["group/x"] = X
    f["t"] = T
    f.create_dataset("packed", data=X, chunks=(3, 1, 4, 8), compression="gzip", shuffle=True)
    f.create_dataset("lzf", data=X, chunks=(3, 1, 4, 8), compression="lzf")
    f.create_dataset("lzf_runs", data=np.round(X / 4), chunks=(7, 2, 6, 8), compression="lzf")
    f.create_dataset("lzf_shuffled", data=np.round(X), chunks=(20, 2, 6, 8), compression="lzf", shuffle=True,
                     fletcher32=True)
    f["last"] = np.moveaxis(X, 1, 3)
    f["time_last"] = np.moveaxis(X, 0, 3)
    f["with_level"] = X[:, :, None]
np.save("x.npy", X)
np.save("t.npy", T.astype("f4"))
np.save("fortran.npy", np.asfortranarray(X))
np.savez_compressed("a.npz", x=X, t=T)


def write_zarr(folder, version, a, chunk):
    """An array as its specification has it: gzip in chunks of a grid."""
    os.makedirs(folder)
    if version == 2:
        write(folder + "/.zarray",
              json.dumps({"zarr_format": 2, "shape": a.shape, "chunks": chunk, "dtype": a.dtype.str, "order": "C",
                          "fill_value": 0,
                                               "filters": None, "compressor": {"id": "gzip", "level": 1}}))
    else:
        write(folder + "/zarr.json",
              json.dumps({"zarr_format": 3, "node_type": "array", "shape": a.shape, "data_type": "float32",
                          "attributes": {},
              "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}}, "fill_value": 0,
              "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
              "codecs": [{"name": "bytes", "configuration": {"endian": "little"}},
                         {"name": "gzip", "configuration": {"level": 1}}]}))
    for at in itertools.product(*[range(-(-n // c)) for n, c in zip(a.shape, chunk)]):
        block = a[tuple(slice(i * c, (i + 1) * c) for i, c in zip(at, chunk))]
        whole = np.zeros(chunk, a.dtype)
        whole[tuple(slice(n) for n in block.shape)] = block
        path = folder + "/" + (".".join(map(str, at)) if version == 2 else "c/" + "/".join(map(str, at)))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(gzip.compress(whole.tobytes()))


os.makedirs("z2.zarr")
write("z2.zarr/.zgroup", '{"zarr_format": 2}')
write_zarr("z2.zarr/x", 2, X, (3, 2, 4, 5))
write_zarr("z3.zarr", 3, X, (7, 1, 6, 8))
for x in ["a.npz:x", "z2.zarr:x", "z3.zarr", "a.h5:group/x", "a.h5:packed", "a.h5:lzf", "x.npy", "fortran.npy",
          "{file: a.h5, array: last, axes: [N, H, W, C]}",
          "{file: a.h5, array: time_last, axes: [C, H, W, N]}",
          "{file: a.h5, array: with_level, axes: [N, C, 1, H, W]}"]:
    config(f"inputs: {{x: {x}}}\ntargets: {{t: a.h5:t}}\nsplit: {{valid: 0.2}}")
    got = samples("field", "valid")
    if isinstance(got, str):
        check(False, f"{x}: {got}")
        continue
    same(got["x"], X[16:], f"{x}, x")
    same(got["t"], T[16:, None].astype("f4"), f"{x}, t")
    got = samples("field")
    order = [next(i for i in range(16) if np.array_equal(X[i], s)) for s in got["x"]]
    check(sorted(order) == list(range(16)) and order != sorted(order),
          f"{x}: each sample once, in another order: {order}")
    same(got["t"], T[order, None].astype("f4"), f"{x}: targets go with inputs")
for x in "lzf_shuffled", "lzf_runs":  # chunks that shrink, others are stored as they are
    with h5py.File("a.h5") as f:
        check(f[x].id.get_storage_size() < 0.6 * X.nbytes,
              f"{x} is packed: {f[x].id.get_storage_size()} of {X.nbytes} bytes")
    config(f"inputs: {{x: a.h5:{x}}}\ntargets: {{t: a.h5:t}}\nsplit: {{valid: 0.2}}")
    same(samples("field", "valid")["x"], np.round(X[16:]) if x == "lzf_shuffled" else np.round(X[16:] / 4), x)
config("inputs: {x: a.h5:packed}\ntargets: {t: a.h5:t}\nsplit: {valid: 0.2}")
got = samples("field")
again = samples("field")
same(again["x"], got["x"], "the same epoch")
check(not np.array_equal(samples("field", "train", 1)["x"], got["x"]), "another epoch has another order")
check(not np.array_equal(samples("field", "train", 0, "--seed=9")["x"], got["x"]), "another seed, too")
check(len(samples("field", "train", 0, "--limit_nsamples=5")["x"]) == 5, "limit_nsamples")

# Ranges, fractions of training, files, patterns.
for split, train, valid in [("{train: [2, 9], valid: [12, 14]}", range(2, 9), range(12, 14)),
                            ("{train: 0.25, valid: 0.5}", range(5), range(10, 20))]:
    config(f"inputs: {{x: x.npy}}\ntargets: {{t: t.npy}}\nsplit: {split}")
    same(samples("field", "valid")["x"], X[list(valid)], split)
    rows = {x.tobytes() for x in samples("field")["x"]}
    check(rows == {X[i].tobytes() for i in train}, split)
for i in range(5):
    with h5py.File(f"part{i}.h5", "w") as f:
        f["x"], f["t"] = X[4 * i:4 * i + 4], T[4 * i:4 * i + 4]
for files, split in [("file: part*.h5, ", "{valid: part3.h5}"),
                     ("file: [part0.h5, 'part[1-9].h5'], ", "{train: ['part[0-24].h5'], valid: part3*}"),
                     ("", "{train: [part0.h5, part1.h5, part2.h5, part4.h5], valid: ['part3.h?']}")]:
    config(f"inputs: {{x: {{{files}array: x}}}}\ntargets: {{t: {{{files}array: t}}}}\nsplit: {split}")
    got = samples("field", "valid")
    same(got if isinstance(got, str) else got["x"], X[12:16], split)
    check(len(samples("field")["x"]) == 16, split)
config("inputs: {x: 'part*.h5:x'}\ntargets: {t: t.npy}\nsplit: {valid: [part3.h5]}")
faults("field", "samples in")
config("inputs: {x: 'part*.h5:x'}\ntargets: {t: t.npy}\nsplit: {valid: 0.25}")  # cut in different ways
got = samples("field", "valid")
same(got["x"], X[15:], "several files beside one"), same(got["t"], T[15:, None].astype("f4"),
                                                         "several files beside one")

# A file for each sample; time pairs, which stay in one file and one part.
for i in range(6):
    np.save(f"one{i}.npy", X[i])
config("inputs: {x: one*.npy}\ntargets: {t: {file: x.npy, channels: [1]}}\nsplit: {valid: [4, 6], train: [0, 4]}")
faults("field", "data.inputs.x has 6 samples")
config("inputs: {x: one*.npy}\ntargets: {t: {file: one*.npy, channels: [1]}}\nsplit: {valid: [4, 6], train: [0, 4]}")
got = samples("field", "valid")
same(got["x"], X[4:6], "a file each"), same(got["t"], X[4:6, 1:], "channels")
config("inputs: {x: 'part*.h5:x'}\ntargets: {t: {file: part*.h5, array: t, offset: 2}}\n"
       "split: {valid: [8, 18], train: [0, 8]}")
got = samples("field", "valid")
same(got["x"], X[[8, 9, 12, 13]], "pairs"), same(got["t"], T[[10, 11, 14, 15], None].astype("f4"), "pairs")
config("inputs: {x: {file: x.npy, offset: -3}}\ntargets: {t: {file: t.npy, offset: 1}}\nsplit: {valid: 0.5}")
got = samples("field", "valid")
same(got["x"], X[10:16], "before"), same(got["t"], T[14:20, None].astype("f4"), "behind")

# Moved round along a whole axis, flipped along another: input and target alike, in training alone.
np.save("periodic.npy", X), np.save("shifted.npy", 2 * X[:, :1])
config("inputs: {x: periodic.npy}\ntargets: {t: shifted.npy}\nsplit: {valid: 0.2}\naugment: {shift: W, flip: [H]}")
got, seen = samples("field"), set()
for x, t in zip(got["x"], got["t"]):
    found = [(i, s, f) for i in range(16) for s in range(8) for f in (1, -1)
             if np.array_equal(np.roll(X[i], -s, 2)[:, ::f], x)]
    check(len(found) == 1 and np.array_equal(t, 2 * x[:1]), f"a sample moved round: {found}")
    seen.update(found)
check(len({i for i, _, _ in seen}) == 16 and len({s for _, s, _ in seen}) > 3 and len({f for _, _, f in seen}) == 2,
      f"{seen}")
same(samples("field", "valid")["x"], X[16:], "validation is as it is")

# Pictures as cameras leave them, and numbers of every kind, which go to a device as narrow as they are: moved,
# normalised, channels in another order.
model("photo", """model Photo():
    input x: f32[N, C=3, H=6, W=6]
    input y: f32[N, W=6, H=6, C=2]
    target t: f32[N, C=1, L=6]
    h = x |> conv(2, 3, pad=1) @c
    output h
    loss = mean(h**2) + mean(y) + mean(t)
""")
PHOTO = random.integers(0, 256, (9, 6, 6, 4)).astype("u1")
MOVED = """inputs: {x: {file: photo.npy, axes: [N, H, W, C], channels: [2, 0, 3], mean: [100, 110, 120], std: [50, \
    60, 70]},
         y: {file: whole.npy, axes: [N, H, W, C], channels: [2, 0], mean: [7, 3], std: [3, 7]}}
targets: {t: {file: line.npy, axes: [N, 1, L, C], channels: [1], mean: 3, std: 7}}
split: {valid: 0.3}
augment: {shift: [W, H], rotate: [H, W], flip: [H]}"""
np.save("photo.npy", PHOTO)
for kind in ("u1", "i1", "u2", "i2", "u4", "i4", "i8", "u8", "f2", "f8", "?"):
    info = np.iinfo(kind) if kind[0] in "iu" else None
    whole = random.integers(info.min, info.max, (9, 6, 6, 3),
                            dtype=kind) if info else (100 * random.random((9, 6, 6, 3)) - 50).astype(kind)
    np.save("whole.npy", whole.astype(whole.dtype.newbyteorder(">")))
    np.save("line.npy", whole[:, :1])
    config(MOVED)
    got = samples("photo", "valid")
    if isinstance(got, str):
        check(False, f"{kind}: {got}")
        continue
    numbers = whole[6:].astype("f4")
    same(got["x"],
         ((PHOTO[6:][..., [2, 0, 3]].astype("f4") - np.array([100, 110, 120],
                                                             "f4")) / np.array([50, 60, 70],
                                                                               "f4")).transpose(0, 3, 1, 2),
         f"{kind}: u1")
    same(got["y"], ((numbers[..., [2, 0]] - np.array([7, 3], "f4")) / np.array([3, 7], "f4")).transpose(0, 2, 1, 3),
         kind)
    same(got["t"], ((numbers[:, :1, :, 1] - np.float32(3)) / np.float32(7)), kind)
    check(not isinstance(samples("photo"), str), f"{kind}: moved")
# Moved round axes of which a crop is taken, which are read in parts; what is not finite among them.
np.save("photo.npy", random.standard_normal((9, 9, 11, 4)).astype("f4"))
holes = random.standard_normal((9, 9, 11, 3)).astype("f4")
holes[random.random(holes.shape) < 0.1] = np.nan
np.save("whole.npy", holes)
config(MOVED.replace("mean: [7", "nan: 5, mean: [7") + "\ncrop: random")
check(not isinstance(samples("photo"), str), samples("photo"))
np.save("photo.npy", random.standard_normal((9, 6, 6, 4)).astype("f4")), np.save("whole.npy", holes[:, :6, :6])
config(MOVED.replace("mean: [7", "nan: -.5, mean: [7"))
check(not isinstance(samples("photo"), str), samples("photo"))

# ---- normalisation ----

config("inputs: {x: {file: x.npy, normalize: standardize}}\ntargets: {t: {file: t.npy, normalize: minmax}}\n"
       "split: {valid: 0.2}")


def near(a, b, what):
    check(np.allclose(a, b, rtol=2e-6, atol=2e-6), f"{what}: {np.abs(a - b).max()}")


got = samples("field", "valid")
mean, std = X[:16].mean((0, 2, 3), "f8")[:, None, None], X[:16].astype("f8").std((0, 2, 3))[:, None, None]
low, high = T[:16].astype("f4").min(), T[:16].astype("f4").max()
near(got["x"], (X[16:] - mean) / std, "standardize"), near(got["t"][:, 0], (T[16:] - low) / (high - low), "minmax")
kept = [open(n).read() for n in ("x.npy.statistics", "t.npy.statistics")]
check("channels 2" in kept[0] and "channels 1" in kept[1], "kept beside the data")
# believed, since it says that it is of these data
write("x.npy.statistics", re.sub(r"(channels 2\n).*", r"\g<1>0 1 0 1", kept[0]))
check(np.array_equal(samples("field", "valid")["x"][:, 0], X[16:, 0]), "what is kept is not computed again")
np.save("x.npy", X + 1)
near(samples("field", "valid")["x"], (X[16:] - mean) / std, "other data: computed anew")
config("inputs: {x: {file: x.npy, normalize: standardize}}\ntargets: {t: {file: t.npy, normalize: minmax}}\n"
       "split: {valid: 0.5}")
near(samples("field", "valid")["x"],
     (X[10:] - X[:10].mean((0, 2, 3))[:, None, None]) / X[:10].std((0, 2, 3))[:, None, None], "another part: anew")
write("x.npy.statistics", "dlc statistics 1: rubbish")
near(samples("field", "valid")["x"],
     (X[10:] - X[:10].mean((0, 2, 3))[:, None, None]) / X[:10].std((0, 2, 3))[:, None, None], "damaged: anew")
np.save("x.npy", X)
config("inputs: {x: {file: z2.zarr, array: x, normalize: standardize}}\ntargets: {t: t.npy}\nsplit: {valid: 0.2}")
near(samples("field", "valid")["x"], (X[16:] - mean) / std, "Zarr, standardize")
with open("z2.zarr/x/0.0.0.0", "wb") as f:  # in a chunk alone
    f.write(gzip.compress(np.full((3, 2, 4, 5), 9, "f4").tobytes()))
changed = X.copy()
changed[:3, :, :4, :5] = 9
near(samples("field", "valid")["x"],
     (X[16:] - changed[:16].mean((0, 2, 3), "f8")[:, None,
                                                  None]) / changed[:16].astype("f8").std((0, 2, 3))[:, None, None],
     "a chunk that changed")
np.save("means.npy", np.array([[[[0.5]], [[-2]]]], "f4"))
for given in ["mean: [0.5, -2], std: [2, 4]", "mean: means.npy, std: [2, 4]"]:
    config(f"inputs: {{x: {{file: x.npy, {given}}}}}\ntargets: {{t: {{file: t.npy, mean: 1, std: 0.5}}}}\n"
           f"split: {{valid: 0.2}}")
    got = samples("field", "valid")
    same(got["x"], ((X[16:] - np.array([0.5, -2], "f4")[:, None, None]) / np.array([2, 4], "f4")[:, None, None]), given)
    same(got["t"][:, 0], (T[16:].astype("f4") - np.float32(1)) / np.float32(0.5), given)
config("inputs: {x: {file: a.h5, array: last, axes: [N, H, W, C], normalize: standardize}}\ntargets: {t: t.npy}\n"
       "split: {valid: 0.2}")
near(samples("field", "valid")["x"], (X[16:] - mean) / std, "channels last, standardize")
# A channel of more numbers than are read at once, in rows that rise; and other parts of its rows.
wide = (random.integers(0, 100, (4, 2, 1500, 1000)) +
        np.arange(1500)[:, None] // 10 * np.array([0, 1])[:, None, None]).astype("u1")
np.save("wide.npy", wide)
WIDE = ("inputs: {x: {file: wide.npy, normalize: standardize}}\ntargets: {t: {file: wide.npy, channels: [1]}}\n"
        "crop: origin\nsplit: ")
for split, train, valid in [("{valid: 0.5}", wide[:2], wide[2:]),
                            ("{valid: 0.5, axis: H}", wide[:, :, :750], wide[:, :, 750:]),
                            ("{valid: 0.2, axis: H}", wide[:, :, :1200], wide[:, :, 1200:])]:
    config(WIDE + split)
    middle, spread = (f(train, (0, 2, 3), "f8")[:, None, None] for f in (np.mean, np.std))
    got = samples("field", "valid")
    check(not isinstance(got, str), got)
    if not isinstance(got, str):
        near(got["x"], (valid[:, :, :6, :8] - middle) / spread, f"{split}: of large channels")

# ---- values that are none ----

bad = X.copy()
bad[17, 1, 2, 3] = np.nan
np.save("bad.npy", bad)
config("inputs: {x: bad.npy}\ntargets: {t: t.npy}\nsplit: {valid: 0.2}")
text = samples("field", "valid")
check(isinstance(text, str) and "data.inputs.x: bad.npy" in text and "[17, 1, 2, 3] is nan" in text, text)
config("inputs: {x: {file: bad.npy, mean: 1, std: 2, nan: 0.25}}\ntargets: {t: t.npy}\nsplit: {valid: 0.2}")
want = (bad[16:] - np.float32(1)) / np.float32(2)
same(samples("field", "valid")["x"], np.where(np.isnan(want), np.float32(0.25), want), "nan: 0.25")

# as NetCDF packs it: whole numbers, with a scale and a number for what is not there
with h5py.File("netcdf.h5", "w") as f:
    packed = np.round(X * 1000).astype("i2")
    packed[16, 0, 0, 0] = -32768
    f["x"] = packed
    f["x"].attrs["scale_factor"], f["x"].attrs["add_offset"], f["x"].attrs["_FillValue"] = 0.002, 5.0, np.int16(-32768)
config("inputs: {x: {file: netcdf.h5, nan: -9}}\ntargets: {t: t.npy}\nsplit: {valid: 0.2}")
want = (packed[16:] * 0.002 + 5.0).astype("f4")
want[0, 0, 0, 0] = -9
same(samples("field", "valid")["x"], want, "scale_factor, add_offset, _FillValue")
config("inputs: {x: netcdf.h5}\ntargets: {t: t.npy}\nsplit: {valid: 0.2}")
text = samples("field", "valid")
check(isinstance(text, str) and "[16, 0, 0, 0] is nan" in text, text)
config("inputs: {x: {file: netcdf.h5, nan: 0, normalize: standardize}}\ntargets: {t: t.npy}\n"
       "split: {train: 0.5, valid: 0.2}")
values = packed[:10] * 0.002 + 5.0
mean2, std2 = values.mean((0, 2, 3))[:, None, None], values.std((0, 2, 3))[:, None, None]
want = (packed[17:] * 0.002 + 5.0 - mean2) / std2
near(samples("field", "valid")["x"][1:], want, "statistics of what the numbers stand for")

config("inputs: {x: netcdf.h5}\ntargets: {t: t.npy}\nsplit: {valid: 0.2}")
check("missing, by its attributes, where -32768 is stored" in samples("field", "valid"), samples("field", "valid"))
config("inputs: {x: {file: netcdf.h5, normalize: standardize}}\ntargets: {t: t.npy}\n"
       "split: {train: [10, 20], valid: [0, 10]}")
check("[16, 0, 0, 0] is nan: missing, by its attributes" in samples("field", "valid"), "statistics name the place, too")
huge = X.astype("f8")
huge[[3, 17], 1, 2, 3] = 1e300
np.save("huge.npy", huge)
for more, at in (("", 3), (", normalize: standardize", 17)):  # what a double holds and f32 does not is told as it is
    config("inputs: {x: {file: huge.npy" + more + "}}\ntargets: {t: t.npy}\nsplit: {train: [10, 20], valid: [0, 10]}")
    text = samples("field", "valid")
    check(isinstance(text, str) and f"[{at}, 1, 2, 3] is 1e+300, and f32 holds no more than 3.4e38" in text, text)
config("inputs: {x: {file: huge.npy, nan: 0, normalize: minmax}}\ntargets: {t: t.npy}\n"
       "split: {train: [10, 20], valid: [0, 10]}")
kept = np.where(huge == 1e300, np.nan, huge)
low, high = np.nanmin(kept[10:], (0, 2, 3))[:, None, None], np.nanmax(kept[10:], (0, 2, 3))[:, None, None]
kept = kept[:10]
near(samples("field", "valid")["x"], np.where(np.isnan(kept), 0, (kept - low) / (high - low)),
     "a number that f32 does not hold is left out of statistics")
level = X.copy()
level[:, 1] = 0.1
np.save("level.npy", level)
level[:, 1] = np.nan
np.save("void.npy", level)
level[:, 1] = 0
level[::2, 1] = 1e-47  # f32 has no such deviation
np.save("tiny.npy",
        level.astype("f8") +
        np.where(np.arange(20)[:, None, None, None] % 2, 0, 1e-50) * (np.arange(X.shape[1]) == 1)[:, None, None])
for file, scale, says in (("level", "standardize",
                           "channel 1 is 0.100000001 to 0.100000001 over the training part, the same everywhere: "
                           "nothing to divide by"),
                          ("level", "minmax", "channel 1 is 0.100000001 to 0.100000001"),
                          ("void", "standardize", "channel 1 has no value in the training part"),
                          ("tiny", "standardize",
                           "channel 1 is 0 to 1e-50 over the training part, a deviation that is 0 as f32"),
                          ("tiny", "minmax", "channel 1 is 0 to 1e-50")):
    config(f"inputs: {{x: {{file: {file}.npy, normalize: {scale}, nan: 0}}}}\ntargets: {{t: t.npy}}\n"
           f"split: {{valid: 0.2}}")
    text = samples("field", "valid")
    check(isinstance(text, str) and says in text, text)
for given, says in (("mean: 1.0e39, std: 1", "mean is 1e+39, as f32 no finite number"),
                    ("mean: 0, std: 1.0e-50", "std is 1e-50, as f32 no number to divide by")):
    config(f"inputs: {{x: {{file: x.npy, {given}}}}}\ntargets: {{t: t.npy}}\nsplit: {{valid: 0.2}}")
    text = samples("field", "valid")
    check(isinstance(text, str) and says in text, text)
with h5py.File("netcdf.h5", "r+") as f:  # what has no effect is told, once; what cannot be right is refused
    f["x"].attrs["missing_value"] = 1e20
config("inputs: {x: {file: netcdf.h5, nan: 0}}\ntargets: {t: t.npy}\nsplit: {valid: 0.2}")
text = run(BUILD + "/cli/dlc", "check", "field.dl", "--yaml_config=c.yaml").stderr.decode()
check(text.count("netcdf.h5: 'x': its attribute missing_value is '1e+20': no number of the array's type") == 1, text)
with h5py.File("netcdf.h5", "r+") as f:
    f["x"].attrs["missing_value"] = "none"
faults("field", "data.inputs.x: netcdf.h5: 'x': its attribute missing_value is 'none': this is no number")

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
    check(deep == [8] * 20, f"validation is behind it: {deep}")

# A box that a device is brought in pieces.
np.save("large.npy", random.standard_normal((4, 800, 700, 3)).astype("f4"))
config("inputs: {x: {file: large.npy, axes: [D, H, W, C], channels: [2, 0]}}\n"
       "targets: {t: {file: large.npy, axes: [D, H, W, C]}}\nsplit: {valid: 0.2}\n"
       "crop: random\naugment: {rotate: [D, H, W]}", Nsamples=20, Nsamples_val=20)
for part in ("train", "valid"):
    check(not isinstance(samples("box", part), str), samples("box", part))
os.remove("large.npy")

# ---- faults, by place ----

with h5py.File("odd.h5", "w") as f:
    f["complex"], f["none"], f["last"] = X.astype("c8"), X[:0], np.moveaxis(X, 1, 3)
    f["text"] = np.array([b"a"] * 20)
    f["records"] = np.zeros(20, [("a", "f4"), ("b", "i4")])
    f.create_dataset("scaled", data=X, chunks=True, scaleoffset=4)
base = "inputs: {x: x.npy}\ntargets: {t: t.npy}\nsplit: {valid: 0.2}"
for text, want in [
        ("inputs: {x: x.npy}\nsplit: {valid: 0.2}", "data.targets: the model's 't' f32[C=1, H=6, W=8] is missing"),
        ("inputs: {x: x.npy, z: x.npy}\ntargets: {t: t.npy}",
         "c.yaml:4:24: error: data.inputs: the model has no input 'z'; it has: x"),
        ("inputs: {x: x.npy}\ntargets: {t: t.npy}", "data.split is missing"),
        (base + "\ncorp: none", "data has no key 'corp'; did you mean 'crop'?"),
        (base + "\ncrop: all", "data.crop must be none, origin, center or random, not 'all'"),
        (base.replace("0.2", "1.5"), "data.split.valid must be"),
        (base.replace("x.npy", "{file: x.npy, mean: 3}"), "data.inputs.x: mean and std go together"),
        (base.replace("x.npy", "{file: x.npy, std: 0, mean: 1}"), "data.inputs.x.std must be above 0"),
        (base.replace("x.npy", "{file: x.npy, axis: 3}"), "data.inputs.x has no key 'axis'; did you mean 'axes'?"),
        (base.replace("x.npy", "a.h5"), "holds several arrays"),
        (base.replace("inputs", "input"), "data has no key 'input'; did you mean 'inputs'?"),
        (base.replace("inputs", "input").replace("targets", "target"),
         "data has no key 'input'; did you mean 'inputs'?"),
        (base.replace("x.npy", "odd.h5:complex"), "'complex' holds complex numbers, not numbers that can be read"),
        (base.replace("x.npy", "odd.h5:text"), "'text' holds strings, not"),
        (base.replace("x.npy", "odd.h5:records"), "'records' holds records, not"),
        (base.replace("x.npy", "odd.h5:none"), "'none' is empty: an axis of it has no elements"),
        (base.replace("x.npy", "odd.h5:scaled"), "is packed with filter 6, scaleoffset, which is not supported"),
        (base.replace("x.npy", "odd.h5:last"), "or are they its last axis? axes: [N, H, W, C])"),
        (base.replace("x.npy", "a.h5:y"), "has no array 'y'"),
        (base.replace("x.npy", "t.npy"), "data.inputs.x: t.npy"),
        (base.replace("x.npy", "signal.npy"), "signal.npy: '(its only array)' is [9, 100]"),
        (base.replace("x.npy", "{file: x.npy, axes: [N, C, H, Q]}"), "has no axis 'Q'"),
        (base.replace("x.npy", "{file: x.npy, axes: [N, C, W, H]}"),
         "W=8 of the model's 'x' is more than its 6 elements"),
        (base.replace("x.npy", "{file: x.npy, channels: [0, 2]}"), "channels: 2 is not below its 2"),
        (base.replace("x.npy", "{file: x.npy, channels: [0]}"), "1 channels, where the model's 'x' is f32[C=2"),
        (base + "\naugment: {rotate: [H, Z]}", "data.augment.rotate: no array has an axis 'Z'"),
        (base + "\naugment: {flip: [C]}", "data.augment.flip: no array has an axis 'C'"),
        (base.replace("0.2", "elsewhere.npy"), "no input or target has several"),
        (base.replace("x.npy", "{file: one0.npy, offset: 1}"), "offset is of axis N, which it has not"),
        (base.replace("0.2", "[0, 99]").replace("valid", "train: [0, 1], valid"), "have samples in common"),
        (base.replace("valid: 0.2", "train: [0, 10], valid: [10, 99]"), "exceeds the 20"),
]:
    config(text)
    faults("field", want)
config(base.replace("x.npy", "nothing*.npy"))
done = run(BUILD + "/cli/dlc", "check", "field.dl", "--yaml_config=c.yaml")
check(done.returncode == 4 and b"data.inputs.x: no file fits the pattern nothing*.npy" in done.stderr, done.stderr)
config(base)
done = run(BUILD + "/cli/dlc", "check", "field.dl", "--yaml_config=c.yaml")
check(done.returncode == 0 and b"16 samples for training, 4 for validation" in done.stdout, (done.stdout, done.stderr))
config(base)
faults("field", "H=8", "--h=8")

# ---- what dldata inspect proposes can be pasted, and passes ----


def propose(name, *files, status=0):
    done = run(BUILD + "/cli/dldata", "inspect", *files, name + ".dl")
    check(done.returncode == status, f"dldata inspect {files}: {done.returncode} {done.stderr.decode()}")
    text = done.stdout.decode()
    section = text[text.index("  data:\n"):] if "  data:\n" in text else ""
    write("c.yaml", "default:\n  local_batch_size: 2\n" + section)
    return text, section


for name, files, wants in [
        ("field", ["a.h5"],
         ["x: {file: 'a.h5', array: 'group/x', normalize: standardize}  # [20, 2, 6, 8] f32 for f32[C=2, H=6, W=8]",
                             "t: {file: 'a.h5', array: 't', axes: [N, H, W], normalize: standardize}",
          "split: {valid: 0.1}"]),
        ("field", ["z2.zarr", "a.npz"],
         ["x: {file: 'z2.zarr', array: 'x', normalize", "t: {file: 'a.npz', array: 't', axes: [N, H, W]"]),
        ("classes", ["x.npy", "mask.npy", "b.h5"],
         ["x: {file: 'x.npy', normalize", "mask: {file: 'mask.npy', axes: [H, W]",
          "label: {file: 'b.h5', array: 'label'}"]),
        ("auto", ["signal.npy"], ["x: {file: 'signal.npy', axes: [N, L]", "crop: random"]),
        ("box", ["box.h5"], ["t: {file: 'box.h5', array: 't', axes: [D, H, W, C]", "crop: random", "Nsamples: 1024"])]:
    text, section = propose(name, *files)
    for want in wants:
        check(want in section, f"{name}: {want!r} not in {section}")
    done = run(BUILD + "/cli/dlc", "check", name + ".dl", "--yaml_config=c.yaml")
    check(done.returncode == 0 and b" for training" in done.stdout,
          f"{name}: what is proposed passes: {section} {done.stderr.decode()}")
text, section = propose("box", "signal.npy")
check("FILE:ARRAY  # nothing in these files has the axes of" in section, section)
np.save("small.npy", X[:, :, :3])
text, section = propose("field", "small.npy")
check("# [20, 2, 3, 8] f32 for f32[C=2, H=6, W=8]: sizes differ, set the model's arguments" in section
      and "offset: 1" in section, section)
text, _ = propose("field", "bad.npy")
check("bad.npy" in text and "1 NaN!" in text, "NaN is counted")

# One array as input and, some indices later, as target: one set of statistics, kept.
model("next", """model Next():
    input x: f32[N, C=%d, H=%d, W=%d]
    target t: f32[N, C=%d, H=%d, W=%d]
    y = x |> conv(%d, kernel=1) @c
    output y
    loss = mean((y - t)**2)
""" % (X.shape[1:] * 2 + X.shape[1:2]))
config("inputs: {x: {file: x.npy, normalize: standardize}}\ntargets: {t: {file: x.npy, offset: 1, normalize: "
       "standardize}}\nsplit: {valid: 0.5}")
pairs = samples("next", "valid")
kept = open("x.npy.statistics").read()
os.utime("x.npy.statistics", (1, 1))
same(pairs["x"][1:], pairs["t"][:-1], "the target is the next input, in the same numbers")
samples("next", "valid")
check(open("x.npy.statistics").read() == kept and os.path.getmtime("x.npy.statistics") == 1,
      "and its statistics are not computed again")

# ---- whole runs: the same points for any number of workers, stopped and resumed ----

for name, text, more in [("field", base, {}),
                         ("classes",
                          "inputs: {x: x.npy, mask: mask.npy, weight: b.h5:weight}\ntargets: {label: b.h5:label}\n"
                          "split: {valid: 0.2}", {}),
                         ("auto", "inputs: {x: signal.npy}\nsplit: {valid: 0.33}\ncrop: random", {"Nsamples": 20}),
                         ("box",
                          "inputs: {x: box.h5:x}\ntargets: {t: {file: box.h5, array: t, axes: [D, H, W, C]}}\n"
                          "split: {valid: 0.34}\ncrop: random\n"
                          "augment: {rotate: [D, H, W], flip: [W]}", {"Nsamples": 24, "Nsamples_val": 8})]:
    config(text, lr="1e-3", lr_schedule="none", **more)
    for workers, epochs in ((0, [2]), (3, [1, 2])):  # the second stops behind its first epoch, and goes on
        for n in epochs:
            done = run(BUILD + "/cli/dlrun", name + ".dl", "--yaml_config=c.yaml", f"--num_data_workers={workers}",
                       f"--expdir=runs_{name}_{workers}",
                       f"--num_epochs={n}", "--resume")
            check(done.returncode == 0, f"{name}: {done.stderr.decode()[-600:]}")
    logs = []
    for workers in (0, 3):
        rows = [json.loads(line) for line in open(f"runs_{name}_{workers}/{name}-default/1GPU/00/metrics.jsonl")]
        logs.append([(r["Loss/train"], r["Loss/valid"]) for r in rows])
    check(len(logs[0]) == 3 and logs[0] == logs[1],
          f"{name}: the same losses with 0 workers, and with 3 and resumed: {logs}")
    done = run(BUILD + "/cli/dlrun", name + ".dl",
               f"--yaml_config=runs_{name}_0/{name}-default/1GPU/00/hyperparams.yaml", f"--expdir=again_{name}")
    rows = [json.loads(line) for line in open(f"again_{name}/{name}-default/1GPU/00/metrics.jsonl")
            ] if done.returncode == 0 else done.stderr.decode()[-600:]
    check(rows and [(r["Loss/train"], r["Loss/valid"]) for r in rows] == logs[0],
          f"{name}: a run's record, run again: {rows}")

finish()
