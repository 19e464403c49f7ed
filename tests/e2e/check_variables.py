#!/usr/bin/env python3
"""An input's channels in several arrays: samples held against numpy and xarray, statistics, faults, predictions.

check_variables.py BUILD
"""
import os
import re
import sys

from checks import check, finish
from datasets import BUILD, config, faults, model, run, same, samples

try:
    import h5py
    import numpy as np
    import xarray as xr
except ImportError as missing:
    print(f"SKIP: {missing} (scripts/install-packages test)")
    sys.exit(77)

random = np.random.default_rng(11)
N, H, W, LEVELS = 24, 4, 6, [1000, 850, 500, 250]
data = {name: random.standard_normal((N, H, W)).astype("f4") for name in ("t2m", "u10", "v10")}
z = random.standard_normal((N, len(LEVELS), H, W)) * 50 + 5000
land = (random.random((H, W)) < 0.4).astype("f4")
wind = random.standard_normal((N, H, W, 2)).astype("f4")


def dataset(part):
    return xr.Dataset(
        {**{k: (("time", "lat", "lon"), v[part]) for k, v in data.items()},
         "z": (("time", "level", "lat", "lon"), z[part]),
         "lsm": (("lat", "lon"), land), "wind": (("time", "lat", "lon", "component"), wind[part])},
        coords={"level": np.array(LEVELS, "i4"), "lat": np.linspace(60, 50, H), "lon": np.arange(W) * 1.5,
                "time": np.arange(N)[part]})


packed = {"z": {"dtype": "i2", "scale_factor": 0.01, "add_offset": 5000.0, "_FillValue": -32767}}
dataset(slice(None)).to_netcdf("era.nc", encoding=packed)
for year in range(3):
    dataset(slice(8 * year, 8 * year + 8)).to_netcdf(f"era_{2000 + year}.nc", encoding=packed)
dataset(slice(None)).to_zarr("era.zarr")
unpacked = xr.open_dataset("era.nc")["z"].values.astype("f4")  # by another reader
with h5py.File("u.h5", "w") as f:
    f["u10"] = data["u10"]
    f["level"] = np.array(LEVELS)


def forecast(name, channels, width=0):
    model(name, f"""model Forecast():
    input x: f32[N, C={channels}, H={H}, W={W}]
    target t: f32[N, C={channels}, H={H}, W={W}]
    param p: [C={channels}] = 0
    y = x + p
    output y
    loss = mse_loss(y, t)
""")


three = np.stack([data["t2m"], data["u10"], data["v10"]], 1)
forecast("three", 3)
for source in ("{file: era.nc, array: [t2m, u10, v10]}", "{file: era.zarr, array: [t2m, u10, v10]}",
               "{file: 'era_*.nc', array: [t2m, u10, v10]}",
               "{file: era.nc, array: [t2m, {u10: {file: u.h5}}, v10]}",
               "{file: era.nc, array: [t2m, u10, v10], axes: [N, H, W]}",
               "{file: [era_2000.nc, era_2001.nc, era_2002.nc], array: [t2m, {u10: {file: u.h5, axes: [N, H, W]}}, "
               "v10]}"):
    config(f"inputs: {{x: {source}}}\ntargets: {{t: {source}}}\nsplit: {{valid: 0.25}}")
    got = samples("three", "valid")
    check(not isinstance(got, str), f"{source}: {got}")
    if not isinstance(got, str):
        same(got["x"], three[18:], source), same(got["t"], three[18:], source)
    got = samples("three")
    check(not isinstance(got, str) and {s.tobytes() for s in got["x"]} == {s.tobytes() for s in three[:18]},
          f"{source}: training has the rest")

# Levels by their coordinates in their order, an array without time, components along an axis of their own, augmentation
# of all alike.
seven = np.concatenate([data["t2m"][:, None], unpacked[:, [2, 1]], np.broadcast_to(land, (N, 1, H, W)),
                        np.moveaxis(wind, 3, 1), data["v10"][:, None]], 1)
