"""Archives of PyTorch as nobody's exporter writes them: sizes, strides, files and names that lie (check_import.py)."""
import json
import pathlib
import struct
import warnings
import zipfile

WEIGHTS, MODEL = "weights_config.json", "models/model.json"


def archive(source, to, edits=(), method=zipfile.ZIP_STORED, more=(), without=()):
    """A copy of an archive. edits: (end of an entry's name, what stands there, what shall stand there), of bytes; the
    first place in each entry, or with a None in front all places of all entries of JSON."""
    old = zipfile.ZipFile(source)
    with zipfile.ZipFile(to, "w", method) as new:
        for entry in old.namelist():
            if entry.endswith(tuple(without)):
                continue
            data = old.read(entry)
            for where, before, after in edits:
                if where is None and entry.endswith(".json"):
                    data = data.replace(before, after)
                elif where and entry.endswith(where):
                    assert before in data, (entry, before)
                    data = data.replace(before, after, 1)
            new.writestr(entry, data)
        for name, data in more:
            with warnings.catch_warnings(action="ignore"):  # of a name that is there
                new.writestr(zipfile.ZipInfo(name), data)
    return to


def directory(source, to, at, *numbers):
    """Numbers of 32 bits in the first row of the zip file's directory, from byte `at` of it on."""
    raw = bytearray(pathlib.Path(source).read_bytes())
    struct.pack_into(f"<{len(numbers)}I", raw, raw.index(b"PK\1\2") + at, *numbers)
    pathlib.Path(to).write_bytes(raw)
    return to


def meta(sizes, strides):
    return (f'"sizes": {json.dumps([{"as_int": n} for n in sizes])}, "requires_grad": true, "device": {{"type": "cpu", '
            f'"index": null}}, "strides": {json.dumps([{"as_int": n} for n in strides])}').encode()


def large(n):
    """`gain`, 8 numbers of the archive, as n numbers by a stride of 0."""
    return [(WEIGHTS, meta([8], [1]), meta([n], [0])),
            (MODEL, b'"p_gain":{"dtype":7,"sizes":[{"as_int":8}]', b'"p_gain":{"dtype":7,"sizes":[{"as_int":%d}]' % n)]


def cases(source, folder):
    """(archive, what the refusal says)"""
    places = iter(folder / f"hostile{i}.pt2" for i in range(1000))

    def made(*edits, **more):
        return archive(source, next(places), edits, **more)

    w, offset = meta([8, 8], [8, 1]), b'"storage_offset": {"as_int": 0}'
    yield made(method=zipfile.ZIP_DEFLATED), "is compressed"
    yield made((MODEL, b"{", b"{" + b" " * (1 << 24)), method=zipfile.ZIP_DEFLATED), "is compressed"
    yield made((WEIGHTS, w, meta([8, 8], [9, 1]))), "the data of 'w': 'w' reaches to element 70 of a storage of 256"
    yield made((WEIGHTS, w, meta([8, 8], [-8, 1]))), "the data of 'w': a size is not known, or negative"
    yield made((WEIGHTS, w, meta([8, 8], [2**63 - 1, 1]))), "the data of 'w': 'w' has strides beyond all sizes"
    yield made((WEIGHTS, w, meta([8, 8], [8]))), "the data of 'w': it has 1 strides"
    yield made((WEIGHTS, w, meta([8, 2**60], [0, 0]))), "the data of 'w': it has more than 2^47 elements"
    yield made((WEIGHTS, w, meta([4, 16], [16, 1]))), "the data of 'w': its shape or type is not that of the graph"
    for number, says in ((1, "reaches to element 64"), (-1, "negative"), (2**63 - 1, "beyond all sizes"),
                         (2**64, "models")):
        yield made((WEIGHTS, offset, offset.replace(b"0", b"%d" % number))), says
    for n in 1 << 28, 1 << 33, 1 << 46:
        yield made(*large(n)), f"the data of 'gain': the tensors up to this one have {4 * n + 1280} bytes"
    yield made((WEIGHTS, b'"weight_0"', b'"weight_2"')), "the data of 'w': 'w' reaches to element 63 of a storage of 32"
    yield made((WEIGHTS, b'"weight_0"', b'"../../etc/passwd"')), "the archive has no entry 'data/weights/../../etc"
    yield made(without=["weight_1"]), "the data of 'mix': the archive has no entry 'data/weights/weight_1'"
    yield made((WEIGHTS, b'"use_pickle": false', b'"use_pickle": true')), "a pickle, which is never run"
    yield made(more=[("mixer/models/model.json", b"{}")]), "is there twice"
    yield directory(source, next(places), 20, 0xfffffff0, 0xfffffff0), "is larger than the file"
    yield directory(source, next(places), 42, source.stat().st_size - 10), "starts after the data's end"
    yield made((MODEL, b'[{"as_tensor":{"name":"matmul"}}]', b'[{"as_tensor":{"name":"x"}}]')), "'x' is computed twice"


NAMES = {"..": False, "a.": False, ".a": False, "a..b": False, "x" * 300: False, "": False, "a b": False, "{x}": False,
         "a\\nb": False, "a\\\"b": False, "a#b": False, "\u00e9": False, "a,b": False, "a/b": True, "a-b.0": True,
         "a:b+c/d": True, "0": True, "x" * 255: True}
