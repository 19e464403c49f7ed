"""Files of other programs held against those programs' own readers: HDF5 with filters, NIfTI, FITS, MATLAB, TIFF
and CSV; and Zarr in shards by its specification.

check_readers.py ARRAY_BLOCKS [NAME...]   (the program built from array_blocks.c; the tests to run); exit status 77:
numpy or h5py is missing. A reader that is not installed skips its tests by name. DLC_TEST_DRAW=D draws others."""
import importlib
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import zlib

from strict import check, finish

try:
    import h5py
    import numpy as np
    from arrays import Reader, crc32c, numbers, write_shards, zstd
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
    meta = json.loads((TMP / "shards0.zarr/zarr.json").read_text())
    shard, chunk = (np.array(of["configuration"]["chunk_shape"]) for of in (meta["chunk_grid"], meta["codecs"][0]))
    index = 16 * int(np.prod(shard // chunk))
    for beyond in ((len(raw), 1), (len(raw) - 1, 2), (0, len(raw) + 1), (2**63, 2**63)):  # with the checksum that fits
        damaged = struct.pack(">QQ", *beyond) + raw[len(raw) - index - 4 + 16:-4]
        path.write_bytes(raw[:len(raw) - index - 4] + damaged + struct.pack("<I", crc32c(damaged)))
        answer = READER.ask(TMP / "shards0.zarr", [("", "f64", [0] * 3, [1] * 3, [1] * 3)])[0]
        check(isinstance(answer, str) and "lies beyond its end" in answer, f"{beyond}: {answer}")
    path.write_bytes(raw[:3])
    answer = READER.ask(TMP / "shards0.zarr", [("", "f64", [0] * 3, [1] * 3, [1] * 3)])[0]
    check(isinstance(answer, str) and "is shorter than its index" in answer, answer)


# ---- NIfTI, FITS, MATLAB, TIFF, CSV ----


def refused_by_damage(path, name, shape, changes):
    """Each change of the file's bytes is an error that names the file, when it is listed or read."""
    whole = path.read_bytes()
    for change, says in changes:
        path.write_bytes(change(whole))
        answer = READER.ask(path, [(name, "f64", [0] * len(shape), list(shape), [1] * len(shape))])[0]
        check(isinstance(answer, str) and path.name in answer and says in answer, f"{path.name}: {answer}")
    path.write_bytes(whole)


def test_nifti(rng):
    """Versions, byte orders, types, gzip, scales as attributes of packing; damage."""
    nibabel = library("nibabel")
    if not nibabel:
        return
    for case in range(12):
        order, packed = "<>"[case % 2], ".gz" * (case // 2 % 2)
        kind = str(rng.choice(["u1", "i2", "i4", "f4", "f8", "i1", "u2", "u4", "i8", "u8"]))
        data = numbers(rng, [int(n) for n in rng.integers(1, 9, int(rng.integers(1, 6)))], kind)
        image = [nibabel.Nifti1Image, nibabel.Nifti2Image][case // 4 % 2]
        header = image.header_class(endianness=order)
        header.set_data_dtype(np.dtype(kind).newbyteorder(order))
        header.set_data_shape(data.shape)
        header.set_xyzt_units("mm", "sec")
        if case % 3 == 0:
            header["descrip"] = b"a volume"
        path = TMP / f"v{case}.nii{packed}"
        made = image(data.astype(header.get_data_dtype()), np.diag([2, 2, 3, 1.0]), header)
        made.header.set_slope_inter(1, 0)
        made.to_filename(path)
        want = np.asarray(nibabel.load(path).dataobj.get_unscaled())
        READER.compare(rng, path, {"": want}, n=4, whole=True)
        listed, said = READER.listed(path)
        check(said == "NIfTI" and listed[""][4].startswith("x") and "voxel=2" in listed[""][5], f"{said}: {listed}")
    path = TMP / "scaled.nii"
    nibabel.Nifti1Image(rng.standard_normal((4, 5, 6)) * 30, np.eye(4), dtype="i2").to_filename(path)
    listed, _ = READER.listed(path)
    slope = nibabel.load(path).dataobj.slope
    check(f"scale_factor={float(slope)!r}"[:20] in listed[""][5] and "add_offset=" in listed[""][5], listed)
    refused_by_damage(path, "", (4, 5, 6), (
        (lambda b: b[:-1], "is not whole"),
        (lambda b: b[:40] + b"\x09" + b[41:], "has 9 axes"), (lambda b: b[:42] + b"\xff\xff" + b[44:], "has -1 voxels"),
        (lambda b: b[:70] + b"\x20\0" + b[72:], "data type 32"), (lambda b: b[:108] + bytes(4) + b[112:], "begin at")))
    packed, padded = TMP / "v2.nii.gz", TMP / "padded.nii.gz"
    padded.write_bytes(packed.read_bytes() + bytes(512))  # zeros up to a block's end, as gzip takes them
    READER.compare(rng, padded, {"": np.asanyarray(nibabel.load(padded).dataobj.get_unscaled())}, n=3, whole=True)
    refused_by_damage(packed, "", shape_of(packed), (
        (lambda b: b[:len(b) // 2], "ends too early"),
        (lambda b: b[:-6] + bytes([b[-6] ^ 1]) + b[-5:], "does not unpack")))


def shape_of(path, name=""):
    return tuple(int(n) for n in READER.listed(path)[0][name][1].split(","))


def test_fits(rng):
    """Images of all types in primary units and extensions; scaled ones, tables and packed images; damage."""
    if not library("astropy"):
        return
    fits = importlib.import_module("astropy.io.fits")
    arrays, units = {}, [fits.PrimaryHDU()]
    for i, kind in enumerate(["u1", "i2", "i4", "i8", "f4", "f8"]):
        data = numbers(rng, [int(n) for n in rng.integers(1, 9, int(rng.integers(1, 5)))], kind)
        units.append(fits.ImageHDU(data, name=f"IMAGE{i}"))
        arrays[f"IMAGE{i}"] = data
    units[1].header["BUNIT"] = "Jy/beam"
    units.append(fits.ImageHDU(numbers(rng, (7, 3), "u2"), name="UNSIGNED"))
    units.append(fits.BinTableHDU.from_columns([fits.Column("a", "E", array=np.arange(4.0))], name="TABLE"))
    units.append(fits.CompImageHDU(np.arange(600, dtype="i4").reshape(20, 30), name="PACKED"))
    path = TMP / "units.fits"
    fits.HDUList(units).writeto(path)
    READER.compare(rng, path, arrays, n=4, whole=True)
    listed, said = READER.listed(path)
    check(said == "FITS" and "units=Jy/beam" in listed["IMAGE0"][5], f"{said}: {listed}")
    check("add_offset=32768" in listed["UNSIGNED"][5], listed["UNSIGNED"])
    refuses(path, "TABLE", "is a table, not an image. Save its columns: python3 -c")
    refuses(path, "PACKED", "is a packed image, which is not read. Unpack it: python3 -c")
    path = TMP / "one.fits"
    data = numbers(rng, (5, 6), "f4")
    fits.PrimaryHDU(data).writeto(path)
    READER.compare(rng, path, {"hdu0": data}, n=3)
    refused_by_damage(path, "hdu0", (5, 6), (
        (lambda b: b[:2000], "a header does not end"), (lambda b: b[:2890], "is not whole"),
        (lambda b: b.replace(b"NAXIS1  =                    6", b"NAXIS1  =                   -6"), "its card 'NAXIS1"),
        (lambda b: b.replace(b"-32 / array", b"-33 / array"), "of no type of FITS")))


def test_matlab(rng):
    """Variables of version 5, packed or not, as scipy writes and reads them; damage."""
    if not library("scipy"):
        return
    io = importlib.import_module("scipy.io")
    for packed in (False, True):
        arrays = {f"v{i}": numbers(rng, [int(n) for n in rng.integers(1, 9, int(rng.integers(2, 5)))], kind)
                  for i, kind in enumerate(["f8", "f4", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"])}
        path = TMP / f"all{packed}.mat"
        io.savemat(path, {**arrays, "x": 5.0, "text": "abc", "record": {"a": 1}, "complex": np.array([[1j]]),
                          "a_name_that_is_long_enough_for_its_own": arrays["v1"]}, do_compression=packed)
        want = {k: v for k, v in io.loadmat(path).items() if k[0] == "v" or k.startswith("a_name") or k == "x"}
        READER.compare(rng, path, want, n=3, whole=True)
        listed, said = READER.listed(path)
        check(said == "MATLAB" and all(listed[k][0] == v for k, v in (
            ("text", "text"), ("record", "records"), ("complex", "complex numbers"))), f"{said}: {listed}")
        one = TMP / f"one{packed}.mat"
        io.savemat(one, {"v": np.arange(400.0).reshape(20, 20)}, do_compression=packed)
        refused_by_damage(one, "v", (20, 20), (
            (lambda b: b[:-9], "is damaged: its element at byte 128"),
            (lambda b: b[:128] + b"\x63" + b[129:], "is damaged: its element at byte 128"),
            (lambda b: b[:200] + bytes([b[200] ^ 255]) * 40 + b[240:] if packed else b[:-9], "")))


def test_tiff(rng):
    """Pages, tiles, strips, compressions with predictors, byte orders, BigTIFF, samples in both orders; damage."""
    tifffile = library("tifffile")
    if not tifffile:
        return
    for case in range(16):
        kind = str(rng.choice(["u1", "u2", "u4", "i1", "i2", "i4", "f2", "f4", "f8"]))
        shape = [int(n) for n in rng.integers(2, 40, 2)]
        pages = int(rng.integers(1, 5))
        data = numbers(rng, [pages, *shape], kind) if pages > 1 else numbers(rng, shape, kind)
        options = {"bigtiff": case % 4 == 0, "byteorder": "<>"[case % 2], "photometric": "minisblack", "metadata": None}
        if case % 3 == 1:
            options["tile"] = (16, 32)
        if case % 3 == 2:
            options["rowsperstrip"] = int(rng.integers(1, 9))
        path = TMP / f"t{case}.tif"
        tifffile.imwrite(path, data, **options)
        with tifffile.TiffFile(path) as f:
            want = np.squeeze(np.stack([page.asarray() for page in f.pages]))
        READER.compare(rng, path, {"": want.reshape(data.shape)}, n=4, whole=True)
    bits = np.array([int(f"{i:08b}"[::-1], 2) for i in range(256)], "u1")
    data = numbers(rng, (13, 21), "u2")
    turned = own_tiff(data, 1, 1, extra=[(266, 3, 2)])  # the lowest bit first
    pixels = np.frombuffer(turned, "u1").copy()
    pixels[8:8 + data.nbytes] = bits[pixels[8:8 + data.nbytes]]
    (TMP / "turned.tif").write_bytes(pixels.tobytes())
    READER.compare(rng, TMP / "turned.tif", {"": data}, n=3, whole=True)
    tifffile.imwrite(TMP / "gdal.tif", data, metadata=None, extratags=[(42113, "s", 0, "7", True)])
    check("_FillValue=7" in READER.listed(TMP / "gdal.tif")[0][""][5], "GDAL's missing number")
    for name, shape, options in (("rgb", (9, 11, 3), {"photometric": "rgb"}),
                                 ("planes", (3, 9, 11), {"photometric": "rgb", "planarconfig": "separate"})):
        data = numbers(rng, shape, "u1")
        tifffile.imwrite(TMP / f"{name}.tif", data, **options)
        READER.compare(rng, TMP / f"{name}.tif", {"": data}, n=4, whole=True)
    path = TMP / "mixed.tif"
    with tifffile.TiffWriter(path) as f:
        first, second = numbers(rng, (3, 8, 9), "u2"), numbers(rng, (5, 6), "f4")
        for page in first:
            f.write(page, photometric="minisblack", contiguous=False, metadata=None)
        f.write(second, photometric="minisblack", metadata=None)
    READER.compare(rng, path, {"page0": first, "page3": second}, n=4, whole=True)
    for number, (packed, predictor, kind) in enumerate(packs_of_tiff()):
        data = numbers(rng, (13, 21), kind)
        data[~np.isfinite(data.astype("f8"))] = 1
        path = TMP / f"packed{number}.tif"
        path.write_bytes(own_tiff(data, packed, predictor, big=number % 2 == 1))
        READER.compare(rng, path, {"": data}, n=3, whole=True)
    # LZW's codes of 12 bits and a table that is full; runs of every length, PackBits' longest among them
    runs = np.repeat(rng.integers(0, 256, 130), np.arange(1, 131)).astype("u1")
    data = np.concatenate([rng.integers(0, 256, 12000).astype("u1"), runs]).copy()
    data.resize((150, 140))
    for packed in (5, 32773):
        large = TMP / f"large{packed}.tif"
        large.write_bytes(own_tiff(data, packed, 1))
        READER.compare(rng, large, {"": data}, n=3, whole=True)
    refused_by_damage(path, "", (13, 21), (
        (lambda b: b[:6], "header"), (lambda b: b[:-30], "beyond its end"),
        (lambda b: own_tiff(data, 7, 1), "is packed with TIFF's compression 7 and predictor 1"),
        (lambda b: own_tiff(data, 8, 1)[:60] + bytes(40) + own_tiff(data, 8, 1)[100:], "does not unpack")))


def lzw(data):
    """TIFF's: codes of 9 to 12 bits, high bit first, wider one code early."""
    table, codes, held = {bytes([i]): i for i in range(256)}, [(256, 9)], b""
    width = 9
    for value in data:
        one = held + bytes([value])
        if one in table:
            held = one
            continue
        codes.append((table[held], width))
        table[one] = len(table) + 2
        if len(table) + 2 == (1 << width) and width < 12:
            width += 1
        if len(table) + 2 == 4095:
            codes.append((256, width))
            table, width = {bytes([i]): i for i in range(256)}, 9
        held = bytes([value])
    codes += [(table[held], width), (257, width)] if held else [(257, width)]
    bits = "".join(format(code, f"0{n}b") for code, n in codes)
    bits += "0" * (-len(bits) % 8)
    return int(bits, 2).to_bytes(len(bits) // 8, "big")


def packbits(data):
    """Equal bytes as runs of up to 128, others as they are, up to 128 of them; a byte that means nothing in front."""
    out, at = b"\x80", 0
    for equal in re.finditer(rb"(.)\1{2,127}", data, re.DOTALL):
        plain = data[at:equal.start()]
        out += b"".join(bytes([len(plain[i:i + 128]) - 1]) + plain[i:i + 128] for i in range(0, len(plain), 128))
        out += bytes([257 - len(equal[0])]) + equal[1]
        at = equal.end()
    plain = data[at:]
    return out + b"".join(bytes([len(plain[i:i + 128]) - 1]) + plain[i:i + 128] for i in range(0, len(plain), 128))


def packs_of_tiff():
    return [(packed, predictor, kind) for packed in (5, 8, 32946, 32773, 50000)
            for predictor, kind in ((1, "u2"), (2, "u1"), (2, "i4"), (3, "f2"), (3, "f4"), (3, "f8"))]


def own_tiff(data, packed, predictor, big=False, extra=()):
    """One page in one strip; tifffile packs with imagecodecs alone."""
    order, (height, width) = "<>"[big], data.shape
    size = data.dtype.itemsize
    ordered = data.astype(data.dtype.newbyteorder(order))
    if predictor == 2:
        unsigned = data.astype(data.dtype).view(f"u{size}")
        changed = unsigned.copy()
        changed[:, 1:] -= unsigned[:, :-1]
        raw = changed.astype(f"{order}u{size}").tobytes()
    elif predictor == 3:
        planes = data.astype(f">f{size}").view("u1").reshape(height, width, size).transpose(0, 2, 1).reshape(height, -1)
        changed = planes.copy()
        changed[:, 1:] -= planes[:, :-1]
        raw = changed.tobytes()
    else:
        raw = ordered.tobytes()
    pack = {1: bytes, 5: lzw, 8: zlib.compress, 32946: zlib.compress, 32773: packbits, 50000: zstd, 7: bytes}
    body = pack[packed](raw)
    fields = [(256, 4, width), (257, 4, height), (258, 3, 8 * size), (259, 3, packed), (262, 3, 1), (273, 4, 8),
              (277, 3, 1), (278, 4, height), (279, 4, len(body)), (317, 3, predictor),
              (339, 3, {"u": 1, "i": 2, "f": 3}[data.dtype.kind])]
    fields = sorted(fields + list(extra))
    body += b"\0" * (len(body) % 2)
    text = struct.pack(order + "H", len(fields))
    for tag, kind, value in fields:
        text += struct.pack(order + "HHI", tag, kind, 1) + struct.pack(order + ("I" if kind == 4 else "HH"),
                                                                       *((value,) if kind == 4 else (value, 0)))
    return (b"MM" if big else b"II") + struct.pack(order + "HI", 42, 8 + len(body)) + body + text + bytes(4)


def test_csv(rng):
    """Columns as pandas reads them: headings, quotes, separators, missing fields, other texts; damage."""
    pandas = library("pandas")
    if not pandas:
        return
    for case in range(8):
        columns = {f"c {i}" if case % 2 else f"c{i}": numbers(rng, (int(9 + case),), kind).astype("f8")
                   for i, kind in enumerate(["f8", "i4", "u2", "f4"])}
        separator = ",;\t,"[case % 4]
        path = TMP / f"t{case}.{'tsv' if separator == chr(9) else 'csv'}"
        frame = pandas.DataFrame(columns)
        frame.to_csv(path, index=False, sep=separator, lineterminator=["\n", "\r\n"][case // 4],
                     header=case != 3, quoting=[0, 1][case // 4], na_rep=["", "NA"][case % 2])
        read = pandas.read_csv(path, sep=separator, float_precision="round_trip", header=None if case == 3 else "infer")
        READER.compare(rng, path, {str(k).replace(" ", " "): v.to_numpy("f8") for k, v in read.items()
                                   if " " not in str(k)}, n=3, whole=True)
        check(list(READER.listed(path)[0]) == [str(k) for k in read], f"{path.name}: names")
    path = TMP / "texts.csv"
    path.write_text("name,x,big\nanna,1.5,9007199254740993\n\n\"b, \"\"c\"\"\",,2\n")
    READER.compare(rng, path, {"x": np.array([1.5, np.nan])}, n=3)
    refuses(path, "name", "holds text 'anna' in line 2")
    refuses(path, "big", "holds a whole number beyond 2^53, '9007199254740993' in line 2")
    path = TMP / "excel.csv"  # as a German Excel writes it: a mark, semicolons, decimal commas, CRLF
    path.write_bytes(b"\xef\xbb\xbfDatum;x;wahr\r\n01.01.2020;-1,5;TRUE\r\n02.01.2020;2,25e1;False\r\n")
    READER.compare(rng, path, {"x": np.array([-1.5, 22.5]), "wahr": np.array([1.0, 0.0])}, n=2, whole=True)
    command = re.search(r'number its words by python3 (-c ".*") \(', READER.listed(path)[0]["Datum"][-1]).group(1)
    out = TMP / "OUT.csv"
    subprocess.run(f"{sys.executable} {command.replace('IN', path.name)}", shell=True, check=True, cwd=TMP)
    check(np.array_equal(READER.ask(out, [("Datum", "f64", [0], [2], [1])])[0], [0, 1]), "numbers of words")
    for text, names in (("# a station\n# of ours\na,b\n1,2\n", ["a", "b"]), ("# a,b\n1,2\n", ["a", "b"]),
                        ("# made by x\n1,2\n", ["0", "1"])):
        (TMP / "comments.csv").write_text(text)
        READER.compare(rng, TMP / "comments.csv", dict(zip(names, np.array([[1.0], [2.0]]))), n=2)
    path = TMP / "wide.csv"
    path.write_text("a,b\n1,2\n", encoding="utf-16")
    said = READER.ask(path, [("a", "f64", [0], [1], [1])])[0]
    command = re.search(r"iconv .*?OUT.csv", said).group(0).replace("IN", path.name)
    subprocess.run(command, shell=True, check=True, cwd=TMP)
    READER.compare(rng, out, {"a": np.array([1.0]), "b": np.array([2.0])}, n=2)
    path = TMP / "gaps.csv"
    path.write_text("a\n1\nNone\n<NA>\n#N/A\n-nan\n-1.#IND\n")
    READER.compare(rng, path, {"a": np.array([1] + 5 * [np.nan])}, n=3)  # as pandas 2 has it
    for text, says in (("a,b\n1,2\n3\n", "t.csv:3: 1 fields, and the first line has 2"),
                       ('a\n"1\n', "a quote does not end"),
                       ("a,b\n", "is empty: the file has no rows"), ("<html>", "HTML"), ("", "is damaged or no HDF5")):
        (TMP / "t.csv").write_text(text)
        answer = READER.ask(TMP / "t.csv", [("a", "f64", [0], [1], [1])])[0]
        check(isinstance(answer, str) and says in answer, f"{text!r}: {answer}")


named = sys.argv[2:] or [name for name in list(globals()) if name.startswith("test_")]
for index, name in enumerate(named):
    globals()[name](np.random.default_rng([DRAW, index]))
finish()
