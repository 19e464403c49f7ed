"""GRIB files held against ecCodes' own Python (each field) and cfgrib (arrays, axes, coordinates); what dldata inspect
says of one, and that its section trains.

check_grib.py ARRAY_BLOCKS BUILD [NAME...]   (the program built from array_blocks.c; the tests to run); exit status 77:
cfgrib is missing (scripts/install-oracle grib). DLC_TEST_DRAW=D draws others."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import warnings

PYTHON = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "dlc-grib/bin/python"
warnings.simplefilter("ignore")
try:
    import eccodes
    import cfgrib
    import numpy as np
    import xarray
except ImportError as missing:
    if PYTHON.exists() and pathlib.Path(sys.prefix) != PYTHON.parent.parent:
        os.execv(PYTHON, [str(PYTHON), *sys.argv])
    print(f"SKIP: {missing} (scripts/install-oracle grib)")
    sys.exit(77)
except RuntimeError as missing:  # ecCodes itself
    print(f"SKIP: {missing} (scripts/install-packages test)")
    sys.exit(77)
from arrays import Reader
from strict import check, finish

READER, BUILD = Reader(sys.argv[1]), os.path.abspath(sys.argv[2])
RNG = np.random.default_rng(int(os.environ.get("DLC_TEST_DRAW", "0")))
TMP = pathlib.Path(tempfile.mkdtemp(prefix="grib-"))
LISTED, READ = {}, {}  # of each file; and by type
PARAMETERS = {"2t": (167, "sfc"), "10u": (165, "sfc"), "z": (129, "pl"), "t": (130, "pl")}
MISSING = 9999.0


def field(name, values, edition=2, date=20200101, time=0, step=0, level=500, packing="grid_simple", bits=16, **keys):
    """A message on a regular grid of latitudes and longitudes; NaN is missing."""
    parameter, kind = PARAMETERS[name]
    h = eccodes.codes_grib_new_from_samples(f"regular_ll_{kind}_grib{edition}")
    rows, columns = values.shape
    north, west, d = 60.0, 10.0, 0.5
    for key, value in {"Ni": columns, "Nj": rows, "latitudeOfFirstGridPointInDegrees": north,
                       "latitudeOfLastGridPointInDegrees": north - d * (rows - 1),
                       "longitudeOfFirstGridPointInDegrees": west,
                       "longitudeOfLastGridPointInDegrees": west + d * (columns - 1),
                       "iDirectionIncrementInDegrees": d, "jDirectionIncrementInDegrees": d, "paramId": parameter,
                       "dataDate": date, "dataTime": time, "step": step, "bitsPerValue": bits, **keys}.items():
        eccodes.codes_set(h, key, value)
    if kind == "pl":
        eccodes.codes_set(h, "level", level)
    put_values(h, values, packing)
    return h


def put_values(h, values, packing="grid_simple"):
    eccodes.codes_set(h, "missingValue", MISSING)
    eccodes.codes_set(h, "bitmapPresent", int(np.isnan(values).any()))
    eccodes.codes_set_values(h, np.where(np.isnan(values), MISSING, values).ravel())
    if packing != "grid_simple":
        eccodes.codes_set(h, "packingType", packing)
    if packing == "grid_ieee":  # 64 bits, which are exact
        eccodes.codes_set(h, "precision", 2)
        eccodes.codes_set_values(h, values.ravel())


def write(path, handles, before=b"", between=b""):
    with open(path, "wb") as f:
        f.write(before)
        for h in handles:
            f.write(eccodes.codes_get_message(h) + between)
            eccodes.codes_release(h)
    return path


def weather(shape, gaps=False):
    values = 280 + 20 * RNG.standard_normal(shape)
    if gaps:
        values[RNG.random(shape) < 0.2] = np.nan
    return values


def stored(path):
    """Each field by ecCodes: (shortName, number, valid time, level, kind of level, values)."""
    found = []
    with open(path, "rb") as f:
        while (h := eccodes.codes_grib_new_from_file(f)) is not None:
            eccodes.codes_set(h, "missingValue", 1e300)
            values = eccodes.codes_get_values(h)
            get = lambda key: eccodes.codes_get(h, key) if eccodes.codes_is_defined(h, key) else 0
            when = np.datetime64(f"{str(get('validityDate'))[:4]}-{str(get('validityDate'))[4:6]}-"
                                 f"{str(get('validityDate'))[6:]}") + np.timedelta64(get("validityTime") // 100, "h")
            seconds = when.astype("datetime64[s]").astype("i8")
            found.append((get("shortName"), get("number") or 0, seconds, float(get("level")), get("typeOfLevel"),
                          np.where(values == 1e300, np.nan, values)))
            eccodes.codes_release(h)
    return found


def whole(path, name, kind="f64"):
    """An array as it is listed, all of it, and the names of its axes."""
    if path not in LISTED:
        LISTED[path] = READER.listed(path)
    listed, said = LISTED[path]
    check(said == ("GRIB" if path.suffix == ".grib" else "HDF5") and name in listed,
          f"{path.name}: {name} of {said}: {list(listed)}")
    if (path, kind) not in READ:  # all at once: ecCodes reads its tables in each process
        shapes = {n: [int(size) for size in facts[1].split(",")] for n, facts in listed.items() if not facts[-1]}
        READ[path, kind] = dict(zip(shapes, READER.ask(path, [(n, kind, [0] * len(shape), shape, [1] * len(shape))
                                                              for n, shape in shapes.items()])))
    got = READ[path, kind][name]
    check(not isinstance(got, str), f"{path.name} {name}: {got}")
    return got, listed[name][4].split(","), listed[name]


def like_messages(path, names):
    """Every field of each array, by its coordinates, next to ecCodes' numbers."""
    fields, seen = stored(path), 0
    for name in names:
        got, axes, _ = whole(path, name)
        leading = [axis for axis in axes if re.match(r"number|time|level", axis)]
        coordinates = [whole(path, axis)[0] for axis in leading]
        for at in np.ndindex(*got.shape[:len(leading)]):
            key = {"number": 0, "time": 0, "level": None}
            key |= {re.sub(r"\d+$", "", axis): c[i] for axis, c, i in zip(leading, coordinates, at)}
            want = [f[5] for f in fields if f[:3] == (name.split("/")[0], key["number"], key["time"])
                    and key["level"] in (None, f[3]) and (name + "//").split("/")[1] in f[4]
                    and f[5].size == got[at].size]
            check(len(want) == 1 and np.array_equal(got[at].ravel(), want[0], equal_nan=True),
                  f"{path.name} {name} {key}: {len(want)} fields")
            seen += 1
    check(seen == len(fields), f"{path.name}: {seen} of {len(fields)} fields")