forecast("seven", 7)
mixed = "{file: FILE, array: [t2m, {z: {level: [500, 850]}}, lsm, {wind: {axes: [N, H, W, C]}}, v10]MORE}"
for file in ("era.nc", "'era_*.nc'", "era.zarr"):
    source = mixed.replace("FILE", file).replace("MORE", "")
    config(f"inputs: {{x: {source}}}\ntargets: {{t: {source}}}\nsplit: {{valid: 0.25}}")
    got = samples("seven", "valid")
    check(not isinstance(got, str), f"{source}: {got}")
    if not isinstance(got, str):
        # which is not packed
        near = np.allclose(got["x"], seven[18:], rtol=1e-6, atol=0.006 if file == "era.zarr" else 1e-6)
        check(near, f"{source}: {np.abs(got['x'] - seven[18:]).max()}")
source = mixed.replace("FILE", "era.nc").replace("MORE", "")
config(f"inputs: {{x: {source}}}\ntargets: {{t: {source}}}\nsplit: {{valid: 0.25}}\naugment: {{flip: [H], shift: [W]}}")
got = samples("seven")
for x in [] if isinstance(got, str) else got["x"]:
    found = [(i, s, f) for i in range(18) for s in range(W) for f in (1, -1)
             if np.allclose(np.roll(seven[i], -s, 2)[:, ::f], x, rtol=1e-6, atol=1e-6)]
    check(len(found) == 1, f"all channels are moved alike: {found}")
check(not isinstance(got, str), got)
config(f"inputs: {{x: {{file: era.nc, array: [{{z: {{level: 250}}}}, {{z: {{level: [1000, 500]}}}}]}}}}\n"
       f"targets: {{t: {{file: era.nc, array: {{z: {{level: [250, 1000, 500]}}}}}}}}\nsplit: {{valid: 0.25}}")
got = samples("three", "valid")
check(not isinstance(got, str), got)
if not isinstance(got, str):
    same(got["x"], got["t"],
         "one axis of levels, and three of it"), check(np.allclose(got["x"], unpacked[18:][:, [3, 0, 2]], rtol=1e-6),
                                                       "levels")
# Levels as they are often stored, in f32, which holds no tenth: each is found by the number that people write.
DEPTHS = np.array([0.07, 0.28, 1.1, 2.89], "f4")
soil = random.standard_normal((N, 4, H, W)).astype("f4")
xr.Dataset({"stl": (("time", "depth", "lat", "lon"), soil)}, coords={"depth": DEPTHS}).to_netcdf("soil.nc")
config(f"inputs: {{x: {{file: soil.nc, array: {{stl: {{depth: [2.89, 0.07, 1.1]}}}}}}}}\n"
       f"targets: {{t: {{file: soil.nc, array: {{stl: {{depth: [0.28, 1.1, 2.89]}}}}}}}}\nsplit: {{valid: 0.25}}")
got = samples("three", "valid")
check(not isinstance(got, str), got)
if not isinstance(got, str):
    same(got["x"], soil[18:][:, [3, 0, 2]], "depths in f32"), same(got["t"], soil[18:][:, [1, 2, 3]], "others")

# Columns of a table: a model without C has them along its first axis.
model("table",
      "model Table():\n    input x: f32[N, F=3]\n    target t: f32[N]\n    y = sum(x |> linear(1) @fc, over=F)\n"
      "    output y\n    loss = mse_loss(y, t)\n")
columns = random.standard_normal((3, 40)).astype("f4")
np.savez("table.npz", a=columns[0], b=columns[1], c=columns[2].astype("f8"))
config("inputs: {x: {file: table.npz, array: [a, b, c], normalize: standardize}}\ntargets: {t: table.npz:a}\n"
       "split: {valid: 0.25}")
got = samples("table", "valid")
check(not isinstance(got, str), got)
if not isinstance(got, str):
    want = (columns[:, 30:] - columns[:, :30].mean(1, "f8")[:, None]) / columns[:, :30].astype("f8").std(1)[:, None]
    check(np.allclose(got["x"], want.T, atol=2e-6), "columns, each by its own mean and deviation")

