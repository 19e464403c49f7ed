"""Missing and packed numbers by the CF conventions, next to xarray's and netCDF4-python's decoding.

check_cf.py ARRAY_VALUES   (the program built from array_values.c); exit status 77: a module is missing

Every kind of attribute x storage type x packed or not x form of the number x container, many arrays in few files.
xarray is the oracle of fill values, missing_value, packing and _Unsigned; netCDF4-python of valid ranges and NetCDF's
default fills, which xarray leaves alone.
"""
import base64
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import warnings

try:
    import h5py
    import netCDF4
    import numpy as np
    import xarray as xr
    import zarr
except ImportError as missing:
    print(f"SKIP: {missing} (scripts/install-packages test)")
    sys.exit(77)

warnings.simplefilter("ignore")
passed = failed = 0


def check(ok, what):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    if not ok:
        print(f"failed: {what}", flush=True)
    if failed == 20:
        sys.exit("and more")


PROGRAM = sys.argv[1]
TYPES = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"]
FORMS = ["exact", "double", "text", "list"]  # how an attribute's number is written
PACKED = {"scale_factor": 0.01, "add_offset": 280.0}


def ask(paths):
    """{(file, name): (values, warnings) or an error's text} of all arrays of these files, by one process."""
    done = subprocess.run([PROGRAM, *map(str, paths)], stdout=subprocess.PIPE, check=True)
    out, got, at = done.stdout, {}, 0
    while at < len(out):
        end = out.index(b"\n", at)
        path, name, status, n, more = out[at:end].decode().split("\t")
        at = end + 1
        values = np.frombuffer(out, "f8", int(n), at)
        at += 8 * int(n)
        text = out[at:at + int(more)].decode()
        at += int(more)
        got[path, name] = (values, text) if status == "ok" else text
    return got


# ---- cases: (name, stored numbers, attributes as numbers, form) ---------------------------------------------------

def fills_of(kind):
    """Two numbers that a writer would take for what is missing."""
    if kind[0] == "f":
        return (-9999.9, 1e4) if kind == "f2" else (-9999.9, 1e20)
    info = np.iinfo(kind)
    return (info.max, info.max - 3) if kind[0] == "u" else (info.min, info.max)


def numbers(rng, kind, special):
    """Numbers of all sizes, those that are special, and their neighbours."""
    dtype = np.dtype(kind)
    if kind[0] == "f":
        plain = rng.normal(0, 50, 24).astype(dtype)
        one = np.array(special, dtype)
        near = np.concatenate([np.nextafter(one, dtype.type(0)), np.nextafter(one, dtype.type(np.inf))])
        more = np.array([np.nan, 0, -0.0, np.inf, -np.inf], dtype)
        return np.concatenate([plain, one, near, more, one])
    info = np.iinfo(dtype)
    plain = rng.integers(info.min, info.max, 24, dtype=dtype, endpoint=True)
    whole = [int(s) for s in special]
    near = [w + d for w in whole for d in (-1, 0, 1, 0, 2) if info.min <= w + d <= info.max]
    return np.concatenate([plain, np.array(near + [0, 1, info.min, info.max], dtype)])


def cases(rng, kinds, unsigned=True):
    for kind in kinds:
        first, second = fills_of(kind)
        plain = [("none", {}), ("fill", {"_FillValue": first}), ("missing", {"missing_value": first}),
                 ("both", {"_FillValue": first, "missing_value": second}),
                 ("several", {"missing_value": [first, second]})]
        if kind[0] == "f":
            plain += [("nan", {"_FillValue": float("nan")}),
                      ("nan2", {"_FillValue": float("nan"), "missing_value": second})]
        if kind[0] == "i" and unsigned:
            plain += [("sign", {"_Unsigned": "true"}), ("signfill", {"_Unsigned": "true", "_FillValue": -1})]
        if kind[0] == "u" and unsigned:
            plain += [("sign", {"_Unsigned": "false"}),
                      ("signfill", {"_Unsigned": "false", "_FillValue": np.iinfo(kind).max})]
        for what, attributes in plain:
            for packed in (False, True):
                for form in FORMS if attributes or packed else FORMS[:1]:
                    whole = {**attributes, **(PACKED if packed else {})}
                    big = bool(rng.integers(2)) and kind[1] != "1"
                    special = [first, second]
                    data = numbers(rng, kind, special).astype(np.dtype(kind).newbyteorder(">" if big else "<"))
                    yield f"{kind}_{what}_{'packed' if packed else 'plain'}_{form}", data, whole, form