def like_cfgrib(path, names):
    """Arrays in f32, coordinates and units, as cfgrib has them."""
    for name in names:
        short = name.split("/")[0]
        x = cfgrib.open_dataset(str(path), indexpath="", filter_by_keys={"shortName": short}, squeeze=False)
        variable = next(iter(x.data_vars.values()))
        got, axes, listed = whole(path, name, "f32")
        level = next((d for d in variable.dims if d in ("isobaricInhPa", "surface", "heightAboveGround")), None)
        if level:
            variable = variable.sortby(level)
        want = variable.transpose("number", "time", "step", *([level] if level else []), "latitude", "longitude",
                                  missing_dims="ignore")
        check(np.array_equal(got.ravel(), want.values.ravel(), equal_nan=True),
              f"{path.name} {name}: {want.dims} {axes}")
        for key in ("units", "long_name"):
            check(f"{key}={variable.attrs[key]}" in listed[5], listed)
        for axis in ("latitude", "longitude"):
            check(np.allclose(whole(path, axis)[0], x[axis].values, atol=1e-9), f"{path.name}: {axis}")
        if "step" not in axes:
            times = np.sort(x["valid_time"].values.ravel()).astype("datetime64[s]").astype("i8")
            check(np.array_equal(whole(path, next(a for a in axes if a.startswith("time")))[0], times), "time")


