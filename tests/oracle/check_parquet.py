"""Parquet files read by our reader: those of the corpus, which PyArrow, Polars and fastparquet wrote (make_parquet.py
has what they hold); random ones of PyArrow's, where it is there; damaged ones.

check_parquet.py ARRAY_BLOCKS CORPUS [SEED]   exit status 77: numpy is missing
"""
import pathlib
import sys
import tempfile

from strict import check, finish

try:
    import numpy as np
    from arrays import Reader
    from make_parquet import FILES, columns
except ImportError:
    print("SKIP: needs numpy")
    sys.exit(77)
try:
    import pyarrow
    import pyarrow.parquet
except ImportError:
    pyarrow = None

READER, CORPUS = Reader(sys.argv[1]), pathlib.Path(sys.argv[2])
NAMES = {"f2": "f16", "f4": "f32", "f8": "f64", "b1": "bool"}


def name_of(kind):
    kind = np.dtype(kind).str[1:]
    return NAMES.get(kind, f"{kind[0]}{8 * int(kind[1:])}")


def check_corpus(rng):
    for path in FILES:
        arrays, missing = columns(), {}
        listed, form = READER.listed(CORPUS / path)
        check(form == "Parquet", form)
        for name in list(arrays):
            if name not in listed or listed[name][6]:
                del arrays[name]
        check(len(arrays) >= 6 and "words" in listed and "holds text" in listed["words"][6], f"{path}: {listed}")
        missing = {n: d for n, d in arrays.items() if isinstance(d, np.ma.MaskedArray)}
        arrays = {n: d.astype("f8").filled(np.nan) if n in missing else d for n, d in arrays.items()}
        check(missing and all(listed[n][0] == "f64" for n in missing), f"{path}: {listed}")
        READER.compare(rng, CORPUS / path, arrays, 6, whole=True)
        READER.compare(rng, CORPUS / path, arrays, 1, cache=0)


def check_damaged(rng, folder):
    """A flipped byte, or a cut file: an error that names the file, or numbers (a page has no checksum by default)."""
    refused = 0
    for path in FILES:
        raw = (CORPUS / path).read_bytes()
        bad = folder / "bad.parquet"
        for cut in (0, 3, 4, 11, 12, len(raw) // 2, len(raw) - 1):
            bad.write_bytes(raw[:cut])
            got = READER.ask(bad, [("x0", "f32", [0], [1], [1])])[0]
            check(isinstance(got, str) and "bad.parquet" in got, f"{path} of {cut} bytes: {got}")
        for place in rng.integers(4, len(raw), 25):
            flipped = bytearray(raw)
            flipped[place] ^= int(rng.integers(1, 256))
            bad.write_bytes(flipped)
            for got in READER.ask(bad, [("d", "f64", [0], [5], [1]), ("i", "f64", [0], [5], [1])]):
                refused += isinstance(got, str)
                check(not isinstance(got, str) or "bad.parquet" in got, f"{path}, byte {place}: {got}")
    check(refused > 10, refused)


def random_table(rng, rows):
    """Columns of every type, with and without missing values, of few and of many different numbers."""
    arrays, wanted = {}, {}
    for i in range(12):
        kind = str(rng.choice(["f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1", "f2"]))
        few = rng.random() < 0.5
        if kind == "b1":
            data = rng.random(rows) < rng.random()
        elif kind[0] == "f":
            data = rng.normal(0, 30, rows).astype(kind)
        else:
            limits = np.iinfo(kind)
            high = min(20, limits.max) if few else limits.max
            data = rng.integers(max(limits.min, -high - 1), high, rows, dtype=kind, endpoint=True)
        if rng.random() < 0.2:
            data = np.sort(data)
        mask = None if rng.random() < 0.5 else rng.random(rows) < rng.random()
        if mask is not None and data.dtype.kind in "iu" and np.any(np.abs(data.astype("f8")) > 2**53):
            mask = None
        name = f"x{i}"
        arrays[name] = pyarrow.array(data, mask=mask)
        if mask is None or not mask.any():
            wanted[name] = data
        elif kind[0] == "f":
            wanted[name] = np.where(mask, np.nan, data).astype(kind)
        else:
            wanted[name] = np.where(mask, np.nan, data.astype("f8"))
    return pyarrow.table(arrays), wanted


def check_random(rng, folder):
    for trial in range(40):
        table, wanted = random_table(rng, int(rng.integers(1, 3000)))
        plain = bool(rng.random() < 0.4)
        how = dict(compression=str(rng.choice(["none", "snappy", "gzip", "zstd", "lz4"])),
                   use_dictionary=not plain, data_page_version=str(rng.choice(["1.0", "2.0"])),
                   row_group_size=int(rng.integers(1, 4000)), data_page_size=int(rng.integers(50, 20000)),
                   write_page_checksum=bool(rng.random() < 0.3), write_statistics=bool(rng.random() < 0.7))
        if plain and rng.random() < 0.6:
            split = rng.random() < 0.5
            how["column_encoding"] = {
                n: "BYTE_STREAM_SPLIT" if a.dtype.kind == "f" or split and a.dtype.itemsize > 1 else
                "DELTA_BINARY_PACKED"
                for n, a in wanted.items() if table[n].type not in (pyarrow.bool_(),)
                and (a.dtype.kind == "f" and str(table[n].type) in ("float", "double", "halffloat")
                     or str(table[n].type) in ("int32", "int64", "uint32", "uint64"))}
        path = folder / "random.parquet"
        pyarrow.parquet.write_table(table, path, **how)
        if not how["write_statistics"]:  # rows may be without a number, so that whole numbers are read as f64
            wanted = {n: a for n, a in wanted.items()
                      if a.dtype.kind not in "iu" or np.abs(a.astype("f8")).max() < 2**53}
        READER.compare(rng, path, wanted, 3, whole=True)
        listed, _ = READER.listed(path)
        if how["write_statistics"]:
            check({n: listed[n][0] for n in wanted} == {n: name_of(a.dtype) for n, a in wanted.items()},
                  f"{listed} of {how}")


def varint(n):
    return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)


