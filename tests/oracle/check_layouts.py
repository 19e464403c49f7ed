"""Arrays in files of random layouts: what the readers of training and `dldata inspect` say next to h5py and NumPy.

check_layouts.py ARRAY_BLOCKS DLDATA N   (the program built from array_blocks.c, dldata, how many layouts); exit status
77: numpy or h5py is missing. DLC_TEST_DRAW=D draws others; a failure says what repeats it.

A layout is a type in either byte order, a rank of 1 to 6, storage (contiguous, compact, chunked by any index), filters,
limits of the axes, fill value, times of filling and allocating, library versions, a user block, and what is written:
all, parts, nothing, before and after axes grow and shrink. One of four is a .npy, .npz or Zarr array in place of
HDF5."""
import base64
import os
import pathlib
import subprocess
import sys
import tempfile
import zlib

import strict
from strict import check, finish

try:
    import h5py
    import numpy as np
    from arrays import PACKERS, STORED, Reader, numbers, write_zarr
except ImportError:
    print("SKIP: needs numpy and h5py")
    sys.exit(77)

READER, DLDATA, N = Reader(sys.argv[1]), os.path.abspath(sys.argv[2]), int(sys.argv[3])
DRAW = int(os.environ.get("DLC_TEST_DRAW", "0"))
EACH = 10  # layouts in a file
GRID = 3000  # chunks at most: beyond 2,048 our readers ask for each


def pick(rng, values):
    return values[int(rng.integers(len(values)))]


def draw_dims(rng):
    most = {1: 400, 2: 40, 3: 14, 4: 8, 5: 5, 6: 4}
    rank = int(rng.integers(1, 7))
    dims = [int(rng.integers(1, most[rank] + 1)) for _ in range(rank)]
    if rng.random() < 0.05:
        dims[int(rng.integers(rank))] = 0
    return dims


def draw_limits(rng, dims):
    """Fixed, one unlimited axis of any place, several, or room to grow."""
    how = rng.random()
    limits = list(dims)
    if how < 0.3:
        return limits
    for i in range(len(dims)):
        limits[i] = dims[i] + int(rng.integers(0, 9))
    if how < 0.7:
        limits[int(rng.integers(len(dims)))] = None
    elif how < 0.85:
        limits = [None if rng.random() < 0.5 else n for n in limits]
    return limits