def test_grids_of_fields():
    """Times, levels, members and steps; fields in any order; missing numbers; both editions; packings."""
    packings = {1: ["grid_simple", "grid_second_order"],
                2: ["grid_simple", "grid_ccsds", "grid_complex", "grid_complex_spatial_differencing", "grid_jpeg",
                    "grid_ieee"]}
    for case in range(4):
        edition, shape = 1 + case % 2, tuple(int(n) for n in RNG.integers(3, 14, 2))
        packing = str(RNG.choice(packings[edition]))
        gaps = case % 3 == 0 and packing in ("grid_simple", "grid_ccsds")
        more = {"packing": packing, "edition": edition, "bits": int(RNG.choice([8, 12, 16, 24]))}
        days, levels = [20200101 + d for d in range(1 + case % 4)], [1000, 850, 500][:1 + case % 3]
        fields = [field("2t", weather(shape, gaps), date=day, time=time, **more) for day in days for time in (0, 1200)]
        fields += [field("z", weather(shape), date=day, level=level, **more) for day in days for level in levels]
        path = write(TMP / f"f{case}.grib", [fields[i] for i in RNG.permutation(len(fields))],
                     between=b"\0" * int(RNG.integers(0, 9)) if case % 2 else b"")
        like_messages(path, ("2t", "z"))
        like_cfgrib(path, ("z" if case % 2 else "2t",))
        _, axes, facts = whole(path, "z")
        check([re.sub(r"\d", "", a) for a in axes] == ["time", *["level"] * (len(levels) > 1), "latitude", "longitude"],
              f"{axes}")
        check(facts[3] == packing, facts)


def test_blocks():
    """Random blocks, in random types, with a small cache."""
    data = np.stack([np.stack([weather((7, 9)) for _ in range(2)]) for _ in range(5)])
    path = write(TMP / "blocks.grib", [field("t", data[i, k], date=20200101 + i, level=[500, 850][k],
                                             packing="grid_ieee") for i in range(5) for k in range(2)])
    got, axes, _ = whole(path, "t")
    check(axes == ["time", "level", "latitude", "longitude"] and np.array_equal(got, data), axes)
    READER.compare(RNG, path, {"t": data}, n=20, cache=1000)
    READER.compare(RNG, path, {"time": (18262 + np.arange(5)) * 86400.0, "level": np.array([500.0, 850.0])}, n=4)


def test_forecasts():
    """Steps of one forecast are times; several forecasts of the same times have both axes; a member's axis."""
    shape = (4, 5)
    path = write(TMP / "one.grib", [field("2t", weather(shape), step=s) for s in (0, 6, 12)])
    like_messages(path, ["2t"])
    check(whole(path, "2t")[1] == ["time", "latitude", "longitude"], whole(path, "2t")[1])
    path = write(TMP / "many.grib", [field("2t", weather(shape), date=20200101 + d, step=s) for d in (0, 1)
                                     for s in (0, 12, 24, 36)])
    like_cfgrib(path, ["2t"])
    check(whole(path, "2t")[1] == ["time", "step", "latitude", "longitude"], whole(path, "2t")[1])
    check(list(whole(path, "step")[0]) == [0, 12, 24, 36], whole(path, "step")[0])
    path = write(TMP / "members.grib", [
        field("t", weather(shape), level=level, productDefinitionTemplateNumber=1, perturbationNumber=member)
        for member in (3, 1, 2) for level in (500, 850)])
    like_messages(path, ["t"]), like_cfgrib(path, ["t"])
    check(whole(path, "t")[1] == ["number", "time", "level", "latitude", "longitude"], whole(path, "t")[1])


def test_names():
    """The same parameter of two kinds of levels and two grids; coordinates that differ; other grids."""
    fields = [field("t", weather((4, 5)), level=level) for level in (500, 850)]
    high = field("t", weather((4, 5)), typeOfLevel="heightAboveGround", level=10)
    path = write(TMP / "kinds.grib", [*fields, high, field("t", weather((6, 5)), level=300)])
    listed, _ = READER.listed(path)
    names = [n for n in listed if n.startswith("t/")]
    check(names == ["t/heightAboveGround", "t/isobaricInhPa/instant", "t/isobaricInhPa/instant/2"] and
          {"latitude", "latitude2", "level", "time"} <= set(listed), list(listed))
    like_messages(path, names)
    for sample, axes in (("reduced_gg_sfc_grib2", "time,values"),
                         ("regular_gg_sfc_grib2", "time,latitude,longitude"),
                         ("polar_stereographic_sfc_grib1", "time,y,x")):
        h = eccodes.codes_grib_new_from_samples(sample)
        n = eccodes.codes_get(h, "numberOfDataPoints")
        put_values(h, weather((n,)))
        path = write(TMP / f"{sample}.grib", [h])
        listed, _ = READER.listed(path)
        name = next(iter(listed))
        check(listed[name][4] == axes, f"{sample}: {listed[name]}")
        check(np.array_equal(whole(path, name)[0].ravel(), stored(path)[0][5]), sample)
    got, want = whole(TMP / "regular_gg_sfc_grib2.grib", "latitude")[0], xarray.open_dataset(
        TMP / "regular_gg_sfc_grib2.grib", engine="cfgrib", backend_kwargs={"indexpath": ""})["latitude"].values
    check(np.allclose(got, want, atol=1e-9), "Gaussian latitudes")