def typed(key, value, kind):
    """An attribute as CF wants it: fills of the array's type, factors doubles."""
    if isinstance(value, str):
        return value
    of = "f8" if key in PACKED else kind
    return np.array([int(v) if of[0] != "f" else v for v in np.ravel(value)]).astype(of)


def want(data, attributes, kind):
    """xarray's decoding: where NaN is; and the values by NumPy in double precision."""
    kept = {k: typed(k, v, kind) for k, v in attributes.items()}
    kept = {k: v if isinstance(v, str) or len(v) > 1 else v[0] for k, v in kept.items()}
    decoded = xr.conventions.decode_cf_variable("x",
                                                xr.Variable(("t",), data.astype(data.dtype.newbyteorder("=")), kept),
                                                decode_times=False)
    seen = np.asarray(decoded.values).astype("f8")
    stored = data.astype(data.dtype.newbyteorder("="))
    if attributes.get("_Unsigned"):
        stored = stored.view({"true": "u", "false": "i"}[attributes["_Unsigned"]] + kind[1])
    value = stored.astype("f8")
    if "scale_factor" in attributes:
        value = value * attributes["scale_factor"] + attributes["add_offset"]
    gone = np.isnan(seen)
    if kind in ("i8", "u8"):  # which xarray compares as doubles
        gone = np.isin(stored,
                       np.concatenate([np.ravel(typed(k, attributes[k], kind)).view(stored.dtype)
                                       for k in ("_FillValue", "missing_value") if k in attributes] or [[]]))
        if not {"_FillValue", "missing_value"} & set(attributes):
            gone = np.zeros(len(stored), bool)
    return np.where(gone, np.nan, value), seen


def same(got, value, seen, what):
    """seen: xarray's, in f32 for small types."""
    if not check_got(got, what):
        return
    values, text = got
    check(np.array_equal(np.isnan(values), np.isnan(value)),
          f"{what}: missing at {np.flatnonzero(np.isnan(values))} for {np.flatnonzero(np.isnan(value))}")
    check(np.allclose(values, value, rtol=1e-14, atol=0, equal_nan=True), f"{what}: {values} for {value}")
    if seen is not None:
        finite = np.isfinite(seen) & np.isfinite(values)
        check(np.allclose(values[finite], seen[finite], rtol=2e-3 if "f2_" in what else 2e-5, atol=1e-4),
              f"{what}: {values} for xarray's {seen}")
    check(text == "", f"{what}: warns of {text}")


def check_got(got, what):
    check(isinstance(got, tuple), f"{what}: {got}")
    return isinstance(got, tuple)


def written(key, value, kind, form):
    """The attribute as a file has it."""
    if isinstance(value, str):
        return value
    exact = typed(key, value, kind)
    if form == "text":
        return ", ".join(repr(v.item()) if exact.dtype.kind == "f" else str(int(v)) for v in exact)
    if form == "double":
        if key not in PACKED and kind in ("i8", "u8"):
            return exact if len(exact) > 1 else exact[0]  # a double has not all of them
        exact = np.ravel(value).astype("f8") if kind[0] == "f" and key not in PACKED else exact.astype("f8")
    if form == "list" or len(exact) > 1:
        return exact
    return exact[0]


# ---- containers -----------------------------------------------------------------------------------------------------

