"""Arrays that are listed and not read: the message has a command, and what that leaves is read and is the same numbers.
Each row of runtime/data/array_odd.c is run, for the formats that have such arrays.

check_remedies.py ARRAY_BLOCKS DEF   (the program built from array_blocks.c; array_odd.c); exit status 77: numpy or h5py
is missing. What needs a package that is not there is named."""
import importlib
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

from formats import run_again
from strict import check, finish

try:
    import h5py
    import numpy as np
    from arrays import Reader
except ImportError:
    print("SKIP: needs numpy and h5py")
    sys.exit(77)

READER, TABLE = Reader(sys.argv[1]), pathlib.Path(sys.argv[2]).read_text()
TMP = pathlib.Path(tempfile.mkdtemp(prefix="remedies-"))
REAL, IMAG = np.arange(6, dtype="f4").reshape(2, 3), np.arange(6, 12, dtype="f4").reshape(2, 3)
COMPLEX = (REAL + 1j * IMAG).astype("c8")
RECORDS = np.array([(1.5, 2), (3.5, 4)], [("a", "f4"), ("b", "i4")])
NINE = np.arange(8, dtype="f4").reshape(2, 1, 1, 2, 1, 1, 1, 2, 1)
PARTS = {"real": REAL, "imag": IMAG}
FIELDS = {"a": RECORDS["a"], "b": RECORDS["b"]}
WORDS = np.array(["no", "yes", "no"])
run_rows, missing = set(), []


