"""Of check_own_data.py: files and containers, patterns of files, offsets and splits. Runs when it is imported."""
import gzip
import itertools
import json
import os
import sys

from checks import check
from datasets import config, faults, model, same, samples, write

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
same(got["x"], X[15:], "several files next to one"), same(got["t"], T[15:, None].astype("f4"),
                                                         "several files next to one")

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
same(got["x"], X[10:16], "before"), same(got["t"], T[14:20, None].astype("f4"), "after")

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