def in_hdf5(folder, everything):
    asked = {}
    for start in range(0, len(everything), 200):
        path = folder / f"cf{start}.h5"
        with h5py.File(path, "w") as f:
            for name, data, attributes, form in everything[start:start + 200]:
                s = f.create_dataset(name, data=data)
                for key, value in attributes.items():
                    s.attrs[key] = written(key, value, name[:2], form)
                asked[str(path), name] = (data, attributes, name[:2])
    return asked


def put_array(folder, data, version, fill, attributes):
    """One array of Zarr, by its specifications, in one chunk."""
    folder.mkdir(parents=True)
    n, dtype = len(data), data.dtype
    if version == 2:
        (folder / ".zarray").write_text(json.dumps({"zarr_format": 2, "shape": [n], "chunks": [n], "dtype": dtype.str,
                                                    "order": "C", "compressor": None,
                                                    "filters": None, "fill_value": fill}))
        (folder / ".zattrs").write_text(json.dumps({**attributes, "_ARRAY_DIMENSIONS": ["t"]}))
        (folder / "0").write_bytes(data.tobytes())
        return
    (folder / "zarr.json").write_text(json.dumps({
        "zarr_format": 3, "node_type": "array", "shape": [n], "data_type": dtype.name, "fill_value": fill or 0,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [n]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}}, "dimension_names": ["t"],
        "codecs": [{"name": "bytes", "configuration": {"endian": "big" if dtype.byteorder == ">" else "little"}}],
        "attributes": attributes}))
    (folder / "c").mkdir()
    (folder / "c/0").write_bytes(data.tobytes())


def in_json(value):
    return value if isinstance(value, str) else value.tolist()


def in_zarr(folder, everything, version):
    root, asked = folder / f"z{version}", {}
    root.mkdir()
    (root / (".zgroup" if version == 2
             else "zarr.json")).write_text(json.dumps({"zarr_format": version,
                                                       **({"node_type": "group"} if version == 3 else {})}))
    for name, data, attributes, form in everything:
        kind, fill = name[:2], None
        there = {k: in_json(written(k, v, kind, form)) for k, v in attributes.items()}
        if version == 2 and "_FillValue" in there and form != "text":  # where xarray puts it
            fill = there.pop("_FillValue")
            fill = "NaN" if fill != fill else fill[0] if isinstance(fill, list) else fill
            fill = int(fill) if kind[0] != "f" else fill
            if attributes.get("_Unsigned") == "false":  # .zarray's own are of its type
                there["_FillValue"], fill = fill, None
        if version == 3 and kind[0] == "f" and "_FillValue" in there and form != "text":  # as xarray writes it
            there["_FillValue"] = base64.b64encode(struct.pack("<d", np.ravel(there["_FillValue"])[0])).decode()
        put_array(root / name, data, version, fill, there)
        asked[str(root), name] = (data, attributes, kind)
    return asked


def check_xarray(folder):
    rng = np.random.default_rng(1)
    everything = list(cases(rng, TYPES))
    asked = {**in_hdf5(folder, everything), **in_zarr(folder, everything, 2), **in_zarr(folder, everything, 3)}
    got = ask(dict.fromkeys(path for path, _ in asked))
    for (path, name), (data, attributes, kind) in asked.items():
        same(got.get((path, name)), *want(data, attributes, kind), f"{os.path.basename(path)} {name} {attributes}")
    check(len(got) == len(asked), f"{len(got)} answers to {len(asked)}")


# ---- NetCDF-4, by its own library -----------------------------------------------------------------------------------

