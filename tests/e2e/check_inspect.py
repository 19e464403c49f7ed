#!/usr/bin/env python3
"""dldata inspect of files as programs write them: names of axes, units, times, missing numbers; and the section that it
proposes trains as it is.

check_inspect.py BUILD
"""
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from checks import check, finish

try:
    import h5py
    import netCDF4
    import numpy as np
    import xarray
except ImportError as missing:
    print(f"SKIP: {missing} (scripts/install-packages test)")
    sys.exit(77)

BUILD, HERE = os.path.abspath(sys.argv[1]), os.path.dirname(os.path.abspath(__file__))
os.chdir(tempfile.mkdtemp(prefix="inspect-"))
numbers = np.random.default_rng(7)


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    return done.returncode, done.stdout


def model(name, text):
    with open(f"{name}.dl", "w") as f:
        f.write("model M():\n" + "".join(f"    {line}\n" for line in text))


def proposed(model_file, *files, says=()):
    """The section is pasted into a configuration, and a run of it ends well."""
    status, said = run(BUILD + "/cli/dldata", "inspect", *files, model_file)
    check(status == 0 and all(word in said for word in says), f"{files}: {said}")
    section = said[said.index("  data:\n"):]
    with open("c.yaml", "w") as f:
        f.write(f"c:\n  model: {model_file}\n  global_batch_size: 2\n  num_epochs: 1\n  lr: 0.001\n" + section)
    status, trained = run(BUILD + "/cli/dlrun", "c.yaml")
    check(status == 0 and "DONE" in trained, f"{files}: {section}{trained[-900:]}")
    return section


CONV = ["y = x |> conv(C, 3, pad=1) @c", "output y", "loss = mse_loss(y, t)"]


def test_weather():
    """ERA5-like: packed variables, levels, times, coordinates."""
    with netCDF4.Dataset("era.nc", "w") as f:
        for name, size in (("time", 24), ("level", 2), ("latitude", 8), ("longitude", 12)):
            f.createDimension(name, size)
        times = f.createVariable("time", "i4", ("time",))
        times.units, times[:] = "hours since 1900-01-01 00:00:0.0", np.arange(24) * 6 + 1051896
        f.createVariable("level", "i4", ("level",))[:] = [500, 850]
        t = f.createVariable("t2m", "i2", ("time", "latitude", "longitude"), fill_value=-32767)
        t.scale_factor, t.add_offset, t.units, t.long_name = 0.01, 280.0, "K", "2 metre temperature"
        t[:] = 280 + 10 * numbers.random((24, 8, 12))
        f.createVariable("z", "f4", ("time", "level", "latitude", "longitude"))[:] = numbers.random((24, 2, 8, 12))
    model("era", ["input x: f32[N, C=3, H=8, W=12]", "target t: f32[N, C=3, H, W]", *CONV])
    section = proposed("era.dl", "era.nc", says=(
        "axes: time, level, latitude, longitude", "units: K", "long_name: 2 metre temperature", "missing: -32767",
        "from 2020-01-01 00:00 to 2020-01-06 18:00", "stored * 0.01"))
    check("array: ['t2m', 'z']" in section and "offset: 1" in section, section)


def test_zarr():
    """A store of xarray's, variables next to one another."""
    data = {name: (("time", "lat", "lon"), numbers.random((12, 8, 12)).astype("f4"), {"units": "m/s"}) for name in "uv"}
    xarray.Dataset(data, {"time": np.arange("2020-01-01", "2020-01-13", dtype="datetime64[D]")}).to_zarr("wind.zarr")
    model("wind", ["input x: f32[N, C=2, H=8, W=12]", "target t: f32[N, C=2, H, W]", *CONV])
    section = proposed("wind.dl", "wind.zarr", says=("axes: time, lat, lon", "units: m/s", "from 2020-01-01 00:00"))
    check("array: ['u', 'v']" in section, section)


