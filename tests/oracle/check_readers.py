"""Files of other programs held against those programs' own readers: HDF5 with filters, links and virtual sets.

check_readers.py ARRAY_BLOCKS [NAME...]   (the program built from array_blocks.c; the tests to run); exit status 77:
numpy or h5py is missing. A reader that is not installed skips its tests by name. DLC_TEST_DRAW=D draws others."""
import importlib
import os
import pathlib
import sys
import tempfile

from strict import check, finish

try:
    import h5py
    import numpy as np
    from arrays import Reader, numbers, zstd
except ImportError:
    print("SKIP: needs numpy and h5py")
    sys.exit(77)

READER = Reader(sys.argv[1])
DRAW = int(os.environ.get("DLC_TEST_DRAW", "0"))
TMP = pathlib.Path(tempfile.mkdtemp(prefix="readers-"))


def library(name):
    """A module of a reference reader, or None with a word about the skipped tests."""
    try:
        return importlib.import_module(name)
    except ImportError:
        print(f"SKIP: no {name} (scripts/install-packages test)")
        return None


def refuses(path, name, text):
    """The array is listed with this refusal, and opening it says the same."""
    listed, _ = READER.listed(path)
    check(text in listed[name][-1], f"{path.name} {name}: {listed[name]}")
    answer = READER.ask(path, [(name, "f32", [], [], [])])[0]
    check(isinstance(answer, str) and text in answer, f"{path.name} {name}: {answer}")


# ---- HDF5 ----


PLUGINS = sorted({str(p.parent) for p in pathlib.Path("/usr/lib").glob("*/hdf5/serial/plugins/libh5lz4.so")})
os.environ["HDF5_PLUGIN_PATH"] = ":".join(PLUGINS)  # before libhdf5 looks for any


def put_chunks(f, name, data, filter_number, pack):
    """A set in chunks along the first axis that this packs, by a filter that libhdf5 need not have."""
    how = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    how.set_chunk((1, *data.shape[1:])), how.set_filter(filter_number, h5py.h5z.FLAG_OPTIONAL, ())
    made = h5py.h5d.create(f.id, name.encode(), h5py.h5t.py_create(data.dtype), h5py.h5s.create_simple(data.shape), how)
    for i, row in enumerate(data):
        made.write_direct_chunk((i,) + (0,) * (data.ndim - 1), pack(row.tobytes()))


def test_hdf5_filters(rng):
    """Filters of other authors, alone and after a shuffle or a checksum, against the plugins that pack them."""
    packers = {"zstd": None}
    if PLUGINS:
        packers |= {"lz4": (32004, ()), "lz4-blocks": (32004, (64,)), "bzip2": (307, (1,))}
    else:
        print("SKIP: no plugins of libhdf5 (scripts/install-packages test)")
    if PLUGINS and h5py.h5z.filter_avail(32001):
        packers |= {f"blosc-{code}-{k}": (32001, (0, 0, 0, 0, 5, k, code)) for code in (0, 1, 4, 5) for k in (0, 1, 2)}
    path, arrays = TMP / "filters.h5", {}
    with h5py.File(path, "w") as f:
        for name, packer in packers.items():
            for extra in ({}, {"shuffle": True}, {"fletcher32": True}):
                kind = str(rng.choice(["f4", ">f8", "i2", ">u4", "u1"]))
                data = numbers(rng, (int(rng.integers(1, 30)), 7, 9), kind).astype(kind)
                full = "+".join([name, *extra])
                if packer:
                    f.create_dataset(full, data=data, chunks=(int(rng.integers(1, 1 + min(8, len(data)))), 4, 9),
                                     compression=packer[0], compression_opts=packer[1], **extra)
                else:
                    put_chunks(f, full, data, 32015, zstd)
                arrays[full] = data
        put_chunks(f, "bits", arrays["zstd"], 32008, bytes)
        stored = h5py.h5t.py_create(np.dtype("<i4")).copy()
        stored.set_precision(20)
        how = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        how.set_chunk((8,)), how.set_filter(32015, h5py.h5z.FLAG_OPTIONAL, ())
        made = h5py.h5d.create(f.id, b"odd", stored, h5py.h5s.create_simple((8,)), how)
        made.write_direct_chunk((0,), zstd(np.arange(8, dtype="i4").tobytes()))
    READER.compare(rng, path, arrays, n=3, whole=True)
    refuses(path, "bits", "is packed with filter 32008, bitshuffle, which is not supported. Unpack it: python3 -c ")
    refuses(path, "odd", "is packed with zstd and has numbers, edges or filters that libhdf5 alone reads")
    # a chunk that does not unpack is named
    for name in {"zstd", "lz4", "bzip2", "blosc-1-1"} & arrays.keys():
        with h5py.File(path) as f:
            about = f[name].id.get_chunk_info(0)
        if about.filter_mask:  # it did not shrink, and is stored as it is
            continue
        raw = bytearray(path.read_bytes())
        raw[about.byte_offset:about.byte_offset + about.size] = bytes(about.size)
        bad = TMP / "bad.h5"
        bad.write_bytes(raw)
        shape = arrays[name].shape
        answer = READER.ask(bad, [(name, "f64", [0] * 3, list(shape), [1] * 3)])[0]
        check(isinstance(answer, str) and "does not unpack" in answer and name in answer, f"{name}: {answer}")


def test_hdf5_own_filters(rng):
    """Filters of libhdf5 itself that its child process undoes."""
    path, arrays = TMP / "own.h5", {}
    with h5py.File(path, "w") as f:
        for name, kind, options in (("szip", "f4", {"compression": "szip", "compression_opts": ("nn", 8)}),
                                    ("scale", "i4", {"scaleoffset": 0}), ("decimals", "f4", {"scaleoffset": 3}),
                                    ("scale+gzip", "i2", {"scaleoffset": 0, "compression": "gzip"})):
            data = rng.integers(-50, 50, (20, 16)).astype(kind)
            f.create_dataset(name, data=data, chunks=(6, 16), **options)
            arrays[name] = f[name][:]
    READER.compare(rng, path, arrays, n=4, whole=True)


named = sys.argv[2:] or [name for name in list(globals()) if name.startswith("test_")]
for index, name in enumerate(named):
    globals()[name](np.random.default_rng([DRAW, index]))
finish()