def test_several_fields():
    """Fields that share a message, and a bitmap that is repeated; bytes before and after messages."""
    path = TMP / "multi.grib"
    fields = [field(n, weather((4, 5))) for n in ("2t", "10u")] + [field("z", weather((4, 5)), level=500)]
    several = eccodes.codes_grib_multi_new()
    for h in fields:
        eccodes.codes_grib_multi_append(h, 4, several)
    with open(path, "wb") as f:
        eccodes.codes_grib_multi_write(several, f)
    eccodes.codes_grib_multi_support_on()
    like_messages(path, ("2t", "10u", "z"))
    eccodes.codes_grib_multi_support_off()
    # the second field has the bitmap of the first one (indicator 254)
    gaps = np.isnan(weather((4, 5), gaps=True))
    gaps[1, 2] = True
    one, two = (bytearray(eccodes.codes_get_message(field(n, np.where(gaps, np.nan, weather((4, 5))))))
                for n in ("z", "t"))
    first, second = sections(one), sections(two)
    body = b"".join(first[i] for i in (1, 3, 4, 5, 6, 7))
    body += b"".join((second[4], second[5], (6).to_bytes(4, "big") + bytes([6, 254]), second[7]))
    path = TMP / "repeated.grib"
    path.write_bytes(one[:8] + (16 + len(body) + 4).to_bytes(8, "big") + body + b"7777")
    eccodes.codes_grib_multi_support_on()
    like_messages(path, ("z", "t"))
    eccodes.codes_grib_multi_support_off()


def sections(message):
    found, at = {}, 16
    while message[at:at + 4] != b"7777":
        n = int.from_bytes(message[at:at + 4], "big")
        found[message[at + 4]] = bytes(message[at:at + n])
        at += n
    return found


def test_large():
    """A message of edition 1 beyond 8 MiB, whose length counts 120 bytes."""
    path = write(TMP / "large.grib", [field("2t", weather((1500, 2000)), edition=1, bits=24, date=20200101 + i)
                                      for i in range(2)])
    like_messages(path, ["2t"])


def test_refused():
    """What is not read is named, and the remedies are run."""
    path = write(TMP / "uneven.grib", [field("t", weather((4, 5)), date=d, level=level)
                                       for d, level in ((20200101, 500), (20200101, 850), (20200102, 500))])
    why = READER.listed(path)[0]["t"][-1]
    check("has 3 fields, not one for each of" in why, why)
    command = re.search(r"such as (grib_copy .*?) \(", why).group(1)
    if shutil.which("grib_copy"):
        subprocess.run(command.replace("IN", str(path)).replace("OUT", str(TMP / "even.grib")), shell=True, check=True)
        like_messages(TMP / "even.grib", ["t"])
    else:
        print("SKIP: no grib_copy (scripts/install-packages test)")
    for sample in ("sh_pl_grib2", "sh_ml_grib1", "lambert_bf_grib2"):
        path = write(TMP / f"{sample}.grib", [eccodes.codes_grib_new_from_samples(sample)])
        why = next(iter(READER.listed(path)[0].values()))[-1]
        check("has coefficients of a spectral transform, not values" in why, f"{sample}: {why}")
    path = write(TMP / "plain.grib", [field("2t", weather((4, 5)))])
    done = subprocess.run([BUILD + "/cli/dldata", "inspect", str(path)], stderr=subprocess.PIPE, text=True,
                          env={**os.environ, "DLC_ECCODES": "/none/libeccodes.so"})
    check(done.returncode == 3 and "plain.grib is of the format GRIB, which ecCodes reads" in done.stderr and
          "cdo -f nc4 copy IN OUT.nc" in done.stderr, done.stderr)
    if not shutil.which("cdo"):
        print("SKIP: no cdo (scripts/install-packages test)")
        return
    command = re.search(r"cdo [^(]*", done.stderr).group(0).replace("IN", str(path)).replace("OUT", str(TMP / "plain"))
    subprocess.run(command, shell=True, check=True, stderr=subprocess.DEVNULL)
    listed, _ = READER.listed(TMP / "plain.nc")
    name = next(n for n in listed if listed[n][1].endswith(",4,5"))  # of a time, and of a height in some versions
    got, want = whole(TMP / "plain.nc", name)[0].ravel(), stored(path)[0][5]
    check(np.array_equal(got.astype("f4"), want.astype("f4")), f"{command}: {got} is not {want}")