def record(*fields):
    """A struct of Thrift's compact protocol: (number, value) with whole numbers, texts, structs and lists."""
    out, last = b"", 0
    for number, value in fields:
        kind, body = thrift(value)
        out, last = out + bytes([(number - last) << 4 | kind]) + body, number
    return out + b"\0"


def thrift(value):
    if isinstance(value, (int, np.int64)):
        return 5 + isinstance(value, np.int64), varint(2 * int(value))
    if isinstance(value, str):
        return 8, varint(len(value)) + value.encode()
    if isinstance(value, list):
        items = [thrift(v) for v in value]
        return 9, bytes([len(items) << 4 | items[0][0]]) + b"".join(body for _, body in items)
    return 12, value


def check_repeats(rng, folder):
    """Levels of repetition in a column without lists, as some writers have them."""
    data = rng.normal(size=9)
    repeats, levels = varint(2 * 9), varint(2 * 9) + b"\1"
    body = repeats + levels + data.tobytes()
    page = record((1, 3), (2, len(body)), (3, len(body)), (8, record(
        (1, 9), (2, 0), (3, 9), (4, 0), (5, len(levels)), (6, len(repeats))))) + body
    wide = np.int64
    rows, size = wide(9), wide(len(page))
    column = record((1, 5), (2, [0]), (3, ["x"]), (4, 0), (5, rows), (6, size), (7, size), (9, wide(4)))
    footer = record((1, 1), (2, [record((4, "root"), (5, 1)), record((1, 5), (3, 1), (4, "x"))]), (3, rows),
                    (4, [record((1, [record((2, wide(4)), (3, column))]), (2, size), (3, rows))]))
    path = folder / "repeats.parquet"
    path.write_bytes(b"PAR1" + page + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    READER.compare(rng, path, {"x": data}, n=3, whole=True)
    if pyarrow:
        check(np.array_equal(pyarrow.parquet.read_table(path)["x"].to_numpy(), data), "as PyArrow reads it")


def main():
    rng = np.random.default_rng(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        check_corpus(rng)
        check_damaged(rng, folder)
        check_repeats(rng, folder)
        if pyarrow:
            check_random(rng, folder)
        else:
            print("no PyArrow: its random files are left out")
    finish()


main()
