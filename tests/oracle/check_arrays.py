"""Arrays of files, read by our readers and by NumPy and h5py: what is listed, and blocks with strides in every type.

check_arrays.py ARRAY_BLOCKS   (the program built from array_blocks.c); exit status 77: numpy or h5py is missing
"""
import json
import pathlib
import sys
import tempfile

from strict import check, finish

try:
    import h5py
    import numpy as np
    from arrays import PACKERS, STORED, Reader, draw_shape, numbers, write_zarr
except ImportError:
    print("SKIP: needs numpy and h5py")
    sys.exit(77)

READER = Reader(sys.argv[1])
listed, ask, compare = READER.listed, READER.ask, READER.compare


# NumPy's files -----------------------------------------------------------------------------------------------------

def check_npy(rng, folder):
    for kind in STORED:
        for order in "<>":
            for fortran in (False, True):
                data = numbers(rng, draw_shape(rng), kind).astype(np.dtype(kind).newbyteorder(order))
                path = folder / f"{np.dtype(kind).name}.npy"
                np.save(path, np.asfortranarray(data) if fortran else data)
                compare(rng, path, {"": data})
    large = rng.normal(size=(70, 300, 40)).astype("f4")  # more than one piece of scratch memory
    for order in (large, np.asfortranarray(large)):
        with open(folder / "large.npy", "wb") as f:  # the header's length has four bytes
            np.lib.format.write_array(f, order, version=(2, 0))
        compare(rng, folder / "large.npy", {"": large}, 20)
    for data, says in ((np.array(["a", "b"]), "not numbers"), (np.zeros(3, "c8"), "not numbers"),
                       (np.zeros(3, [("a", "f4")]), "not numbers")):
        np.save(folder / "odd.npy", data)
        got = ask(folder / "odd.npy", [("", "f32", [0], [1], [1])])[0]
        check(isinstance(got, str) and says in got, got)
    np.save(folder / "scalar.npy", np.float64(2.5))
    check(ask(folder / "scalar.npy", [("", "f32", [], [], [])])[0] == 2.5, "a scalar")
    whole = (folder / "large.npy").read_bytes()
    (folder / "cut.npy").write_bytes(whole[:-1])
    check("truncated" in ask(folder / "cut.npy", [("", "f32", [0], [1], [1])])[0], "a cut file")
    facts, form = listed(folder / "large.npy")
    check(form == "NumPy array" and facts[""][:4] == ["f32", "70,300,40", "", "none"], facts)


# HDF5 --------------------------------------------------------------------------------------------------------------

LAYOUTS = {
    "plain": {},
    "chunks": dict(chunks=True),
    "deflate": dict(chunks=True, compression="gzip"),
    "packed": dict(chunks=True, compression="gzip", compression_opts=1, shuffle=True, fletcher32=True),
    "checked": dict(chunks=True, fletcher32=True),
}


def check_hdf5(rng, folder):
    for libver in ("earliest", "latest"):
        for layout, options in LAYOUTS.items():
            path, arrays = folder / f"{layout}-{libver}.h5", {}
            with h5py.File(path, "w", libver=libver) as f:
                for kind in STORED:
                    for order in "<>":
                        data = numbers(rng, draw_shape(rng), kind).astype(np.dtype(kind).newbyteorder(order))
                        name = f"group/{np.dtype(kind).name}{'be' if order == '>' else ''}"
                        if options:
                            options["chunks"] = tuple(int(rng.integers(1, n + 1)) for n in data.shape)
                        arrays[name] = f.create_dataset(name, data=data, **options)[:]
            compare(rng, path, arrays, 4)
            compare(rng, path, arrays, 2, cache=0)


def check_attributes(folder):
    """NetCDF's: strings of both kinds, numbers, dimension scales."""
    with h5py.File(folder / "netcdf.h5", "w") as f:
        data = f.create_dataset("t2m", data=np.zeros((3, 4), "i2"))
        data.attrs["scale_factor"], data.attrs["_FillValue"] = 0.25, np.array([-999], "i2")
        data.attrs["units"], data.attrs["long_name"] = "K", np.bytes_("2 metre temperature")
        data.attrs["wide"] = np.zeros((9, 9))
        f["lat"], f["lon"] = np.arange(3.0), np.arange(4.0)
        for axis, name in enumerate(("lat", "lon")):
            f[name].make_scale(name)
            data.dims[axis].attach_scale(f[name])
        f["bare"] = np.zeros(3)
    facts, _ = listed(folder / "netcdf.h5")
    check(facts["t2m"][4] == "lat,lon", facts["t2m"])
    check(sorted(facts["t2m"][5].split(";")) ==
          ["_FillValue=-999", "long_name=2 metre temperature", "scale_factor=0.25", "units=K"],
          facts["t2m"])
    check(facts["bare"][4:6] == ["", ""] and "CLASS=DIMENSION_SCALE" in facts["lat"][5], facts)