def ranges_of(kind):
    if kind[0] == "f":
        return -20.5, 30.25
    info = np.iinfo(kind)
    return (info.min // 2, info.max // 3) if kind[0] == "i" else (info.max // 8, info.max // 2)


def check_netcdf(folder):
    """Valid ranges, default fills and all of the above, as netCDF4-python masks and scales them."""
    rng = np.random.default_rng(2)
    kinds = [k for k in TYPES if k != "f2"]
    everything = [c for c in cases(rng, kinds, unsigned=False) if c[3] in ("exact", "list")]
    for kind in kinds:
        low, high = ranges_of(kind)
        first, _ = fills_of(kind)
        default = netCDF4.default_fillvals[kind]
        for what, attributes in (("range", {"valid_range": [low, high]}), ("least", {"valid_min": low}),
                                 ("most", {"valid_max": high}),
                                 ("minmax", {"valid_min": low, "valid_max": high}),
                                 ("all", {"valid_range": [low, high], "_FillValue": first}),
                                 ("default", {}), ("defaultmissing", {"missing_value": first})):
            for packed in (False, True):
                data = numbers(rng, kind,
                               [low, high, default, first] if kind[0] == "f" else [low, high, int(default), first])
                name = f"{kind}_{what}_{'packed' if packed else 'plain'}_exact"
                everything.append((name, data, {**attributes, **(PACKED if packed else {})}, "exact"))
    # all bytes are valid (NUG, valid_range), of which netCDF4-python masks one
    for name, data, attributes, _ in everything:
        if name[1] == "1" and "_FillValue" not in attributes:
            data[data == netCDF4.default_fillvals[name[:2]]] = 1
    asked = {}
    for start in range(0, len(everything), 200):
        path = str(folder / f"cf{start}.nc")
        with netCDF4.Dataset(path, "w") as f:
            for name, data, attributes, form in everything[start:start + 200]:
                kind = name[:2]
                f.createDimension(name, len(data))
                kept = {k: written(k, v, kind, form) for k, v in attributes.items()}
                fill = kept.pop("_FillValue", None)
                v = f.createVariable(name, kind, (name,), fill_value=None if fill is None else np.ravel(fill)[0],
                                     endian="big" if data.dtype.byteorder == ">" else "little")
                v.set_auto_maskandscale(False)
                v[:] = data
                v.setncatts(kept)
    for start in range(0, len(everything), 200):
        path = str(folder / f"cf{start}.nc")
        with netCDF4.Dataset(path) as f:
            for name, data, attributes, _ in everything[start:start + 200]:
                v = f[name]
                masked = np.ma.filled(np.ma.masked_array(v[:]).astype("f8"), np.nan)
                value = data.astype("f8")
                if "scale_factor" in attributes:
                    value = value * attributes["scale_factor"] + attributes["add_offset"]
                asked[path, name] = (np.where(np.isnan(masked), np.nan, value), masked, attributes)
    got = ask(dict.fromkeys(path for path, _ in asked))
    for (path, name), (value, masked, attributes) in asked.items():
        same(got.get((path, name)), value, masked, f"netcdf {name} {attributes}")
    with netCDF4.Dataset(folder / "nofill.nc", "w") as f:  # told not to fill: then no number stands for what is missing
        f.createDimension("t", 3)
        v = f.createVariable("x", "i2", ("t",), fill_value=False)
        v.set_auto_mask(False)
        v[:] = [-32767, 1, 2]
        v = f.createVariable("bytes", "u1", ("t",))
        v.set_auto_mask(False)
        v[:] = [255, 1, 2]
    with h5py.File(folder / "plain.h5", "w") as f:  # no NetCDF: its numbers are numbers
        f.create_dataset("x", data=np.array([-32767, 1, 2], "i2"), fillvalue=7)
    got = ask([folder / "nofill.nc", folder / "plain.h5"])
    check(got[str(folder / "nofill.nc"), "bytes"][0].tolist() == [255, 1, 2], "bytes have no default fill")
    check(got[str(folder / "nofill.nc"), "x"][0].tolist() == [-32767, 1, 2], "no fill")
    check(got[str(folder / "plain.h5"), "x"][0].tolist() == [-32767, 1, 2], "a plain HDF5 file has no default fill")


# ---- Zarr as xarray writes it, and fill values in all forms ---------------------------------------------------------

def check_zarr(folder):
    truth = np.array([1.5, np.nan, -2.25, 300, np.nan, 0])
    encodings = {"plain": {}, "i2": dict(dtype="i2", scale_factor=0.25, add_offset=1.0, _FillValue=-32767),
                 "f4": dict(dtype="f4", _FillValue=-9999.9),
                 "f2": dict(dtype="f2", _FillValue=-1000.0),
                 "u1": dict(dtype="u1", scale_factor=2.5, add_offset=-5.0, _FillValue=255)}
    names = list(encodings)
    values = {n: truth if n != "u1" else np.array([0, np.nan, 2.5, 300, np.nan, 0]) for n in names}
    xr.Dataset({n: ("t", values[n]) for n in names}).to_zarr(folder / "x.zarr", encoding=encodings, consolidated=False)
    seen = xr.open_zarr(folder / "x.zarr", consolidated=False)
    # zarr-python's fill_value is 0: no missing number
    plain = zarr.open(str(folder / "numbers.zarr"), mode="w", shape=4, chunks=4, dtype="i4")
    plain[:] = [0, 1, 2, 0]
    plain.attrs["units"] = "K"
    got = ask([folder / "x.zarr", folder / "numbers.zarr"])
    for n in names:
        values, _ = got[str(folder / "x.zarr"), n]
        check(np.allclose(values, np.asarray(seen[n].values, "f8"), rtol=1e-6, equal_nan=True)
              and np.isnan(values).sum() == 2, f"{n}: {values}")
    check(got[str(folder / "numbers.zarr"), ""][0].tolist() == [0, 1, 2, 0],
          "a fill_value of 0 that nobody calls missing")
    odd = folder / "odd.zarr"
    put_array(odd, np.array([1.0, 2.0]), 2, None, {})
    # Python's JSON
    (odd / ".zattrs").write_text('{"_ARRAY_DIMENSIONS": ["t"], "missing_value": NaN, "valid_max": Infinity, '
                                 '"valid_min": -Infinity}')
    check(ask([odd])[str(odd), ""][0].tolist() == [1, 2], "NaN and Infinity in .zattrs")


FILLS = {"f2": {1.5: 1.5, 0: 0, "NaN": "nan", "Infinity": np.inf, "-Infinity": -np.inf, "0x7e00": "nan", "0x3e00": 1.5,
                65504: 65504, 1e-7: 1.1920929e-07, None: 0},
         "f4": {0.1: 0.1, "NaN": "nan", "-Infinity": -np.inf, "0x7fc00000": "nan", "0xc61c3f9a": -9999.9,
                16777217: 16777216, None: 0},
         "f8": {0.1: 0.1, "NaN": "nan", "Infinity": np.inf, "0x7ff8000000000000": "nan", "0xc0c387f333333333": -9999.9,
                None: 0},
         "?": {True: 1, False: 0, 1: 1, None: 0}, "i1": {-128: -128, 127.0: 127, None: 0}, "u1": {255: 255, None: 0},
         "i2": {-32768: -32768, 5.0: 5}, "u2": {65535: 65535}, "i4": {-2147483648: -2147483648},
         "u4": {4294967295: 4294967295},
         "i8": {-9223372036854775808: -2.0**63, 9223372036854775807: 2.0**63},
         "u8": {18446744073709551615: 2.0**64, 9223372036854775808: 2.0**63}}
BAD = {"f2": ["moon", 1e6, 65520, "0x7fc00000", []], "f4": [1e39, "0x7e00", "", {}], "i2": [32768, 0.5, "NaN", 1e300],
       "u1": [-1, 256], "u8": [-1, 2**64], "?": [2, "x"]}


def check_fills(folder):
    """An array of which no chunk was written is its fill value: all types, forms and orders of bytes."""
    asked = {}
    for version in (2, 3):
        for kind, fills in FILLS.items():
            for order in "<>":
                for i, (fill,
                        value) in enumerate(list(fills.items()) +
                                            [(bad, None) for bad in map(json.dumps, BAD.get(kind, []))]):
                    fill = json.loads(fill) if value is None else fill
                    path = folder / f"fill{version}{kind.replace('?', 'b')}{'be' if order == '>' else 'le'}{i}"
                    put_array(path, np.zeros(3, np.dtype(kind).newbyteorder(order)), 2, None, {})
                    (path / "0").unlink()
                    meta = json.loads((path / ".zarray").read_text())
                    meta["fill_value"] = fill
                    (path / ".zarray").write_text(json.dumps(meta))
                    (path / ".zattrs").unlink()
                    if version == 3:
                        (path / ".zarray").unlink()
                        path.rename(folder / "away")
                        put_array(path, np.zeros(3, np.dtype(kind).newbyteorder(order)), 3, None, {})
                        meta = json.loads((path / "zarr.json").read_text())
                        meta["fill_value"] = fill
                        (path / "zarr.json").write_text(json.dumps(meta))
                        (path / "c/0").unlink()
                        (folder / "away").rmdir()
                    asked[str(path)] = (kind, fill, value)
    got = ask(asked)
    for path, (kind, fill, value) in asked.items():
        answer = got[path, ""]
        if value is None:
            check(isinstance(answer, str) and "fill_value that is no number of its type" in answer,
                  f"{path}: {kind} {fill!r}: {answer}")
        elif check_got(answer, f"{path}: {kind} {fill!r}"):
            wanted = float(np.dtype(kind).type(value)) if kind[0] == "f" else float(value)
            check(all(v == wanted or (v != v and wanted != wanted) for v in answer[0]),
                  f"{path}: {kind} {fill!r}: {answer[0]} for {wanted}")


# ---- what is malformed is told --------------------------------------------------------------------------------------

ODD = [  # attributes, an error or a warning that says so, (values of [1, 2, 3] as i2)
    ({"scale_factor": "a tenth"}, "error", "its attribute scale_factor is 'a tenth': this is no number"),
    ({"scale_factor": ""}, "error", "scale_factor"),
    ({"scale_factor": [0.1, 0.2]}, "error", "several numbers where there must be one"),
    ({"scale_factor": float("nan")}, "error", "it must be finite"), ({"add_offset": "much"}, "error", "add_offset"),
    ({"add_offset": [1.0, 2.0]}, "error", "several numbers"), ({"missing_value": "none"}, "error", "missing_value"),
    ({"_FillValue": "0x12"}, "error", "_FillValue"), ({"valid_range": [1]}, "error", "it must be two numbers"),
    ({"valid_range": [1, 2, 3]}, "error", "it must be two numbers"),
    ({"valid_min": [1, 2]}, "error", "several numbers"), ({"valid_max": "high"}, "error", "valid_max"),
    ({"_Unsigned": "perhaps"}, "error", "_Unsigned"), ({"_Unsigned": 2}, "error", "neither true nor false"),
    ({"missing_value": list(range(17))}, "error", "missing_value"),
    ({"scale_factor": 0.0, "add_offset": 2.0}, [2, 2, 2], "all numbers stand for add_offset"),
    ({"_FillValue": 1e20}, [1, 2, 3], "no number of the array's type"),
    ({"missing_value": [40000, 2]}, [1, None, 3], "no number of the array's type"),
    ({"_FillValue": 2.5}, [1, 2, 3], "no number of the array's type"),
    ({"_FillValue": float("nan")}, [1, 2, 3], "no number of the array's type"),
    ({"_FillValue": [1, 3]}, [None, 2, None], "all are taken as missing"),
    ({"valid_min": 2, "valid_max": 1}, [None, None, None], "all numbers are missing"),
    ({"valid_max": 1e9}, [1, 2, 3], "no bound"),
    ({"valid_range": [2, 3], "valid_max": 1}, [None, 2, 3], "ignored, since there is a valid_range"),
    ({"_Unsigned": "True"}, [1, 2, 3], ""), ({"_Unsigned": 1}, [1, 2, 3], ""), ({"_Unsigned": True}, [1, 2, 3], ""),
    ({"_Unsigned": "FALSE"}, [1, 2, 3], ""),
    ({"scale_factor": [2.0], "missing_value": " 2 "}, [2, None, 6], ""),
    ({"missing_value": "1 3"}, [None, 2, None], ""), ({"valid_range": "2, 3"}, [None, 2, 3], ""),
    ({"scale_factor": "2.5e-1"}, [0.25, 0.5, 0.75], ""), ({"scale_factor": 1, "add_offset": 1}, [2, 3, 4], ""),
    ({"units": "none"}, [1, 2, 3], ""),
]


def unsigned(folder):
    """FITS's unsigned numbers: whole numbers with an offset of 2^(bits - 1), of which 64 bits exceed a double."""
    try:
        from astropy.io import fits
    except ImportError as missing:
        return print(f"SKIP: {missing} (scripts/install-packages test)")
    path = str(folder / "unsigned.fits")
    arrays = {f"U{n}": np.array([0, 1, 7, 2**n - 1 if n < 64 else 2**53], f"u{n // 8}") for n in (16, 32, 64)}
    fits.HDUList([fits.PrimaryHDU(), *(fits.ImageHDU(a, name=k) for k, a in arrays.items())]).writeto(path)
    got = ask([path])
    for name, want in arrays.items():
        check(np.array_equal(got[path, name][0], want.astype("f8")), f"{name}: {got[path, name]}")


def check_odd(folder):
    data, asked = np.array([1, 2, 3], "i2"), {}
    with h5py.File(folder / "odd.h5", "w") as f:
        for i, (attributes, outcome, says) in enumerate(ODD):
            f[f"a{i}"] = data
            for key, value in attributes.items():
                f[f"a{i}"].attrs[key] = value
            asked[str(folder / "odd.h5"), f"a{i}"] = ODD[i]
            path = folder / f"oddz{i}"
            put_array(path, data, 2 + i % 2, None, attributes)
            asked[str(path), ""] = ODD[i]
        f["void"], f["words"], f["record"], f["float"] = data, data, data, data.astype("f4")
        f["void"].attrs["_FillValue"] = h5py.Empty("f4")
        f["words"].attrs["missing_value"] = ["1", "2"]
        f["record"].attrs["scale_factor"] = np.zeros(1, [("a", "f4")])[0]
        f["float"].attrs["_Unsigned"] = "true"
    for name in ("void", "words", "record"):
        asked[str(folder / "odd.h5"), name] = ({}, "error", "no short list of numbers")
    asked[str(folder / "odd.h5"), "float"] = ({}, [1, 2, 3], "are no integers")
    got = ask(dict.fromkeys(path for path, _ in asked))
    for (path, name), (attributes, outcome, says) in asked.items():
        answer, what = got[path, name], f"{os.path.basename(path)} {name} {attributes}"
        if outcome == "error":
            check(isinstance(answer, str) and says in answer and f"'{name}'" in answer, f"{what}: {answer}")
        elif check_got(answer, what):
            check(np.array_equal(answer[0], np.array([np.nan if v is None else v for v in outcome]), equal_nan=True),
                  f"{what}: {answer[0]}")
            check(says in answer[1] and bool(says) == bool(answer[1]), f"{what}: warns {answer[1]!r}")
    unsigned(folder)


def main():
    with tempfile.TemporaryDirectory() as folder:
        for part in (check_odd, check_zarr, check_fills, check_netcdf, check_xarray):
            place = pathlib.Path(folder) / part.__name__
            place.mkdir()
            part(place)
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0 or passed < 5000)


main()
