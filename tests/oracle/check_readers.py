"""Files of other programs held against those programs' own readers: HDF5 with filters; and Zarr in shards by its specification.

check_readers.py ARRAY_BLOCKS [NAME...]   (the program built from array_blocks.c; the tests to run); exit status 77:
numpy or h5py is missing. A reader that is not installed skips its tests by name. DLC_TEST_DRAW=D draws others."""
import gzip
import importlib
import json
import os
import pathlib
import struct
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


# ---- Zarr ----


def crc32c(data):
    """Of RFC 3720, a bit at a time."""
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return struct.pack("<I", crc ^ 0xffffffff)


def write_shards(folder, data, shard, chunk, packer, place, order, dropped):
    """By the specification of sharding_indexed, version 1.0; chunks whose number is in `dropped` are left out."""
    configure = lambda name, **keys: {"name": name, "configuration": keys}
    pack, codec = {"none": (bytes, []), "zstd": (zstd, [configure("zstd", level=3, checksum=False)]),
                   "gzip": (lambda b: gzip.compress(b, 1), [configure("gzip", level=1)])}[packer]
    meta = {"zarr_format": 3, "node_type": "array", "shape": list(data.shape), "data_type": str(data.dtype),
            "chunk_grid": configure("regular", chunk_shape=list(shard)), "fill_value": 7, "attributes": {},
            "chunk_key_encoding": configure("default", separator="/"),
            "codecs": [configure("sharding_indexed", chunk_shape=list(chunk), index_location=place,
                                 codecs=[configure("bytes", endian="big" if order == ">" else "little"), *codec],
                                 index_codecs=[configure("bytes", endian="little"), {"name": "crc32c"}])]}
    folder.mkdir()
    (folder / "zarr.json").write_text(json.dumps(meta))
    number = 0
    for at in np.ndindex(*[-(-n // s) for n, s in zip(data.shape, shard)]):
        full = np.full(shard, 7, data.dtype)
        part = data[tuple(slice(i * s, (i + 1) * s) for i, s in zip(at, shard))]
        full[tuple(slice(n) for n in part.shape)] = part
        index, body, head = b"", b"", 16 * int(np.prod([s // c for s, c in zip(shard, chunk)])) + 4
        for inner in np.ndindex(*[s // c for s, c in zip(shard, chunk)]):
            where = tuple(slice(i * c, (i + 1) * c) for i, c in zip(inner, chunk))
            number += 1
            if number in dropped:
                index += struct.pack("<QQ", 2**64 - 1, 2**64 - 1)
                data[tuple(slice(a * s, None) for a, s in zip(at, shard))][where] = 7
                continue
            packed = pack(full[where].astype(full.dtype.newbyteorder(order)).tobytes())
            index += struct.pack("<QQ", len(body) + (head if place == "start" else 0), len(packed))
            body += packed
        index += crc32c(index)
        path = folder.joinpath("c", *map(str, at))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(index + body if place == "start" else body + index)
    return data


def test_zarr_shards(rng):
    """Shards with an index before or after the chunks, edges, chunks that are not stored; damage."""
    for case in range(6):
        chunk = [int(n) for n in rng.integers(1, 5, 3)]
        shard = [c * int(n) for c, n in zip(chunk, rng.integers(1, 4, 3))]
        data = numbers(rng, [int(n) for n in rng.integers(1, 17, 3)], str(rng.choice(["f4", "i2", "u4", "f8"])))
        folder = TMP / f"shards{case}.zarr"
        data = write_shards(folder, data, shard, chunk, ["none", "zstd", "gzip"][case % 3], ["end", "start"][case % 2],
                            "<>"[case // 3], set(map(int, rng.integers(1, 9, 2))))
        READER.compare(rng, folder, {"": data}, n=6, whole=True)
    path = TMP / "shards0.zarr/c/0/0/0"
    raw = path.read_bytes()
    path.write_bytes(raw[:-5] + bytes([raw[-5] ^ 1]) + raw[-4:])
    answer = READER.ask(TMP / "shards0.zarr", [("", "f64", [0] * 3, [1] * 3, [1] * 3)])[0]
    check(isinstance(answer, str) and "the checksum of the index of" in answer, answer)
    path.write_bytes(raw[:3])
    answer = READER.ask(TMP / "shards0.zarr", [("", "f64", [0] * 3, [1] * 3, [1] * 3)])[0]
    check(isinstance(answer, str) and "is shorter than its index" in answer, answer)


named = sys.argv[2:] or [name for name in list(globals()) if name.startswith("test_")]
for index, name in enumerate(named):
    globals()[name](np.random.default_rng([DRAW, index]))
finish()