# A channel has the statistics of its own array, whichever list it is in; they are kept for each array.
source = mixed.replace("FILE", "'era_*.nc'").replace("MORE", ", normalize: standardize")
config(f"inputs: {{x: {source}}}\ntargets: {{t: {source}}}\nsplit: {{valid: 0.25}}")
got = samples("seven", "valid")
check(not isinstance(got, str), got)
mean, std = seven[:18].mean((0, 2, 3), "f8")[:, None, None], seven[:18].astype("f8").std((0, 2, 3))[:, None, None]
if not isinstance(got, str):
    check(np.allclose(got["x"], (seven[18:] - mean) / std, atol=3e-5),
          f"standardize: {np.abs(got['x'] - (seven[18:] - mean) / std).max()}")
for name in ("t2m", "z", "lsm", "wind", "v10"):
    check(os.path.exists(f"era_2000.nc.{name}.statistics"), f"statistics of {name} are kept")
source = mixed.replace("FILE", "era.nc").replace("MORE", ", mean: [1, 2, 3, 4, 5, 6, 7], std: [1, 2, 1, 2, 1, 2, 1]")
config(f"inputs: {{x: {source}}}\ntargets: {{t: {source}}}\nsplit: {{valid: 0.25}}")
got = samples("seven", "valid")
want = (seven[18:] - np.arange(1, 8, dtype="f4")[:, None, None]) / np.array([1, 2, 1, 2, 1, 2, 1], "f4")[:, None, None]
check(not isinstance(got, str) and np.allclose(got["x"], want, rtol=1e-6, atol=1e-6), "mean and std by channel")

# 69 variables, as forecasts have them; 40 inputs.
names = [f"v{i:02}" for i in range(69)]
many = random.standard_normal((10, 69, H, W)).astype("f4") * np.arange(1, 70, dtype="f4")[:, None, None]
with h5py.File("many.h5", "w") as f:
    for i, name in enumerate(names):
        f.create_dataset(name, data=many[:, i], chunks=(1, H, W), compression="gzip")
forecast("many", 69)
source = f"{{file: many.h5, array: [{', '.join(names)}], normalize: standardize}}"
config(f"inputs: {{x: {source}}}\ntargets: {{t: {source[:-1]}, offset: 1}}}}\nsplit: {{valid: 0.4}}")
got = samples("many", "valid")
mean, std = (f(many[:5 + 1], (0, 2, 3), "f8")[:, None, None] for f in (np.mean, np.std))
check(not isinstance(got, str), got)
if not isinstance(got, str):
    # of pairs: the last of the part has no target
    mean, std = (f(many[:5], (0, 2, 3), "f8")[:, None, None] for f in (np.mean, np.std))
    check(np.allclose(got["t"][:-1], got["x"][1:]) and np.allclose(got["x"], (many[6:9] - mean) / std, atol=1e-5),
          "69 variables and the next time")
model("inputs",
      "model Inputs():\n" + "".join(f"    input x{i}: f32[N, F=2]\n" for i in range(40)) +
      "    target t: f32[N, F=2]\n    param p: [F=2] = 0\n    y = " +
      " + ".join(f"x{i}" for i in range(40)) + " + p\n    output y\n    loss = mse_loss(y, t)\n")
forty = random.standard_normal((41, 10, 2)).astype("f4")
np.savez("forty.npz", **{f"a{i}": forty[i] for i in range(41)})
config("inputs: {" + ", ".join(f"x{i}: 'forty.npz:a{i}'" for i in range(40)) +
       "}\ntargets: {t: 'forty.npz:a40'}\nsplit: {valid: 0.2}", lr=0.0, num_epochs=1)
got = samples("inputs", "valid")
check(not isinstance(got, str) and all(np.array_equal(got[f"x{i}"], forty[i, 8:]) for i in range(40)), "40 inputs")
done = run(BUILD + "/cli/dlrun", "inputs.dl", "--yaml_config=c.yaml", "--expdir=runs_inputs")
check(done.returncode == 0, f"a run of 40 inputs: {done.stderr.decode()[-500:]}")
done = run(BUILD + "/cli/dlrun", "predict", "runs_inputs/inputs-default/1GPU/00",
           *[f"x{i}=forty.npz:a{i}" for i in range(40)], "-o", "forty.npy")