def wind(file, names="uv", times=12, **encoding):
    """A file of xarray's with these variables."""
    data = {name: (("time", "lat", "lon"), numbers.random((times, 8, 12)).astype("f4")) for name in names}
    xarray.Dataset(data, {"time": np.arange(times)}).to_netcdf(file, encoding=encoding)


WIND = ["input x: f32[N, C=2, H=8, W=12]", "target t: f32[N, C=2, H, W]", *CONV]


def test_files():
    """A file a year; a file a variable; a name with colons, as WRF has them."""
    model("wind", WIND)
    for year in (2001, 2002, 2003):
        wind(f"wind_{year}.nc")
    section = proposed("wind.dl", "wind_2001.nc", "wind_2002.nc", "wind_2003.nc")
    check("file: 'wind_*.nc', array: ['u', 'v']" in section, section)
    wind("u850.nc", "u"), wind("q850.nc", "q")
    section = proposed("wind.dl", "u850.nc", "q850.nc")
    check("{file: 'u850.nc', array: ['u', {'q': {file: 'q850.nc'}}]" in section, section)
    wind("wrfout_d01_2020-01-01_00:00:00")
    section = proposed("wind.dl", "wrfout_d01_2020-01-01_00:00:00")
    check("{file: 'wrfout_d01_2020-01-01_00:00:00', array: ['u', 'v']" in section, section)


def test_gaps():
    """Numbers that are missing get the mean, and the remark says why."""
    model("wind", WIND)
    wind("gaps.nc")
    with netCDF4.Dataset("gaps.nc", "a") as f:
        f["v"][3, 2:4, 5] = np.nan
    section = proposed("wind.dl", "gaps.nc")
    check(section.count("normalize: standardize, nan: 0}  # numbers are missing; ") == 2, section)


def test_groups():
    """A simulation in each group, as PDEBench has them; parts for training and validation in one file."""
    with h5py.File("swe.h5", "w") as f:
        for i in range(4):
            f[f"{i:04d}/data"] = numbers.random((6, 8, 12, 2)).astype("f4")
            f[f"{i:04d}/grid/x"] = np.arange(8.0)
    model("wind", WIND)
    section = proposed("wind.dl", "swe.h5")
    check(section.count("array: '*/data', axes: [time, H, W, C]") == 2 and "trajectory: {time: 0, lead: 1}" in section,
          section)
    np.savez("parts.npz", x_test=numbers.random((10, 8, 12, 2)), x_train=numbers.random((12, 8, 12, 2)))
    section = proposed("wind.dl", "parts.npz")
    check(section.count("array: 'x_train'") == 2 and "offset: 1" in section, section)
    np.save("turned.npy", np.asfortranarray(numbers.random((12, 2, 8, 12))))
    proposed("wind.dl", "turned.npy", says=("turned.npy: NumPy array, ", "0.5"))


def test_trajectories():
    """[simulations, times, H, W, components], as The Well has them; with and without a history."""
    with h5py.File("well.h5", "w") as f:
        f["t1_fields/velocity"] = numbers.random((6, 9, 8, 12, 2)).astype("f4")
    model("well", ["input x: f32[N, C=2, H=8, W=12]", "target t: f32[N, C=2, H, W]", *CONV])
    section = proposed("well.dl", "well.h5")
    check("trajectory: {sim: 0, time: 1, lead: 1}" in section and "axes: [sim, time, H, W, C]" in section, section)
    model("past", ["input x: f32[N, T=3, C=2, H=8, W=12]", "target t: f32[N, C=2, H, W]",
                   "y = mean(x, over=T) |> conv(2, 3, pad=1) @c", "output y", "loss = mse_loss(y, t)"])
    check("history: 3}" in proposed("past.dl", "well.h5"), "a history")