def test_damage():
    """Changed bytes, cut files: an error that names the file, or numbers; never a crash."""
    good = write(TMP / "good.grib", [field(n, weather((4, 5), gaps=True), edition=e)
                                     for n, e in (("2t", 1), ("10u", 2))])
    whole_file = good.read_bytes()
    for case in range(12):
        changed = bytearray(whole_file)
        for _ in range(int(RNG.integers(1, 4))):
            changed[int(RNG.integers(len(changed)))] = int(RNG.integers(256))
        if case % 4 == 0:
            changed = changed[:int(RNG.integers(1, len(changed)))]
        path = TMP / "bad.grib"
        path.write_bytes(changed)
        done = subprocess.run([sys.argv[1], str(path)], stdout=subprocess.PIPE, text=True, errors="replace")
        check(done.returncode == 0 or (done.returncode > 0 and "bad.grib" in done.stdout), f"{done}")
        questions = []
        for line in done.stdout.splitlines()[1:] if done.returncode == 0 else ():
            name, _, shape, *_ = line.split("\t")
            counts = [min(int(n), 9) for n in shape.split(",")]
            questions.append((name, "f64", [0] * len(counts), counts, [1] * len(counts)))
        for answer in READER.ask(path, questions) if questions else ():
            check(not isinstance(answer, str) or "bad.grib" in answer, f"{questions}: {answer}")
    for change, says in ((lambda b: b[:-9], "does not end within the file"),
                         (lambda b: b[:7] + b"\3" + b[8:], "is of no edition 1 or 2"),
                         (lambda b: b[:8] + b"\xff" + b[9:], "has sections beyond its end")):
        path.write_bytes(change(whole_file))
        answer = READER.ask(path, [("2t", "f64", [0], [1], [1])])[0]
        check("bad.grib is damaged: its message at byte" in answer and says in answer, f"{says}: {answer}")


def test_inspect():
    """ERA5-like: inspect shows axes, units, times and ranges, and proposes a section that trains."""
    os.chdir(TMP)
    write(TMP / "era.grib", [field(n, weather((8, 12)), date=20200101 + t // 4, time=t % 4 * 600, level=level)
                             for t in range(24) for n, level in (("2t", 0), ("z", 500), ("z", 850))])
    (TMP / "era.dl").write_text("model M():\n    input x: f32[N, C=3, H=8, W=12]\n    target t: f32[N, C=3, H, W]\n"
                                "    y = x |> conv(C, 3, pad=1) @c\n    output y\n    loss = mse_loss(y, t)\n")
    done = subprocess.run([BUILD + "/cli/dldata", "inspect", "era.grib", "era.dl"], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    for word in ("era.grib: GRIB, ", "axes: time, level, latitude, longitude", "units: K", "2 metre temperature",
                 "from 2020-01-01 00:00 to 2020-01-06 18:00", "array: ['2t', 'z']"):
        check(word in done.stdout, f"{word}: {done.stdout}")
    section = done.stdout[done.stdout.index("  data:\n"):]
    (TMP / "c.yaml").write_text("c:\n  model: era.dl\n  global_batch_size: 2\n  num_epochs: 1\n  lr: 0.001\n" + section)
    done = subprocess.run([BUILD + "/cli/dlrun", "c.yaml"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    check(done.returncode == 0 and "DONE" in done.stdout, f"{section}{done.stdout[-900:]}")


for name, test in list(globals().items()):
    if name.startswith("test_") and (not sys.argv[3:] or name[5:] in sys.argv[3:]):
        test()
finish()