check(done.returncode == 0 and np.allclose(np.load("forty.npy"), forty[:40].sum(0), atol=1e-5),
      f"a prediction of 40 inputs: {done.stderr.decode()[-500:]}")

# ---- predictions: a run's record finds the arrays by their names, levels by their coordinates ----


def trained(name, source, more="", targets=None):
    config(f"inputs: {{x: {source}}}\ntargets: {{t: {targets or source}}}\nsplit: {{valid: 0.25}}\n{more}", lr=0.0,
           num_epochs=1)
    done = run(BUILD + "/cli/dlrun", name + ".dl", "--yaml_config=c.yaml", f"--expdir=runs_{name}")
    check(done.returncode == 0, f"{name}: {done.stderr.decode()[-600:]}")
    return f"runs_{name}/{name}-default/1GPU/00"


def predicted(folder, file, *options, status=0):
    done = run(BUILD + "/cli/dlrun", "predict", folder, file, "-o", "p.npy", *options)
    check(done.returncode == status, f"{folder}, {file}: {done.returncode} {done.stderr.decode()}")
    return np.load("p.npy") if done.returncode == 0 else done.stderr.decode()


folder = trained("seven", mixed.replace("FILE", "'era_*.nc'").replace("MORE", ", normalize: standardize"))
for file in ("era.nc", "era.zarr"):
    got = predicted(folder, file)
    check(not isinstance(got, str) and got.shape == seven.shape and np.allclose(got, seven, rtol=1e-5, atol=1e-4),
          f"the model returns its input: {file}")
ordered = dataset(slice(None)).isel(level=[3, 1, 0, 2])
ordered.to_netcdf("ordered.nc", encoding=packed)
got = predicted(folder, "ordered.nc")
check(not isinstance(got, str) and np.allclose(got, seven, rtol=1e-5, atol=1e-4), "levels in another order are found")
np.save("whole.npy", seven)
got = predicted(folder, "whole.npy")
check(not isinstance(got, str) and np.allclose(got, seven, rtol=1e-5, atol=1e-4), "one array that has all channels")
check("no array 'u10'" not in predicted(folder, "u.h5", status=3)
      and "no array 't2m'" in predicted(folder, "u.h5", status=3), "an array that is missing")
ordered.sel(level=[1000, 500]).to_netcdf("fewer.nc")
check("'z': its axis level has no level 850; it has: 1000, 500" in predicted(folder, "fewer.nc", status=3),
      "a level that is missing")
done = run(BUILD + "/cli/dlrun", "predict", folder, "era.nc", "-o", "p.npy", "--metrics", "--target=era.nc")
rmse = [float(r) for r in re.search(r"RMSE (.*)", done.stdout.decode() + "RMSE 9").group(1).split()]
check(done.returncode == 0 and len(rmse) == 7 and max(rmse) < 1e-3, done.stdout + done.stderr)
folder = trained("three", "{file: era.nc, array: [t2m, u10, v10]}",
                 targets="{file: era.nc, array: [t2m, u10, v10], offset: 1}")
done = run(BUILD + "/cli/dlrun", "predict", folder, "era.nc", "-o", "p.npy", "--metrics")
want, rmse = np.sqrt(np.mean((three[1:].astype("f8") - three[:-1])**2,
                             (0, 2, 3))), re.search(r"RMSE (.*)", done.stdout.decode() + "RMSE 9")
check(done.returncode == 0 and np.allclose([float(r) for r in rmse.group(1).split()], want, rtol=1e-4),
      f"{want}: {done.stdout.decode()} {done.stderr.decode()}")

# ---- faults, by place ----