def test_fields():
    """The Well's fields of several ranks as channels; PDEBench's array next to coordinates of the same size."""
    with h5py.File("fields.h5", "w") as f:
        for name in ("density", "pressure"):
            f[f"t0_fields/{name}"] = numbers.random((6, 9, 8, 12)).astype("f4")
        f["t1_fields/velocity"] = numbers.random((6, 9, 8, 12, 2)).astype("f4")
        f["dimensions/x"], f["dimensions/time"] = np.arange(8.0), np.arange(9.0)
    model("fields", ["input x: f32[N, C=4, H=8, W=12]", "target t: f32[N, C=4, H, W]", *CONV])
    section = proposed("fields.dl", "fields.h5")
    check("['t0_fields/density', 't0_fields/pressure', {'t1_fields/velocity': {axes: [sim, time, H, W, C]}}]" in section
          and "trajectory: {sim: 0, time: 1, lead: 1}" in section, section)
    with h5py.File("pde.h5", "w") as f:
        f["tensor"], f["x-coordinate"] = numbers.random((6, 9, 16)).astype("f4"), np.arange(16.0)
    model("pde", ["input u: f32[N, C=1, W=16]", "target t: f32[N, C=1, W]", CONV[0].replace("x |>", "u |>"), *CONV[1:]])
    check("array: 'tensor', axes: [sim, time, W]" in proposed("pde.dl", "pde.h5"), "simulations, not coordinates")


def test_table():
    """Columns of a CSV file: an input of three and a class."""
    with open("flowers.csv", "w") as f:
        f.write("a,b,c,kind\n" + "".join(f"{i},{i % 3},{i * i},{i % 2}\n" for i in range(40)))
    status, said = run(BUILD + "/cli/dldata", "inspect", "flowers.csv")
    check(status == 0 and "CSV, 0.0 MiB, 4 arrays" in said and "kind  decimal numbers [40]" in said, said)
    model("flowers", ["input x: f32[N, C=3]", "target kind: i64[N]", "y = x |> linear(2) @last as [N, K]", "output y",
                      "loss = cross_entropy(y, kind)"])
    section = proposed("flowers.dl", "flowers.csv")
    check("array: ['a', 'b', 'c'], normalize" in section and "array: 'kind'}" in section, section)
    with open("wide.csv", "w") as f:  # more columns than the model takes
        f.write("a,b,c,d,e,kind\n" + "".join(f"{i},{i % 3},{i * i},{i % 5},{-i},{i % 2}\n" for i in range(40)))
    section = proposed("flowers.dl", "wide.csv")
    check("array: ['a', 'b', 'c'], normalize" in section and "; 2 more that fit, left out\n" in section, section)
    shutil.copy(os.path.join(HERE, "../fuzz/corpus/arrays/snappy.parquet"), "table.parquet")
    model("table", ["input d: f32[N, C=1]", "target yes: i64[N]", "y = d |> linear(2) @last as [N, K]", "output y",
                    "loss = cross_entropy(y, yes)"])
    check("axes: [N], normalize" in proposed("table.dl", "table.parquet", says=("Parquet, ",)), "a column")


def test_matlab():
    """A row of labels, which MATLAB has as a matrix."""
    if not importlib.util.find_spec("scipy"):
        print("SKIP: no scipy (scripts/install-packages test)")
        return
    import scipy.io
    scipy.io.savemat("d.mat", {"x": numbers.random((20, 3)), "y": np.arange(20) % 2})
    model("mat", ["input x: f32[N, C=3]", "target y: i64[N]", "z = x |> linear(2) @last as [N, K]", "output z",
                  "loss = cross_entropy(z, y)"])
    check("array: 'y', axes: [1, N]}" in proposed("mat.dl", "d.mat"), "an axis of one element")