def check_chunks(rng, folder):
    """Chunks that are not stored, too many to be placed, after a user block, damaged."""
    data = rng.normal(size=(60, 70)).astype("f4")
    with h5py.File(folder / "sparse.h5", "w") as f:
        sparse = f.create_dataset("x", (60, 70), "f4", chunks=(7, 9), fillvalue=2.5, compression="gzip")
        sparse[20:31, 8:40] = data[20:31, 8:40]
        whole = f.create_dataset("y", (60, 70), ">i2", chunks=(60, 10), fillvalue=-3)
        whole[:, 30:40] = 7
        arrays = {"x": sparse[:], "y": whole[:]}
    compare(rng, folder / "sparse.h5", arrays, 20)
    many = rng.normal(size=(50, 50)).astype("f8")
    for name, options in (("many.h5", {}), ("block.h5", dict(userblock_size=1024))):
        with h5py.File(folder / name, "w", **options) as f:
            f.create_dataset("x", data=many, chunks=(1, 1) if not options else (9, 11), shuffle=True,
                             compression="gzip")
            hole = f.create_dataset("y", (50, 50), "i4", chunks=(1, 1) if not options else (9, 11), fillvalue=4)
            hole[3:40:2] = 5
            arrays = {"x": many, "y": hole[:]}
        compare(rng, folder / name, arrays, 10)
        compare(rng, folder / name, arrays, 5, cache=0)
    for filters, says in ((dict(fletcher32=True), "checksum"), (dict(compression="gzip"), "does not unpack")):
        with h5py.File(folder / "damaged.h5", "w") as f:
            f.create_dataset("x", data=data, chunks=(60, 70), **filters)
            at = f["x"].id.get_chunk_info(0).byte_offset
        raw = bytearray((folder / "damaged.h5").read_bytes())
        raw[at + 100] ^= 1
        (folder / "damaged.h5").write_bytes(raw)
        got = ask(folder / "damaged.h5", [("x", "f32", [0, 0], [1, 1], [1, 1])])[0]
        check(isinstance(got, str) and says in got and "'x'" in got, got)


# NumPy's archives --------------------------------------------------------------------------------------------------

def check_npz(rng, folder):
    for save in (np.savez, np.savez_compressed):
        arrays = {f"a{i}": numbers(rng, draw_shape(rng), kind) for i, kind in enumerate(STORED)}
        arrays["f"] = np.asfortranarray(rng.normal(size=(30, 20, 7)))
        arrays["scalar"] = np.array(3.0)
        save(folder / "archive.npz", **arrays)
        facts, form = listed(folder / "archive.npz")
        check(form == "NumPy archive" and list(facts) == sorted(arrays), facts)
        check(facts["f"][3] == ("none" if save is np.savez else "deflate"), facts["f"])
        del arrays["scalar"]
        compare(rng, folder / "archive.npz", arrays)
        raw = bytearray((folder / "archive.npz").read_bytes())
        (folder / "cut.npz").write_bytes(raw[:-9])
        check("damaged zip" in ask(folder / "cut.npz", [("a1", "f32", [0], [1], [1])])[0], "a cut archive")