base = "inputs: {x: SOURCE}\ntargets: {t: {file: era.nc, array: [t2m, u10, v10]}}\nsplit: {valid: 0.25}"
for source, want in [
        ("{file: era.nc, array: [t2m, u11, v10]}", "data.inputs.x: era.nc has no array 'u11'; it holds: "),
        ("{file: era.nc, array: [t2m, u10]}",
         "the 2 arrays have 2 channels together, and the model's 'x' is f32[C=3, H=4, W=6]"),
        ("{file: era.nc, array: [t2m, z]}", "the 2 arrays have 5 channels together"),
        ("{file: era.nc, array: [t2m, {z: {level: [500, 700]}}]}",
         "'z' is [24, 4, 4, 6]; its axis level has no level 700; it has: 1000, 850, 500, 250"),
        ("{file: era.nc, array: [t2m, {z: {height: [500, 850]}}]}",
         "it has no axis named 'height': its axes are [time, level, lat, lon]"),
        ("{file: era.nc, array: [t2m, {z: {level: [500], height: 3}}]}",
         "data.inputs.x.array.z has two axes of levels, 'level' and 'height'"),
        ("{file: era.nc, array: [t2m, {z: {level: [500, 850], channels: [0]}}]}",
         "channels and level say the same twice"),
        ("{file: era.nc, array: [t2m, {z: {level: high}}]}",
         "data.inputs.x.array.z.level must be the levels that are taken: a number or a list"),
        ("{file: era.nc, array: [t2m, {z: 500}]}",
         "data.inputs.x.array.z must be a map of its own, as {level: [500, 850]}, not '500'"),
        ("{file: era.nc, array: [t2m, 3, v10]}", "data.inputs.x.array must be the name of an array, or a list"),
        ("{file: era.nc, array: []}", "data.inputs.x.array must be"),
        ("{file: era.nc, array: [t2m, u10, v10], channels: [0, 1]}",
         "data.inputs.x.channels is of one array, and it has 3"),
        ("{file: era.nc, array: [t2m, {u10: {file: short.npz}}, v10]}",
         "data.inputs.x: t2m has 24 samples in 1 files (era.nc), and data.inputs.x: u10 20"),
        ("{file: era.nc, array: [t2m, {u10: {file: wide.npz}}, v10]}", "W=6 of the model's 'x' is not its 8 elements"),
        ("{file: u.h5, array: [{u10: {level: [1, 2, 3]}}]}",
         "it has no axis named 'level': its axes are [(no name), (no name), (no name)]")]:
    np.savez("short.npz", u10=data["u10"][:20]), np.savez("wide.npz", u10=np.zeros((N, H, 8), "f4"))
    config(base.replace("SOURCE", source))
    faults("three", want)
with h5py.File("bad.h5", "w") as f:
    for name, a in data.items():
        f[name] = a
    f["u10"][20, 1, 2] = np.nan
config(base.replace("SOURCE", "{file: bad.h5, array: [t2m, u10, v10]}"))
text = samples("three", "valid")
check(isinstance(text, str) and "data.inputs.x: bad.h5: 'u10' is [24, 4, 6]; [20, 1, 2] is nan" in text,
      f"a value is named with its array: {text}")
swapped = dataset(slice(8, 16)).isel(level=[1, 0, 2, 3])
swapped.to_netcdf("era_2001.nc", encoding=packed)
config("inputs: {x: {file: 'era_*.nc', array: [t2m, {z: {level: [500, 850]}}]}}\n"
       "targets: {t: {file: 'era_*.nc', array: [t2m, u10, v10]}}\nsplit: {valid: 0.25}")
faults("three", "its levels along level are at other indices than those of era_2000.nc")

# ---- what dldata inspect proposes ----

for files, want in ((["u.h5", "three.npz"],
                     "x: {file: 'three.npz', array: ['t2m', 'u10', 'v10'], normalize: standardize}  # 3 of [24, 4, 6] "
                     "f32 for f32[C=3, H=4, W=6]"),):
    np.savez("three.npz", **data)
    done = run(BUILD + "/cli/dldata", "inspect", *files, "three.dl")
    text = done.stdout.decode()
    check(done.returncode == 0 and want in text
          and "t: {file: 'three.npz', array: ['t2m', 'u10', 'v10'], offset: 1" in text,
          text[-900:] + done.stderr.decode())
    with open("c.yaml", "w") as f:
        f.write("default:\n  local_batch_size: 1\n" + text[text.index("  data:\n"):])
    done = run(BUILD + "/cli/dlc", "check", "three.dl", "--yaml_config=c.yaml")
    check(done.returncode == 0, f"it passes: {done.stderr.decode()}")

finish()