def test_fits():
    """Images and classes of unsigned numbers, which FITS stores with an offset; read as the classes that they are."""
    if not importlib.util.find_spec("astropy"):
        print("SKIP: no astropy (scripts/install-packages test)")
        return
    from astropy.io import fits
    for kind in ("u2", "u8"):
        classes = fits.ImageHDU(numbers.integers(0, 3, (12, 8, 12)).astype(kind), name="CLASSES")
        image = fits.PrimaryHDU(numbers.random((12, 8, 12)).astype("f4"))
        fits.HDUList([image, classes]).writeto("sky.fits", overwrite=True)
        model("sky", ["input x: f32[N, C=1, H=8, W=12]", "target classes: i64[N, H, W]",
                      "y = x |> conv(3, 3, pad=1) @c", "output y", "loss = cross_entropy(y, classes)"])
        section = proposed("sky.dl", "sky.fits", says=("stored * 1 + ",))
        check("array: 'CLASSES'" in section, section)


def test_tiff():
    """Stacks whose names differ in more than a number; pages in files."""
    if not importlib.util.find_spec("tifffile"):
        print("SKIP: no tifffile (scripts/install-packages test)")
        return
    import tifffile
    for name, data in (("scan2.tif", numbers.random((12, 8, 12)).astype("f4")),
                       ("scan_mask.tif", numbers.integers(0, 2, (12, 8, 12)).astype("u1")),
                       ("scan7b.tif", np.zeros((2, 3), "u1"))):
        tifffile.imwrite(name, data, photometric="minisblack")
    model("cells", ["input x: f32[N, C=1, H=8, W=12]", "target mask: i64[N, H, W]", "y = x |> conv(2, 3, pad=1) @c",
                    "output y", "loss = cross_entropy(y, mask)"])
    section = proposed("cells.dl", "scan2.tif", "scan_mask.tif")
    check("x: {file: 'scan2.tif', axes: [N, H, W], normalize" in section and "mask: {file: 'scan_mask.tif'}" in section,
          section)
    for i in range(4):
        tifffile.imwrite(f"part{i}.tif", numbers.random((8, 12)).astype("f4"), photometric="minisblack")
    tifffile.imwrite("partly.tif", np.zeros((2, 3), "u1"))
    model("tile", ["input x: f32[N, C=1, H=8, W=12]", "target t: f32[N, C=1, H, W]", *CONV])
    section = proposed("tile.dl", *[f"part{i}.tif" for i in range(4)])
    check("x: {file: 'part[0-9]*.tif', axes: [H, W]," in section, section)


def test_hdf5():
    """PDEBench's fields next to coordinates; MATLAB 7.3; arrays with the model's names; libver=latest."""
    with h5py.File("cfd.hdf5", "w") as f:
        for name in ("Vx", "Vy"):
            f[name] = numbers.random((5, 7, 8, 12)).astype("f4")
        f["x-coordinate"], f["y-coordinate"], f["t-coordinate"] = np.arange(8.0), np.arange(12.0), np.arange(8.0)
    model("wind", WIND)
    section = proposed("wind.dl", "cfd.hdf5")
    check("array: ['Vx', 'Vy']" in section and "trajectory: {sim: 0, time: 1, lead: 1}" in section, section)
    model("one", ["input x: f32[N, C=1, H=8, W=12]", "target t: f32[N, C=1, H, W]", *CONV])
    for file, options in (("latest.h5", {"libver": "latest"}), ("v73.mat", {"userblock_size": 512})):
        with h5py.File(file, "w", **options) as f:
            for name in "xt":
                f.create_dataset(name, data=numbers.random((20, 8, 12)), chunks=(3, 8, 12), maxshape=(None, 8, 12))
                f[name].attrs["MATLAB_class"] = np.bytes_("double")
        if file.endswith(".mat"):
            with open(file, "r+b") as f:
                f.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\0\2IM")
        section = proposed("one.dl", file)
        check(section.count("axes: [N, H, W], normalize") == 2, section)