def check_flips(rng, folder):
    """A flipped bit of an archive is an error, wherever the block lies that is read; else the numbers are the written
    ones."""
    data = rng.normal(size=(40, 300)).astype("f4")
    refused = 0
    for save in (np.savez, np.savez_compressed):
        save(folder / "sound.npz", x=data)
        raw = (folder / "sound.npz").read_bytes()
        for bit in rng.integers(0, 8 * len(raw), 40).tolist() + [8 * (len(raw) // 2), 8 * 200]:
            flipped = bytearray(raw)
            flipped[bit // 8] ^= 1 << bit % 8
            (folder / "flipped.npz").write_bytes(flipped)
            got = ask(folder / "flipped.npz", [("x", "f32", [39, 290], [1, 10], [1, 1])])[0]
            refused += isinstance(got, str)
            check("flipped.npz" in got and got.split()[1] in ("3", "4") if isinstance(got, str)
                  else np.array_equal(got, data[39:, 290:]), f"bit {bit} of {save.__name__}: {got}")
            inside = 150 < bit // 8 < len(raw) - 150
            check(not inside or isinstance(got, str), f"bit {bit} of {save.__name__} is data")
    check(refused > 40, refused)


# Zarr ----------------------------------------------------------------------------------------------------------------

def check_zarr(rng, folder):
    for version in (2, 3):
        root, arrays = folder / f"z{version}", {}
        root.mkdir()
        if version == 2:
            (root / ".zgroup").write_text('{"zarr_format": 2}')
        else:
            (root / "zarr.json").write_text('{"zarr_format": 3, "node_type": "group", "attributes": {}}')
        for i, packer in enumerate(p for p in PACKERS if PACKERS[p][version - 2] or p == "none"):
            kind = np.dtype(str(rng.choice([k for k in STORED if k not in ("f2", "?")]))).newbyteorder("<>"[i % 2])
            data = numbers(rng, tuple(int(n) for n in rng.integers(2, 20, rng.integers(1, 4))), kind)
            data = data.astype(kind)
            fill = int(rng.integers(0, 100))
            arrays[packer] = write_zarr(rng, root / packer, data, version, packer, fill, str(rng.choice([".", "/"])))
        compare(rng, root, arrays)
        facts, form = listed(root)
        check(form == "Zarr" and sorted(facts) == sorted(arrays), facts)
        check("units=K" in facts["zstd"][5] and "scale_factor=0.5" in facts["zstd"][5]
              and facts["zstd"][4].startswith("t"), facts["zstd"])
        compare(rng, root / "zstd", {"": arrays["zstd"]})
        for chunk in (root / "zstd").rglob("*"):
            if chunk.is_file() and chunk.suffix != ".json" and not chunk.name.startswith(".z"):
                chunk.write_bytes(chunk.read_bytes()[:-3])
        whole = ("zstd", "f64", [0] * arrays["zstd"].ndim, list(arrays["zstd"].shape), [1] * arrays["zstd"].ndim)
        got = ask(root, [whole])[0]
        check(isinstance(got, str) and "does not unpack" in got, got)
    meta = json.loads((folder / "z3/zstd/zarr.json").read_text())
    def transposed(order):
        return {"codecs": [{"name": "transpose", "configuration": {"order": order}}] + meta["codecs"]}

    for change, says in (({"codecs": [{"name": "sharding_indexed", "configuration": {}}]}, "shards"),
                         (transposed([0] * (len(meta["shape"]) + 1)), "transpose"), (transposed("Z"), "transpose"),
                         (transposed([9] * len(meta["shape"])), "none of its axes"), (transposed(None), "transpose"),
                         ({"codecs": meta["codecs"] + transposed([0])["codecs"][:1]}, "'transpose'"),
                         ({"codecs": [*meta["codecs"], {"name": "numcodecs.delta"}]}, "'numcodecs.delta'"),
                         ({"codecs": []}, "lacks the codec 'bytes'"),
                         ({"data_type": "complex64"}, "complex64"),
                         ({"chunk_grid": {"name": "rectangular"}}, "chunks' shape"),
                         ({"shape": [-1]}, "'shape'"), ({"fill_value": "moon"}, "fill_value")):
        (folder / "z3/zstd/zarr.json").write_text(json.dumps({**meta, **change}))
        got = ask(folder / "z3/zstd",
                  [("", "f32", [0] * len(meta["shape"]), [1] * len(meta["shape"]), [1] * len(meta["shape"]))])[0]
        check(isinstance(got, str) and says in got, f"{says}: {got}")
    (folder / "nothing").mkdir()
    check("no Zarr array" in ask(folder / "nothing", [("", "f32", [], [], [])])[0], "an empty folder")


def main():
    rng = np.random.default_rng(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        check_npy(rng, folder)
        check_hdf5(rng, folder)
        check_attributes(folder)
        check_chunks(rng, folder)
        check_npz(rng, folder)
        check_flips(rng, folder)
        check_zarr(rng, folder)
    finish()


main()