def module(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        print(f"not run, for there is no {name}")
        missing.append(name)
        return None


def convert(path, name, wanted):
    """Runs the message's command with the names of this file and array for IN and NAME; {name: array} of OUT."""
    listed, _ = READER.listed(path)
    message = listed[name][-1]
    answer = READER.ask(path, [(name, "f32", [], [], [])])[0]
    check(isinstance(answer, str) and message[:60] in answer, f"{path.name} {name}: {answer}")
    found = re.search(r'python3 (-c "[^"]*")', message)
    check(found, f"{path.name} {name} has a remedy: {message}")
    if not found:
        return
    for out in TMP.glob("OUT*"):
        out.unlink()
    command = re.sub(r"\bIN\b", str(path.relative_to(TMP)), found.group(1)).replace("'NAME'", f"'{name}'")
    done = subprocess.run(f"{sys.executable} {command}", shell=True, cwd=TMP, capture_output=True, text=True)
    check(done.returncode == 0, f"{path.name} {name}: {command}: {done.stderr[-400:]}")
    for out in TMP.glob("OUT*"):
        for key, data in wanted.items():
            n = list(data.shape)
            got = READER.ask(out, [(key, "f64", [0] * len(n), n, [1] * len(n))])[0]
            check(not isinstance(got, str) and np.array_equal(got, data, equal_nan=data.dtype.kind == "f"),
                  f"{path.name} {name} {key}: {command}: {got}")
            run_rows.update(re.findall(r'numpy\.save[^"]*', command))
    check(list(TMP.glob("OUT*")), f"{path.name} {name}: {command} writes a file")


def test_numpy():
    for name, data, wanted in (("complex", COMPLEX, PARTS), ("records", RECORDS, FIELDS),
                               ("words", WORDS, {"": np.array([0, 1, 0])}),
                               ("times", np.arange(3).astype("M8[s]"), {"": np.arange(3)}),
                               ("wide", np.arange(3, dtype="longdouble"), {"": np.arange(3)}),
                               ("objects", np.array([1, 2.5], object), {"": np.array([1, 2.5])})):
        np.save(TMP / f"{name}.npy", data)
        convert(TMP / f"{name}.npy", "", wanted)
        np.savez(TMP / f"{name}.npz", x=data)
        convert(TMP / f"{name}.npz", "x", wanted)


def test_hdf5():
    path = TMP / "odd.h5"
    with h5py.File(path, "w") as f:
        f["complex"], f["g/records"], f["words"], f["nine"] = COMPLEX, RECORDS, WORDS.tolist(), NINE
        pairs = h5py.h5t.array_create(h5py.h5t.IEEE_F32LE, (2, 2))
        h5py.h5d.create(f.id, b"small", pairs, h5py.h5s.create_simple((2,)))
        f["small"][...] = np.arange(8, dtype="f4").reshape(2, 2, 2)
        lists = f.create_dataset("lists", (2,), h5py.vlen_dtype("i4"))
        lists[0], lists[1] = [1, 2], [3, 4]
        f["reference"] = f["complex"].ref
    for name, wanted in (("complex", PARTS), ("g/records", FIELDS), ("words", {"": np.array([0, 1, 0])}),
                         ("nine", {"": NINE.reshape(2, 1, 1, 2, 1, 1, 1, 2)}),
                         ("small", {"": np.arange(8).reshape(2, 2, 2)}), ("lists", {"": np.array([[1, 2], [3, 4]])})):
        convert(path, name, wanted)
    said = READER.listed(path)[0]["reference"][-1]
    check(said == "holds references, not numbers that can be read", said)
    with h5py.File(TMP / "latest.h5", "w", libver="latest") as f:  # which libhdf5 1.10 does not read if 2.0 wrote it
        f.create_dataset("x", data=REAL, chunks=(1, 3), compression="gzip")
    if h5py.version.hdf5_version_tuple >= (2, 0, 0):
        convert(TMP / "latest.h5", "x", {"": REAL})
    with h5py.File(TMP / "external.h5", "w") as f:
        f.create_dataset("x", data=REAL, external=[(str(TMP / "external.raw"), 0, REAL.nbytes)])
    convert(TMP / "external.h5", "x", {"": REAL})


def test_filters():
    if not module("hdf5plugin"):
        return
    plugin = importlib.import_module("hdf5plugin")
    with h5py.File(TMP / "filters.h5", "w") as f:
        f.create_dataset("x", data=REAL, chunks=(1, 3), **plugin.Bitshuffle())
    said = READER.listed(TMP / "filters.h5")[0]["x"][-1]
    command = re.search(r'python3 (-c ".*")', said).group(1).replace("IN.h5", "filters.h5").replace("NAME", "x")
    subprocess.run(f"{sys.executable} {command}", shell=True, cwd=TMP, check=True)
    READER.compare(np.random.default_rng(0), TMP / "OUT.h5", {"x": REAL}, n=2, whole=True)


def test_zarr():
    zarr = module("zarr")
    if not zarr:
        return
    codecs = importlib.import_module("numcodecs")
    more = {"zarr_format": 2} if zarr.__version__[0] >= "3" else {}
    group = zarr.open_group(str(TMP / "odd.zarr"), mode="w", **more)
    make = group.create_array if more else group.create_dataset
    for name, data, options in (("complex", COMPLEX, {}), ("nine", NINE, {}),
                                ("packed", REAL, {"compressors" if more else "compressor": codecs.LZMA()}),
                                ("filter", REAL.astype("i4"), {"filters": [codecs.Delta("i4")]})):
        make(name, shape=data.shape, chunks=data.shape, dtype=data.dtype, **options)[...] = data
    for name, wanted in (("complex", PARTS), ("nine", {"": NINE.reshape(2, 1, 1, 2, 1, 1, 1, 2)}),
                         ("packed", {"": REAL}), ("filter", {"": REAL})):
        convert(TMP / "odd.zarr", name, wanted)
    convert(TMP / "odd.zarr/packed", "", {"": REAL})


def test_netcdf3():
    netcdf = module("netCDF4")
    if not netcdf:
        return
    with netcdf.Dataset(TMP / "odd.nc", "w", format="NETCDF3_CLASSIC") as f:
        f.createDimension("n", 3), f.createDimension("letters", 3)
        f.createVariable("words", "S1", ("n", "letters"))[:] = netcdf.stringtochar(WORDS.astype("S3"))
    convert(TMP / "odd.nc", "words", {"": np.array([0, 1, 0])})


def test_nifti():
    nibabel = module("nibabel")
    if not nibabel:
        return
    colours = np.zeros((2, 3, 4), [(c, "u1") for c in "RGB"])
    colours["G"] = np.arange(24).reshape(2, 3, 4)
    nibabel.Nifti1Image(colours, np.eye(4)).to_filename(TMP / "colours.nii.gz")
    convert(TMP / "colours.nii.gz", "", {c: colours[c] for c in "RGB"})
    nibabel.Nifti1Image(COMPLEX[..., None], np.eye(4)).to_filename(TMP / "complex.nii")
    convert(TMP / "complex.nii", "", {k: v[..., None] for k, v in PARTS.items()})


def test_fits():
    if not module("astropy"):
        return
    fits = importlib.import_module("astropy.io.fits")
    image = np.arange(600, dtype="i4").reshape(20, 30)
    table = fits.BinTableHDU.from_columns([fits.Column("a", "E", array=np.arange(4.0)),
                                           fits.Column("b", "2J", array=np.arange(8).reshape(4, 2))], name="TABLE")
    fits.HDUList([fits.PrimaryHDU(), table, fits.CompImageHDU(image, name="PACKED")]).writeto(TMP / "odd.fits")
    convert(TMP / "odd.fits", "TABLE", {"a": np.arange(4), "b": np.arange(8).reshape(4, 2)})
    convert(TMP / "odd.fits", "PACKED", {"hdu0": image})
    groups = fits.GroupData(REAL.reshape(2, 1, 3), parnames=["p"], pardata=[np.arange(2.0)], bitpix=-32)
    fits.HDUList([fits.GroupsHDU(groups)]).writeto(TMP / "groups.fits")
    convert(TMP / "groups.fits", "hdu0", {"": REAL.reshape(2, 1, 3)})


def test_matlab():
    if not module("scipy"):
        return
    io, sparse = importlib.import_module("scipy.io"), importlib.import_module("scipy.sparse")
    io.savemat(TMP / "odd.mat", {"complex": COMPLEX, "record": {"a": 1.0, "b": REAL}, "words": WORDS,
                                 "cells": np.array([REAL, IMAG.T], object), "sparse": sparse.csc_matrix(REAL)})
    for name, wanted in (("complex", PARTS), ("record", {"a": np.array([[1.0]]), "b": REAL}),
                         ("words", {"": np.array([0, 1, 0])}), ("cells", {"c0": REAL, "c1": IMAG.T}),
                         ("sparse", {"": REAL})):
        convert(TMP / "odd.mat", name, wanted)


def bits_tiff(bits, width):
    """One row of pixels of one bit."""
    fields = [(256, 4, width), (257, 4, 1), (258, 3, 1), (259, 3, 1), (262, 3, 1), (273, 4, 8), (277, 3, 1),
              (278, 4, 1), (279, 4, len(bits))]
    body = bits + b"\0" * (len(bits) % 2)
    text = struct.pack("<H", len(fields))
    for tag, kind, value in fields:
        text += struct.pack("<HHI", tag, kind, 1) + struct.pack("<I", value)
    return b"II" + struct.pack("<HI", 42, 8 + len(body)) + body + text + bytes(4)


def test_tiff():
    tifffile = module("tifffile")
    if not tifffile:
        return
    stack = np.arange(4 * 5 * 6, dtype="u2").reshape(4, 5, 6)
    (TMP / "bits.tif").write_bytes(bits_tiff(b"\xa5\x80", 9))
    convert(TMP / "bits.tif", "", {"": np.array([[1, 0, 1, 0, 0, 1, 0, 1, 1]])})
    tifffile.imwrite(TMP / "hidden.tif", stack, truncate=True, photometric="minisblack")
    convert(TMP / "hidden.tif", "", {"": stack})
    volume = np.arange(16 * 16 * 32, dtype="u2").reshape(16, 16, 32)
    tifffile.imwrite(TMP / "volume.tif", volume, volumetric=True, tile=(16, 16, 16), photometric="minisblack")
    convert(TMP / "volume.tif", "", {"": volume})
    tifffile.imwrite(TMP / "complex.tif", COMPLEX, photometric="minisblack")
    convert(TMP / "complex.tif", "", PARTS)


def test_parquet():
    pandas = module("pyarrow") and module("pandas")
    if not pandas:
        return
    decimal = importlib.import_module("decimal")
    short = np.array([[1.0, 2.0], [np.nan] * 2, [3.0, np.nan]])
    frame = pandas.DataFrame({"words": list(WORDS), "lists": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]],
                              "short": [[1.0, 2.0], None, [3.0]], "inner": [[[1.0]], [[2.0]], [[3.0]]],
                              "records": [{"a": 1, "b": {"c": 4.0}}, {"a": 2, "b": {"c": 5.0}}, None],
                              "decimals": [decimal.Decimal(n) / 2 for n in range(3)], "x": [1.0, 2.0, 3.0]})
    frame.to_parquet(TMP / "odd.parquet")
    for name, wanted in (("words", np.array([0, 1, 0])), ("lists", np.arange(1.0, 7.0).reshape(3, 2)), ("short", short),
                         ("inner", np.arange(1.0, 4.0).reshape(3, 1, 1)), ("decimals", np.arange(3) / 2)):
        convert(TMP / "odd.parquet", name, {"": wanted})
    convert(TMP / "odd.parquet", "records", {"a": np.array([1, 2, np.nan]), "b.c": np.array([4, 5, np.nan])})
    arrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    pairs = arrow.array([[("k", 1.0)], [("k", 2.0), ("j", 3.0)]], arrow.map_(arrow.string(), arrow.float64()))
    parquet.write_table(arrow.table({"pairs": pairs}), TMP / "pairs.parquet")
    convert(TMP / "pairs.parquet", "pairs", {"k": np.array([1.0, 2.0]), "j": np.array([np.nan, 3.0])})
    frame[["x"]].to_parquet(TMP / "brotli.parquet", compression="brotli")
    convert(TMP / "brotli.parquet", "x", {"": np.array([1.0, 2.0, 3.0])})


for name, test in list(globals().items()):
    if name.startswith("test_"):
        test()
whole = re.sub(r'"\s*"', "", TABLE)
rows = set(re.findall(r'"(numpy\.savez?\([^"]*)"', whole))
check(len(rows) > 10, rows)
if not missing:
    check(rows <= run_rows, f"rows that no format has: {rows - run_rows}")
run_again(check)
finish()
