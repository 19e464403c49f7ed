#!/usr/bin/env python3
"""NetCDF-3 files held against netCDF4: random variables of all three kinds, packed numbers, records, damage.

check_netcdf3.py BUILD
"""
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from checks import SHARE, check, finish
from datasets import BUILD, config, faults, model, run, same, samples

try:
    import netCDF4
    import numpy as np
except ImportError as missing:
    print(f"SKIP: {missing} (scripts/install-packages test)")
    sys.exit(77)

KINDS = {"NETCDF3_CLASSIC": ["i1", "i2", "i4", "f4", "f8"], "NETCDF3_64BIT_OFFSET": ["i1", "i2", "i4", "f4", "f8"],
         "NETCDF3_64BIT_DATA": ["i1", "i2", "i4", "f4", "f8", "u1", "u2", "u4", "i8", "u8"]}
draw, numbers = random.Random(4), np.random.default_rng(4)


def fields(kind, shape):
    if kind[0] == "f":
        return numbers.standard_normal(shape).astype(kind)
    info = np.iinfo(kind)
    # not the default fills
    return numbers.integers(max(info.min + 2, -2**40), min(info.max - 2, 2**40), shape, dtype=kind)


model("field",
      "model Field():\n    input x: f32[N, C=2, H=3, W=5]\n    y = mean(x, over=[C, H, W])\n    param p: [H=3] = 0\n"
      "    output y\n    loss = mean(y**2) + mean(p**2)\n")
for case in range(max(40 // SHARE, 6)):
    format = draw.choice(list(KINDS))
    records = draw.randrange(2, 7)
    wanted = {}
    with netCDF4.Dataset("a.nc", "w", format=format) as f:
        f.title = "x" * draw.randrange(9)
        f.createDimension("time", None)
        for name, size in (("level", 2), ("lat", 3), ("lon", 5)):
            f.createDimension(name, size)
        for i in range(draw.randrange(1, 5)):
            kind = draw.choice(KINDS[format])
            v = f.createVariable(f"v{i}", kind, ("time", "level", "lat", "lon"),
                                 fill_value=draw.choice([None, -3 if kind[0] != "u" else 3, False]))
            v.set_auto_maskandscale(False)
            if draw.random() < 0.5:
                v.scale_factor, v.add_offset = draw.choice([np.float32(0.5), 0.01]), 5.0
            v[:] = fields(kind, (records, 2, 3, 5))
            wanted[f"v{i}"] = kind
        for i in range(draw.randrange(3)):  # an odd number of bytes between them
            w = f.createVariable(f"w{i}", draw.choice(["i1", "i2", "S1"]),
                                 draw.choice([("time",), ("time", "lat"), ("lat",)]))
            w[:] = b"a" if w.dtype.kind == "S" else 1
    for name, kind in wanted.items():
        with netCDF4.Dataset("a.nc") as f:
            f[name].set_always_mask(False)
            want = np.ma.filled(f[name][:].astype("f8"), np.nan).astype("f4")
        config(f"inputs: {{x: {{file: a.nc, array: {name}, nan: -7}}}}\nsplit: {{valid: "
               f"{records / (records + 0.0001):.6f}, train: 0.000001}}")
        got = samples("field", "valid")
        same(got if isinstance(got, str) else got["x"], np.where(np.isnan(want), np.float32(-7), want),
             f"{case}: {format} {name} {kind}")

# ---- one record variable has no padding; a file whose records were not counted; damage ----

with netCDF4.Dataset("one.nc", "w", format="NETCDF3_CLASSIC") as f:
    f.createDimension("time", None), f.createDimension("x", 3)
    v = f.createVariable("v", "i1", ("time", "x"))
    v[:] = np.arange(21).reshape(7, 3)
model("line",
      "model Line():\n    input x: f32[N, F=3]\n    y = x |> linear(1) @l\n    output y\n    loss = mean(y**2)\n")
config("inputs: {x: 'one.nc:v'}\nsplit: {valid: [2, 7], train: [0, 2]}")
got = samples("line", "valid")
same(got if isinstance(got, str) else got["x"], np.arange(21, dtype="f4").reshape(7, 3)[2:],
     "a single record variable of odd length")
whole = open("one.nc", "rb").read()
open("one.nc", "wb").write(whole[:4] + b"\xff\xff\xff\xff" + whole[8:])
got = samples("line", "valid")
same(got if isinstance(got, str) else got["x"], np.arange(21, dtype="f4").reshape(7, 3)[2:],
     "records that were not counted")
open("one.nc", "wb").write(whole[:-6])
faults("line", "one.nc: 'v' is not whole: its numbers end at byte")
open("one.nc", "wb").write(whole[:40])
faults("line", "one.nc ends within its header")
open("one.nc", "wb").write(whole[:8] + b"\0\0\0\7" + whole[12:])
faults("line", "one.nc is damaged: its NetCDF-3 header is none at byte")
open("one.nc", "wb").write(whole[:4] + b"\0\0\0\0" + whole[8:])
faults("line", "one.nc: 'v' is empty: no record was written")

# ---- a long header; what dldata inspect says; levels ----

with netCDF4.Dataset("long.nc", "w", format="NETCDF3_64BIT_OFFSET") as f:
    f.history = "line\n" * 40000
    for name, size in (("time", None), ("level", 4), ("lat", 3), ("lon", 5)):
        f.createDimension(name, size)
    f.createVariable("level", "f4", ("level",))[:] = [1000, 850, 500, 250]
    t = f.createVariable("t", "f4", ("time", "lat", "lon"))
    t.units = "K"
    T, Z = fields("f4", (6, 3, 5)), fields("f4", (6, 4, 3, 5))
    t[:] = T
    f.createVariable("z", "f4", ("time", "level", "lat", "lon"))[:] = Z
config("inputs: {x: {file: long.nc, array: [t, {z: {level: 500}}]}}\nsplit: {valid: 0.5}")
got = samples("field", "valid")
same(got if isinstance(got, str) else got["x"], np.stack([T[3:], Z[3:, 2]], 1), "levels, and a header of 200 KB")
done = run(BUILD + "/cli/dldata", "inspect", "long.nc")
check(done.returncode == 0 and b"long.nc: NetCDF-3, " in done.stdout and b"t  f32 BE [6, 3, 5]" in done.stdout,
      done.stdout[:900] + done.stderr)

finish()
