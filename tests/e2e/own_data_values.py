"""Of check_own_data.py: element types, channels, normalisation, missing values. Runs when it is imported."""
import gzip
import re

from checks import check
from datasets import BUILD, config, faults, model, run, same, samples, write
from own_data_files import T, X, h5py, np, random

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
check("channels 2" in kept[0] and "channels 1" in kept[1], "kept next to the data")
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
