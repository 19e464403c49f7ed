"""What the oracles of arrays in files share: the program that reads them, draws of types, shapes, numbers and blocks,
and Zarr folders, written by the specifications and packed by the libraries themselves."""
import bz2
import ctypes
import gzip
import itertools
import json
import struct
import subprocess
import zlib

import numpy as np
from crc32c import crc32c
from strict import check

WANTED = {"f32": "f4", "f64": "f8", "i8": "i1", "i16": "i2", "i32": "i4", "i64": "i8", "u8": "u1", "u16": "u2",
          "u32": "u4",
          "u64": "u8", "bool": "?"}
STORED = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"]


def fits(data, kind):
    """Whether every number is exactly one of that whole type."""
    if not np.issubdtype(kind, np.integer) or data.dtype == bool:
        return True
    if np.issubdtype(data.dtype, np.floating) and not (np.isfinite(data).all() and (data == np.trunc(data)).all()):
        return False
    limits = np.iinfo(kind)
    return all(limits.min <= int(v) <= limits.max for v in data.ravel())


def draw_block(rng, shape):
    start, count, stride = [], [], []
    for n in shape:
        step = int(rng.choice([1, 1, 1, 2, 3, n]))
        first = int(rng.integers(n))
        start.append(first), stride.append(step), count.append(int(rng.integers(1, (n - 1 - first) // step + 2)))
    if rng.random() < 0.25:  # whole
        start, count, stride = [0] * len(shape), list(shape), [1] * len(shape)
    return start, count, stride


def numbers(rng, shape, kind):
    kind = np.dtype(kind).newbyteorder("=")
    if kind == bool:
        return rng.random(shape) < 0.5
    if kind.kind == "f":
        data = np.round(rng.normal(0, 40, shape), int(rng.integers(0, 2)))  # whole ones, too
        if rng.random() < 0.3:
            data[tuple(int(rng.integers(n)) for n in shape)] = rng.choice([np.nan, np.inf, 6e4, -6e-8])
        return data.astype(kind)
    limits = np.iinfo(kind)
    if rng.random() < 0.5:
        return rng.integers(0, 100, shape).astype(kind)
    return rng.integers(limits.min, limits.max, shape, dtype=kind, endpoint=True)


def draw_shape(rng):
    return tuple(int(rng.integers(1, most + 1))
                 for most in rng.permutation([150, 9, 5, 3, 2, 1, 1, 2])[:rng.integers(1, 9)])


class Reader:
    """The program built from array_blocks.c."""

    def __init__(self, program):
        self.program = program

    def listed(self, path):
        """{name: (type, shape, chunk, packing, axes, attributes, refusal)}, and the format."""
        done = subprocess.run([self.program, str(path)], stdout=subprocess.PIPE, text=True)
        check(done.returncode == 0, f"{path}: {done.stdout}")
        lines = done.stdout.splitlines()
        return {row.split("\t")[0]: row.split("\t")[1:] for row in lines[1:]}, lines[0]

    def ask(self, path, questions, cache=1 << 20):
        """The answers to (name, type, start, count, stride): arrays, or error texts."""
        text = "\n".join(" ".join(map(str, [name or "-", kind, len(start), *start, *count, *stride]))
                         for name, kind, start, count, stride in questions)
        done = subprocess.run([self.program, str(path), str(cache)], input=text.encode(), stdout=subprocess.PIPE)
        if done.returncode:
            return [done.stdout.decode().strip()] * len(questions)
        raw, at, answers = done.stdout, 0, []
        for name, kind, start, count, stride in questions:
            end = raw.index(b"\n", at)
            word, rest = raw[at:end].decode().split(" ", 1)
            at = end + 1
            if word == "ok":
                answers.append(np.frombuffer(raw[at:at + int(rest)], WANTED[kind]).reshape(count))
                at += int(rest)
            else:
                answers.append(f"error {rest}")
        check(at == len(raw), f"{path}: nothing after the last answer")
        return answers

    def compare(self, rng, path, arrays, n=8, cache=1 << 20, whole=False):
        """Random blocks of every array of a file, in random types, next to NumPy's; `whole`: first all of it as it
        is."""
        questions, wanted = [], []
        for name, data in arrays.items():
            for i in range(n):
                kind = str(rng.choice(list(WANTED)))
                if rng.random() < 0.4 and data.dtype.newbyteorder("=").kind == "f":
                    kind = "f32"
                start, count, stride = draw_block(rng, data.shape)
                if whole and i == 0:
                    start, count, stride = [0] * data.ndim, list(data.shape), [1] * data.ndim
                    kind = next((k for k, v in WANTED.items() if np.dtype(v) == data.dtype.newbyteorder("=")), "f32")
                block = data[tuple(slice(a, a + (c - 1) * s + 1, s) for a, c, s in zip(start, count, stride))]
                questions.append((name, kind, start, count, stride))
                wanted.append((block, kind))
        for question, got, (block, kind) in zip(questions, self.ask(path, questions, cache), wanted):
            about = f"{path.name} {question} of {block.dtype}"
            if fits(block, WANTED[kind]):
                check(not isinstance(got, str), f"{about}: {got}")
                with np.errstate(all="ignore"):
                    want = block.astype(WANTED[kind])
                check(np.array_equal(got, want, equal_nan=kind[0] == "f"), f"{about}: {got} is not {want}")
            else:
                check(isinstance(got, str) and path.name in got and "no whole number" in got, f"{about}: {got}")


def blosc(data, size, name, shuffle):
    library = ctypes.CDLL("libblosc.so.1")
    out = ctypes.create_string_buffer(len(data) + 16)
    n = library.blosc_compress_ctx(5, shuffle, ctypes.c_size_t(size), ctypes.c_size_t(len(data)), data, out,
                                   ctypes.c_size_t(len(out)), name.encode(), ctypes.c_size_t(0), 1)
    check(n > 0, "blosc packs")
    return out.raw[:n]


def zstd(data):
    library = ctypes.CDLL("libzstd.so.1")
    library.ZSTD_compress.restype = library.ZSTD_compressBound.restype = ctypes.c_size_t
    out = ctypes.create_string_buffer(library.ZSTD_compressBound(ctypes.c_size_t(len(data))))
    n = library.ZSTD_compress(out, ctypes.c_size_t(len(out)), data, ctypes.c_size_t(len(data)), 3)
    return out.raw[:n]


def lz4(data):
    """As numcodecs has it: the size, and one block."""
    library = ctypes.CDLL("liblz4.so.1")
    out = ctypes.create_string_buffer(library.LZ4_compressBound(len(data)))
    n = library.LZ4_compress_default(data, out, len(data), len(out))
    return len(data).to_bytes(4, "little") + out.raw[:n]


PACKERS = {  # version 2's compressor, version 3's codec, and what packs
    "none": (None, None, lambda data, size: data),
    "zlib": ({"id": "zlib", "level": 1}, None, lambda data, size: zlib.compress(data)),
    "gzip": ({"id": "gzip", "level": 1}, {"name": "gzip", "configuration": {"level": 1}},
             lambda data, size: b"".join(gzip.compress(part) for part in (data[:9], data[9:]))),  # two members
    "zstd": ({"id": "zstd", "level": 3}, {"name": "zstd", "configuration": {"level": 3}}, lambda data,
             size: zstd(data)),
    "bz2": ({"id": "bz2", "level": 1}, {"name": "numcodecs.bz2", "configuration": {"level": 1}},
            lambda data, size: bz2.compress(data)),
    "lz4": ({"id": "lz4", "acceleration": 1}, {"name": "numcodecs.lz4", "configuration": {"acceleration": 1}},
            lambda data, size: lz4(data)),
}
for code, mode in itertools.product(("lz4", "zstd", "zlib", "blosclz"), (0, 1, 2)):
    PACKERS[f"{code}-{mode}"] = ({"id": "blosc", "cname": code, "clevel": 5, "shuffle": mode},
                                 {"name": "blosc", "configuration": {
        "cname": code, "clevel": 5, "shuffle": ["noshuffle", "shuffle", "bitshuffle"][mode]}},
        lambda data, size, code=code, mode=mode: blosc(data, size, code, mode))


def chunks_of(data, chunk, fill):
    """(place in the grid, the whole chunk); the last ones are filled up."""
    for at in itertools.product(*(range(-(-n // c)) for n, c in zip(data.shape, chunk))):
        part = data[tuple(slice(k * c, (k + 1) * c) for k, c in zip(at, chunk))]
        whole = np.full(chunk, fill, data.dtype)
        whole[tuple(slice(0, n) for n in part.shape)] = part
        yield at, whole


def write_zarr(rng, folder, data, version, packer, fill, separator):
    """Leaves out about a third of the chunks, which are then the fill value; returns what a reader sees."""
    chunk = tuple(int(rng.integers(1, n + 1)) for n in data.shape)
    order = str(rng.choice(["C", "F"])) if version == 2 else "C"
    turned, turns = list(range(data.ndim)), []
    for _ in range(int(rng.integers(3)) if version == 3 else 0):  # the codec transpose, which may stand twice
        turn = [int(k) for k in rng.permutation(data.ndim)]
        turns.append({"name": "transpose", "configuration": {"order": turn}})
        turned = [turned[k] for k in turn]
    compressor, codec, pack = PACKERS[packer]
    folder.mkdir(parents=True)
    if version == 2:
        meta = {"zarr_format": 2, "shape": data.shape, "chunks": chunk, "dtype": data.dtype.str, "order": order,
                "compressor": compressor, "filters": None, "fill_value": fill, "dimension_separator": separator}
        (folder / ".zarray").write_text(json.dumps(meta))
        (folder / ".zattrs").write_text(json.dumps({"units": "K", "scale_factor": 0.5,
                                                    "_ARRAY_DIMENSIONS": ["t", "y", "x"][:data.ndim]}))
    else:
        order_of = {"name": "bytes", "configuration": {"endian": "big" if data.dtype.byteorder == ">" else "little"}}
        meta = {"zarr_format": 3, "node_type": "array", "shape": data.shape, "data_type": data.dtype.name,
                "fill_value": fill,
                "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
                "chunk_key_encoding": {"name": "default", "configuration": {"separator": separator}},
                "codecs": turns + [order_of] + ([codec] if codec else []),
                "attributes": {"units": "K", "scale_factor": 0.5},
                "dimension_names": ["t", "y", "x"][:data.ndim]}
        (folder / "zarr.json").write_text(json.dumps(meta))
    seen = data.copy()
    for at, whole in chunks_of(data, chunk, fill):
        if rng.random() < 0.3:
            seen[tuple(slice(k * c, (k + 1) * c) for k, c in zip(at, chunk))] = fill
            continue
        name = folder / separator.join((["c"] if version == 3 else []) + [str(k) for k in at])
        name.parent.mkdir(parents=True, exist_ok=True)
        name.write_bytes(pack(whole.transpose(turned).tobytes(order), data.dtype.itemsize))
    return seen


def write_shards(folder, data, shard, chunk, packer, place, order, dropped):
    """By the specification of sharding_indexed, version 1.0; chunks whose number is in `dropped` are left out. The
    index has the other byte order than the numbers."""
    other = "<" if order == ">" else ">"
    configure = lambda name, **keys: {"name": name, "configuration": keys}
    pack, codec = {"none": (bytes, []), "zstd": (zstd, [configure("zstd", level=3, checksum=False)]),
                   "gzip": (lambda b: gzip.compress(b, 1), [configure("gzip", level=1)])}[packer]
    meta = {"zarr_format": 3, "node_type": "array", "shape": list(data.shape), "data_type": str(data.dtype),
            "chunk_grid": configure("regular", chunk_shape=list(shard)), "fill_value": 7, "attributes": {},
            "chunk_key_encoding": configure("default", separator="/"),
            "codecs": [configure("sharding_indexed", chunk_shape=list(chunk), index_location=place,
                                 codecs=[configure("bytes", endian="big" if order == ">" else "little"), *codec],
                                 index_codecs=[configure("bytes", endian="big" if other == ">" else "little"),
                                               {"name": "crc32c"}])]}
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
                index += struct.pack(other + "QQ", 2**64 - 1, 2**64 - 1)
                data[tuple(slice(a * s, None) for a, s in zip(at, shard))][where] = 7
                continue
            packed = pack(full[where].astype(full.dtype.newbyteorder(order)).tobytes())
            index += struct.pack(other + "QQ", len(body) + (head if place == "start" else 0), len(packed))
            body += packed
        index += struct.pack("<I", crc32c(index))
        path = folder.joinpath("c", *map(str, at))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(index + body if place == "start" else body + index)
    return data