def draw_chunk(rng, dims, limits):
    """Of an axis that cannot grow beyond it a chunk is no longer than the axis. None when there were too many of
    them."""
    chunk = [int(rng.integers(1, max(1, n + 3 if most is None else most) + 1)) for n, most in zip(dims, limits)]
    if rng.random() < 0.1:
        chunk = [1] * len(dims)
    if rng.random() < 0.15:
        chunk = [max(1, n) for n in dims]
    grid = int(np.prod([-(-n // c) for n, c in zip(dims, chunk)]))
    return chunk if grid <= GRID else [max(1, n) for n in dims]


def file_type(rng, kind):
    """As the file has it: a NumPy type, in one of six of whole numbers with fewer bits than bytes hold."""
    kind = np.dtype(kind).newbyteorder(pick(rng, "<>"))
    stored = h5py.h5t.py_create(kind, logical=True)
    if kind.kind in "iu" and kind.itemsize > 1 and rng.random() < 0.16:
        stored = stored.copy()
        stored.set_precision(8 * kind.itemsize - int(rng.integers(1, 8)))
    return kind, stored


def draw_data(rng, dims, kind, stored):
    data = numbers(rng, dims, kind) if 0 not in dims else np.zeros(dims, kind.newbyteorder("="))
    if kind.kind in "iu" and stored.get_precision() < 8 * kind.itemsize:
        data = data & np.array((1 << (stored.get_precision() - 1)) - 1, data.dtype)
    return data.astype(kind)


def draw_plist(rng, kind, stored, dims, limits):
    """The creation properties of a set, and words that name them."""
    plist, words = h5py.h5p.create(h5py.h5p.DATASET_CREATE), []
    growing = list(limits) != list(dims)
    bytes_all = int(np.prod(dims)) * kind.itemsize
    storage = pick(rng, ["chunked"] * 4 + ([] if growing else ["contiguous", "contiguous", "compact"]))
    if storage == "compact" and bytes_all > 60000:
        storage = "contiguous"
    if storage == "chunked":
        chunk = draw_chunk(rng, dims, limits)
        plist.set_chunk(tuple(chunk))
        words.append(f"chunk {chunk}")
        filters = [("shuffle", plist.set_shuffle),
                   ("lzf", lambda: plist.set_filter(h5py.h5z.FILTER_LZF, h5py.h5z.FLAG_OPTIONAL)),
                   ("deflate", lambda: plist.set_deflate(1)), ("fletcher32", plist.set_fletcher32)]
        for k in rng.permutation(len(filters)) if rng.random() < 0.2 else range(len(filters)):
            name, put = filters[k]
            # what libhdf5 alone can read is refused with lzf: odd types, and what is packed twice
            odd = kind.kind in "iu" and stored.get_precision() < 8 * kind.itemsize
            twice = "lzf" in words or (name == "lzf" and "deflate" in words)
            if rng.random() < 0.25 and not (name == "lzf" and odd) and (name == "fletcher32" or not twice):
                put()
                words.append(name)
        plist.set_alloc_time(pick(rng, [h5py.h5d.ALLOC_TIME_INCR, h5py.h5d.ALLOC_TIME_EARLY, h5py.h5d.ALLOC_TIME_LATE]))
    else:
        plist.set_layout(h5py.h5d.COMPACT if storage == "compact" else h5py.h5d.CONTIGUOUS)
        words.append(storage)
        if storage == "contiguous":
            plist.set_alloc_time(pick(rng, [h5py.h5d.ALLOC_TIME_LATE] * 3 + [h5py.h5d.ALLOC_TIME_EARLY]))
    if rng.random() < 0.6:
        fill = numbers(rng, (1,), kind)
        plist.set_fill_value(fill & np.array(15, fill.dtype) if kind.kind in "iu" else fill)
        words.append(f"fill {fill[0]}")
    # FILL_TIME_NEVER of what is allocated is whatever the disk held
    plist.set_fill_time(pick(rng, [h5py.h5d.FILL_TIME_IFSET, h5py.h5d.FILL_TIME_ALLOC]))
    return plist, words


def write_parts(rng, data_set, kind, stored):
    """All, some boxes, or nothing."""
    dims = data_set.shape
    how = rng.random()
    if how < 0.2 or 0 in dims:
        return "nothing written"
    if how < 0.6:
        data_set[...] = draw_data(rng, dims, kind, stored)
        return "all written"
    for _ in range(int(rng.integers(1, 4))):
        box = tuple(slice(a, int(rng.integers(a + 1, n + 1))) for n in dims for a in [int(rng.integers(n))])
        data_set[box] = draw_data(rng, [b.stop - b.start for b in box], kind, stored)
    return "parts written"


def resize(rng, data_set, limits):
    if data_set.chunks is None or rng.random() < 0.5:
        return ""
    data_set.resize([int(rng.integers(1, (n + 7 if most is None else most) + 1)) if most != n else n
                     for n, most in zip(data_set.shape, limits)])
    return f"resized to {data_set.shape}"


def add_hdf5(rng, f, name):
    dims = draw_dims(rng)
    limits = draw_limits(rng, dims)
    kind, stored = file_type(rng, pick(rng, STORED))
    plist, words = draw_plist(rng, kind, stored, dims, limits)
    space = h5py.h5s.create_simple(tuple(dims), tuple(h5py.h5s.UNLIMITED if n is None else n for n in limits))
    data_set = h5py.Dataset(h5py.h5d.create(f.id, name.encode(), stored, space, dcpl=plist))
    words += [write_parts(rng, data_set, kind, stored), resize(rng, data_set, limits)]
    if words[-1] and rng.random() < 0.5:
        words.append(write_parts(rng, data_set, kind, stored))
    return f"{kind.str} {dims} of {limits}, {', '.join(w for w in words if w)}"


def compare(rng, path, arrays, says, first):
    try:
        READER.compare(rng, path, {k: v for k, v in arrays.items() if v.size}, 4, whole=True)
        READER.compare(rng, path, {k: v for k, v in arrays.items() if v.size}, 1, cache=0, whole=True)
        for name, data in arrays.items():
            if data.size == 0:
                got = READER.ask(path, [(name, "f32", [0] * data.ndim, [0] * data.ndim, [1] * data.ndim)])[0]
                check(not isinstance(got, str) or "is empty" in got, f"{path.name} {name}, which is empty: {got}")
    except SystemExit as failed:
        sys.exit(f"{failed}\nlayouts: {says}\nrepeat: DLC_TEST_DRAW={DRAW} {' '.join(sys.argv[:3])} {first + EACH}")


def inspected(path):
    """{array: (least, greatest)} as dldata inspect prints them of finite numbers."""
    done = subprocess.run([DLDATA, "inspect", str(path), "-o", str(path.with_suffix(".png"))], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    if "no array to draw" in done.stdout:
        done = subprocess.run([DLDATA, "inspect", str(path)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True,
                              cwd=path.parent)
    check(done.returncode == 0, f"dldata inspect {path}: {done.stdout}")
    found, name = {}, None
    for line in done.stdout.splitlines():
        words = line.split()
        if line and not line.startswith(" ") and len(words) > 2 and not words[0].endswith(":"):
            name = words[0]
            found[name] = []
        elif name in found and words and words[0].isdigit():
            found[name].append((float(words[1]), float(words[2])))
    return {k: (min(a for a, _ in v), max(b for _, b in v)) if v else None for k, v in found.items()}


def check_inspect(path, arrays, says):
    seen = inspected(path)
    for name, data in arrays.items():
        check(name in seen, f"dldata inspect leaves out {name}: {says[name]}")
        if data.dtype.newbyteorder("=") == bool or data.size == 0 or not np.isfinite(data.astype("f8")).all():
            continue
        wide = data.astype("f8")
        for got, want in zip(seen[name], (wide.min(), wide.max())):
            check(abs(got - want) <= 1e-4 * abs(want),
                  f"dldata inspect: {name} is {seen[name]}, not {want}: {says[name]}")


def check_hdf5(rng, folder, first):
    options = dict(libver=pick(rng, ["earliest", "latest", "latest", ("earliest", "v108"), ("earliest", "v110")]),
                   userblock_size=pick(rng, [0, 0, 512, 1024, 4096]))
    path, says = folder / f"l{first}.h5", {"file": options}
    with h5py.File(path, "w", **options) as f:
        for i in range(EACH):
            says[f"x{i}"] = add_hdf5(rng, f, f"x{i}")
    with h5py.File(path, "r") as f:
        arrays = {name: f[name][...] for name in f}
    compare(rng, path, arrays, says, first)
    check_inspect(path, arrays, says)


def check_others(rng, folder, first):
    for i in range(EACH):
        dims = [n or 1 for n in draw_dims(rng)]
        kind = np.dtype(pick(rng, STORED)).newbyteorder(pick(rng, "<>"))
        data = numbers(rng, dims, kind).astype(kind)
        turned = np.asfortranarray(data) if rng.random() < 0.5 else data
        form = pick(rng, ["npy", "npz", "packed", "zarr2", "zarr3"])
        path, name = folder / f"o{first}-{i}.{form[:3]}", ""
        if form == "npy":
            np.save(path, turned)
        elif form in ("npz", "packed"):
            name = "x"
            (np.savez if form == "npz" else np.savez_compressed)(path.with_suffix(".npz"), x=turned, other=np.arange(3))
            path = path.with_suffix(".npz")
        else:
            version = int(form[-1])
            kind = np.dtype(pick(rng, [k for k in STORED if k not in ("f2", "?")])).newbyteorder(pick(rng, "<>"))
            data = numbers(rng, dims[:3], kind).astype(kind)
            packer = pick(rng, [p for p in PACKERS if PACKERS[p][version - 2] or p == "none"])
            data = write_zarr(rng, path, data, version, packer, int(rng.integers(100)), pick(rng, "./"))
        compare(rng, path, {name: data}, f"{form} {kind.str} {data.shape}", first)


# h5py 3.16 with HDF5 2.0.0, libver="latest": good, [0 .. 5] i16; truth, bools; packed, gzip; scaled, with a complex
# attribute next to its scale_factor; kind, a named type.
NEWER = (
    "c-rgqaB<`1lHy|K;9!7(|4?8A6*7Q|s~3kU`g^zpF)>sy2_Y+l0WKy6Mg|5peg+`LlAfQRvKgvVK!Aavj}^k!hl;TYf|RipBqnF4rkrL%5iCwl"
    "%t=krWq~SXhdXV?Onxn}6Brp78ATWvm>3xu*<c1jX=WY<MggGHAw~)?umWAh%*6q8F*73r)Jr@t19vbCS@2!`&RX=afQ1;0W>#cij9>zVDKI2B"
    "AT$Fo5ZoMnf?XLxf<j$^V#oo+!+~l5!{Q+k7M3$S*OHYkxVeF%K-CN&2=X)sFa-i-m>8Lvn7OVqL-np4Lh0gx<+4p~jvg)yj3QjnY{l>y>XF{="
    "U3G4bE=~-LFs}(fBb*P(1UW2X?pF=JqK7anbeM_Ac{&`Zu^}o13U2fggvShI8ZUzgND^EM#HS@Dm*f{Q2rAe^Gp_@K2{(hue`c6HU_aaQ1b}q1"
    "GMIsM=H{oQGK4WPfOQlx05!`)Q?vquI0u7xJ&={jz=BN}VrGLqm=eJr!Us8@>Vm^UAvb_K8yQ<Mn=!DGXEDdE%ai?`J-pcjK-rYFq^PtcV?QG_"
    "&>%%>c4l6RCA1j5;J@e|!zdU9lmbRzl4k~{Mo_w9WUPowPDn^eNCM}679cMzAu%Bp$TI@wO0Zf0_11z&")


def check_newer(folder):
    """What libhdf5 1.10 cannot open is listed, with the version that it needs; the rest is read."""
    path = folder / "newer.h5"
    path.write_bytes(zlib.decompress(base64.b85decode(NEWER)))
    if h5py.version.hdf5_version_tuple < (1, 12):
        facts, _ = READER.listed(path)
        check(sorted(facts) == ["good", "packed", "scaled", "truth"], facts)
        for name, version in (("packed", "2.0 or newer"), ("truth", "1.12 or newer"), ("scaled", "1.12 or newer")):
            got = READER.ask(path, [(name, "f32", [0], [1], [1])])[0]
            check(isinstance(got, str) and f"'{name}'" in got and f"HDF5 {version}" in got
                  and "libver=('earliest', 'v110')" in got, got)
        seen = inspected(path)
        check(list(seen) == ["good", "packed", "scaled", "truth"] and seen["good"] == (0, 5), seen)
    READER.compare(np.random.default_rng(0), path, {"good": np.arange(6, dtype="i2")}, whole=True)


def check_many(folder):
    """Arrays and attributes are listed by the hundred; attributes beyond those that are kept are no silent loss, and a
    dimension of NetCDF that has no variable is no array."""
    path = folder / "many.h5"
    with h5py.File(path, "w") as f:
        for i in range(350):
            f[f"s{i:03d}"] = np.arange(3.0)
            attributes = f[f"s{i:03d}"].attrs
            for k in range(190):
                attributes[f"a{k}"] = k
        f["t"] = np.arange(3.0)
        f["t"].attrs["scale_factor"] = 2.0
        f["x"] = np.zeros(4)
        f["x"].make_scale("This is a netCDF dimension but not a netCDF variable.         4")
    listed, _ = READER.listed(path)
    check(len(listed) == 351 and listed["s300"][-1] == "" and "a189=189" in listed["s300"][5], f"{len(listed)} arrays")
    check("attributes that were not read" in listed["t"][-1], listed["t"])


def check_never_written(folder):
    """Nothing is stored, and there is a block of the user's before the file or none: every number is the fill value."""
    for block in (0, 512, 2048):
        path = folder / f"never{block}.h5"
        with h5py.File(path, "w", userblock_size=block) as f:
            for i, (kind,
                    fill) in enumerate((("<f4", None), (">f4", 2.5), (">u4", None), (">i2", -3), ("f8", np.nan),
                                        ("?", True))):
                f.create_dataset(f"x{i}", (5, 6), kind, fillvalue=fill)
                f.create_dataset(f"c{i}", (5, 6), kind, fillvalue=fill, chunks=(2, 3), compression="gzip")
        with h5py.File(path, "r") as f:
            arrays = {name: f[name][...] for name in f}
        READER.compare(np.random.default_rng(block), path, arrays, 3, whole=True)
        check_inspect(path, arrays, {name: f"block {block}" for name in arrays})


def check_unlimited(folder):
    """One unlimited axis, whichever it is: written whole, and in parts after it grew."""
    data = np.arange(4 * 3 * 5 * 7, dtype="f4").reshape(4, 3, 5, 7)
    with h5py.File(folder / "unlimited.h5", "w", libver="latest") as f:
        for axis, packing in enumerate((None, "gzip", "lzf", None)):
            limits = tuple(None if i == axis else n for i, n in enumerate(data.shape))
            f.create_dataset(f"whole{axis}", data=data, chunks=(2, 1, 5, 2), maxshape=limits, compression=packing)
            grown = f.create_dataset(f"grown{axis}", data.shape, "f4", chunks=(2, 2, 2, 2), maxshape=limits,
                                     compression=packing)
            grown.resize(data.shape[axis] + 4, axis)
            grown[1:3, 1:, 2:4, 3:] = data[1:3, 1:, 2:4, 3:grown.shape[3]] if axis == 0 else 7
        arrays = {name: f[name][...] for name in f}
    READER.compare(np.random.default_rng(0), folder / "unlimited.h5", arrays, 3, whole=True)


def check_packed_twice(folder):
    """Filters after one that packs: what lies between them has a size that nothing tells."""
    data = np.arange(600, dtype="i4").reshape(20, 30)
    with h5py.File(folder / "twice.h5", "w") as f:
        for name, filters in (("a", "ds"), ("b", "dd"), ("c", "sfd"), ("d", "dfs"), ("e", "df")):
            plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            plist.set_chunk((7, 30))
            for letter in filters:
                {"d": lambda: plist.set_deflate(4), "s": plist.set_shuffle, "f": plist.set_fletcher32}[letter]()
            h5py.Dataset(h5py.h5d.create(f.id, name.encode(), h5py.h5t.STD_I32LE, h5py.h5s.create_simple(data.shape),
                                         dcpl=plist))[...] = data
    READER.compare(np.random.default_rng(0), folder / "twice.h5", {name: data for name in "abcde"}, 3, whole=True)


def check_misplaced(folder):
    """A chunk whose place in the index lies outside the set, or is another chunk's."""
    with h5py.File(folder / "misplaced.h5", "w", libver="earliest") as f:
        f.create_dataset("x", data=np.arange(40, dtype="f4").reshape(10, 4), chunks=(5, 4))
    raw = (folder / "misplaced.h5").read_bytes()
    # key: bytes, filters left out, an offset for each axis and one more; then an address
    keys = raw.index(b"TREE\1") + 24
    for place in (10, 500, 5):
        moved = bytearray(raw)
        moved[keys + 8:keys + 16] = place.to_bytes(8, "little")
        (folder / "misplaced.h5").write_bytes(moved)
        got = READER.ask(folder / "misplaced.h5", [("x", "f32", [0, 0], [1, 1], [1, 1])])[0]
        check(isinstance(got, str) and "misplaced.h5 is damaged: " in got and "'x'" in got, f"{place}: {got}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        check_newer(pathlib.Path(folder))
        check_many(pathlib.Path(folder))
        check_never_written(pathlib.Path(folder))
        check_unlimited(pathlib.Path(folder))
        check_packed_twice(pathlib.Path(folder))
        check_misplaced(pathlib.Path(folder))
        for first in range(0, N, EACH):
            rng = np.random.default_rng([DRAW, first])
            before = strict.passed
            (check_others if first // EACH % 4 == 3 else check_hdf5)(rng, pathlib.Path(folder), first)
            check(strict.passed > before + EACH, "layouts without a check")
    print(f"draw {DRAW}: {N} layouts")
    finish()


main()