def test_engines():
    """The forms of NetCDF that xarray's engines write, packed and with levels."""
    model("wind", WIND)
    model("levels", ["input x: f32[N, C=6, H=8, W=12]", "target t: f32[N, C=6, H, W]", *CONV])
    engines = [("netcdf4", form) for form in ("NETCDF4", "NETCDF4_CLASSIC", "NETCDF3_CLASSIC", "NETCDF3_64BIT")]
    engines += [("scipy", form) for form in ("NETCDF3_CLASSIC", "NETCDF3_64BIT") if importlib.util.find_spec("scipy")]
    engines += [("h5netcdf", "NETCDF4")] if importlib.util.find_spec("h5netcdf") else []
    for engine, form in engines:
        axes = ("time", "level", "lat", "lon")
        for name, dims, size in (("wind", (axes[0], *axes[2:]), (12, 8, 12)), ("levels", axes, (12, 3, 8, 12))):
            data = xarray.Dataset({k: (dims, numbers.random(size).astype("f4")) for k in "uv"}, {"time": np.arange(12)})
            packed = {"u": {"dtype": "i2", "scale_factor": 1e-4, "add_offset": 0.5, "_FillValue": -32768}}
            data.to_netcdf(f"{name}.nc", engine=engine, format=form, encoding=packed, unlimited_dims=["time"])
            section = proposed(f"{name}.dl", f"{name}.nc", says=("axes: time, ",))
            check("array: ['u', 'v']" in section and "offset: 1" in section, f"{engine} {form}: {section}")


def test_shards():
    """Stores of Zarr v2, v3 and v3 in shards, written by the specifications."""
    sys.path.insert(0, os.path.join(HERE, "../oracle"))
    import arrays
    model("wind", WIND)
    data = numbers.random((24, 2, 8, 12)).astype("f4")
    for name, write in (("v2", lambda at: arrays.write_zarr(numbers, at, data, 2, "zlib", 0, ".")),
                        ("v3", lambda at: arrays.write_zarr(numbers, at, data, 3, "gzip", 0, "/")),
                        ("shards", lambda at: arrays.write_shards(at, data, (8, 2, 8, 12), (1, 2, 8, 12), "zstd", "end",
                                                                  "<", ()))):
        write(pathlib.Path(f"{name}.zarr"))
        section = proposed("wind.dl", f"{name}.zarr")
        check(f"x: {{file: '{name}.zarr', normalize" in section and "offset: 1" in section, section)


def test_volumes():
    """A volume of NIfTI: axes, voxels, units."""
    if not importlib.util.find_spec("nibabel"):
        print("SKIP: no nibabel (scripts/install-packages test)")
        return
    import nibabel
    image = nibabel.Nifti1Image(numbers.random((8, 9, 10)).astype("f4"), np.diag([2, 2, 3, 1.0]))
    image.header.set_xyzt_units("mm")
    image.to_filename("v.nii.gz")
    status, said = run(BUILD + "/cli/dldata", "inspect", "v.nii.gz")
    check(status == 0 and "v.nii.gz: NIfTI, " in said and "axes: x, y, z" in said and
          "voxel: 2 mm x 2 mm x 3 mm" in said, said)
    for i in range(4):
        nibabel.Nifti1Image(numbers.random((8, 12, 4)).astype("f4"), np.eye(4)).to_filename(f"s-0{i}_T1w.nii.gz")
        mask = (numbers.random((8, 12, 4)) < 0.5).astype("u1")
        nibabel.Nifti1Image(mask, np.eye(4)).to_filename(f"s-0{i}_seg.nii.gz")
    model("brain", ["input x: f32[N, C=1, D=4, H=12, W=8]", "target seg: f32[N, C=1, D, H, W]",
                    "y = x |> conv(1, 3, pad=1) @c", "output y", "loss = mse_loss(y, seg)"])
    section = proposed("brain.dl", "s-00_T1w.nii.gz", "s-00_seg.nii.gz")
    check("x: {file: 's-*_T1w.nii.gz', axes: [W, H, D], normalize" in section
          and "seg: {file: 's-*_seg.nii.gz', axes: [W, H, D]}" in section, section)


for name, test in list(globals().items()):
    if name.startswith("test_"):
        test()
finish()
