"""What dldata's simulators write, as numpy and h5py read it: layouts, statistics, the same bytes, what is refused and
what is left after a signal. `dldata inspect` on each.

check_dldata.py BUILD     from the project's root; exit 77 without numpy and h5py
"""
import os
import signal
import struct
import subprocess
import sys

from checks import ENV, TMP, check, finish

try:
    import h5py
    import numpy as np
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)

DLDATA = os.path.join(os.path.abspath(sys.argv[1]), "cli/dldata")


def run(*args, status=0):
    r = subprocess.run([DLDATA, *args], capture_output=True, text=True, cwd=TMP, env=ENV)
    check(r.returncode == status, f"dldata {' '.join(args)}: status {r.returncode}, {r.stderr[-300:]}")
    return r.stdout + r.stderr


def content(folder):
    found = {}
    for at, _, names in os.walk(os.path.join(TMP, folder)):
        for name in names:
            with open(os.path.join(at, name), "rb") as f:
                found[os.path.relpath(os.path.join(at, name), os.path.join(TMP, folder))] = f.read()
    return found


def weather():
    small = ["--size", "21x48", "--years", "2", "--samples", "6", "--spin-up", "2", "--first-year", "1998"]
    said = run("weather", "-o", "w", *small, "--threads", "1")
    check("energy" in said and "potential enstrophy" in said, "no budget in the log")
    run("weather", "-o", "new/dirs/w", "-q", *small, "--threads", "2")
    check(content("w") == content("new/dirs/w"), "weather hangs on the number of threads")
    check(sorted(content("w")) == ["stats/global_means.npy", "stats/global_stds.npy", "train/1998.h5", "train/1999.h5",
                                   "valid/2000.h5"], "the files of a weather")
    years = {}
    for year, part in ((1998, "train"), (1999, "train"), (2000, "valid")):
        with h5py.File(f"{TMP}/w/{part}/{year}.h5") as f:
            fields = f["fields"]
            check(fields.shape == (6, 20, 21, 48) and fields.dtype == np.float32 and fields.chunks is None,
                  "fields' layout")
            names = fields.attrs["channels"]
            names = (names.decode() if isinstance(names, bytes) else names).split("\n")
            check(len(names) == 20 and [n.split(":")[0] for n in names[:3]] == ["u10m", "v10m", "t2m"],
                  f"channels: {names}")
            years[year] = fields[:].astype(np.float64)
            check(np.allclose(f["latitude"][:], 90 - 9 * np.arange(21), atol=1e-5), "latitudes")
            check(np.allclose(f["longitude"][:], 7.5 * np.arange(48)), "longitudes")
            for key in ("energy_first_J_m2", "energy_last_J_m2", "potential_enstrophy_mean",
                        "kinetic_energy_mean_J_m2"):
                check(f.attrs[key] > 0, f"attribute {key}")
            check(abs(f.attrs["mass_kg_m2"] / 5000 - 1) < 1e-9, "the mass of the air")
            land, ground = f["land"][:], f["orography"][:]
            check(0.2 < (land > 0.5).mean() < 0.5 and ground.max() > 800, "land and mountains")
    train = np.concatenate([years[1998], years[1999]])
    means, stds = (np.load(f"{TMP}/w/stats/global_{what}.npy") for what in ("means", "stds"))
    check(means.shape == stds.shape == (1, 20, 1, 1) and means.dtype == stds.dtype == np.float32,
          "shape of the statistics")
    want = train.mean((0, 2, 3)), train.std((0, 2, 3))
    check(np.all(np.abs(means.ravel() - want[0]) < 1e-6 * (np.abs(want[0]) + want[1])), "means are not numpy's")
    check(np.all(np.abs(stds.ravel() / want[1] - 1) < 1e-6), "standard deviations are not numpy's")
    check(np.isfinite(train).all() and np.all(want[1] > 0), "numbers of the weather")

    # Channels that follow from others, by definitions of one's own.
    u10, v10, t2m, u, v, z, h, vo, d, pv, ke, psi, chi, w, t, q, r, tp, tracer, tadv = np.moveaxis(train, 1, 0)
    lat, lon = np.radians(90 - 9 * np.arange(21))[:, None], np.radians(7.5 * np.arange(48))
    check(np.allclose(z - h, ground, atol=1e-2), "top less thickness is the ground")
    check(np.allclose(pv, (vo + 2 * 7.292e-5 * np.sin(lat)) / h, rtol=1e-4, atol=1e-12), "potential vorticity")
    check(np.allclose(ke, (u * u + v * v) / 2, rtol=1e-4, atol=1e-4), "kinetic energy")
    check(np.all(u10 ** 2 + v10 ** 2 <= 0.73 * (u ** 2 + v ** 2) + 1e-6), "friction slows")
    check(q.min() >= 0 and tp.min() >= 0 and r.min() >= 0 and 150 < t2m.min() and t2m.max() < 340, "ranges")
    # Wind is the potentials' gradient: spectrally along a circle, for the part that psi and chi have together.
    def along(x):
        k = np.fft.rfftfreq(48, 1 / 48)
        return np.fft.irfft(1j * k * np.fft.rfft(x, axis=-1), 48, axis=-1)
    a, inner, c = 6.37122e6, slice(1, -1), np.cos(lat)[1:-1]
    zonal = (along(v)[:, inner] / (a * c))  # of vorticity, the part dv/dx; the rest is -d(u cos)/dlat
    fine = (u * np.cos(lat))
    slope = (fine[:, 2:] - fine[:, :-2]) / (2 * np.radians(-9)) / (a * c)
    error = np.sqrt(np.mean((zonal - slope - vo[:, inner]) ** 2)) / vo.std()
    check(error < 0.35, f"vorticity is not the wind's: {error:.3f}")
    moved = np.sqrt(np.mean((train[1:6] - train[:5]) ** 2, axis=(0, 2, 3))) / want[1]
    check(np.all(moved > 0.003) and moved[1] > 0.03, f"the weather stands still: {moved.round(3)}")

    said = run("inspect", "w/train/1998.h5", "-o", "w.png")
    for word in ("fields", "[6, 20, 21, 48]", "contiguous", "u10m", "latitude", "dldata weather"):
        check(word in said, f"inspect does not say {word}")
    check("is not an empty directory" in run("weather", "-o", "w", *small, status=2), "a directory was replaced")
    os.mkdir(f"{TMP}/empty")
    run("weather", "-o", "empty", "-q", "--size", "8x16", "--years", "1", "--valid-years", "0", "--samples", "2",
        "--spin-up", "0")
    check(sorted(content("empty")) == ["stats/global_means.npy", "stats/global_stds.npy", "train/2001.h5"],
          "an empty directory")
    for size in ("8x15", "4x16", "8", "8x16x2", "axb"):
        check("--size" in run("weather", "-o", "bad", "--size", size, status=2), f"--size {size}")
    check("GiB" in run("weather", "-o", "bad", "--size", "2000x4000", "--samples", "100000", status=5), "memory")
    check(not os.path.exists(f"{TMP}/bad"), "something is left of what was refused")


def images():
    run("images", "-o", "c", "-q", "--train", "200", "--valid", "50")
    names = content("c")["batches.meta.txt"].decode().split()
    check(len(names) == 10 and len(set(names)) == 10, "ten classes")
    pictures = []
    for name, n in [(f"data_batch_{i}.bin", 40) for i in range(1, 6)] + [("test_batch.bin", 50)]:
        records = np.frombuffer(content("c")[name], np.uint8).reshape(-1, 3073)
        check(len(records) == n and (np.bincount(records[:, 0], minlength=10) == n // 10).all(), f"{name}: labels")
        pictures.append(records)
    train = np.concatenate(pictures[:5])
    x = train[:, 1:].reshape(-1, 3, 32, 32).astype(float)
    check(len({r.tobytes() for r in train[:, 1:]}) == 200, "pictures come twice")
    # Planes: neighbours in a plane are alike, and colours are not three copies of one.
    check(np.abs(np.diff(x, axis=3)).mean() < 0.6 * np.abs(x - x[::-1]).mean(), "planes of red, green, blue")
    check(np.abs(x[:, 0] - x[:, 2]).mean() > 10, "colours")
    run("images", "-o", "j", "-q", "--jpeg", "--train", "40", "--valid", "20", "--side", "48", "--threads", "1")
    run("images", "-o", "j2", "-q", "--jpeg", "--train", "40", "--valid", "20", "--side", "48", "--threads", "2")
    files = content("j")
    check(files == content("j2"), "pictures hang on the number of threads")
    for part, n in (("train", 4), ("val", 2)):
        for name in names:
            check(sum(f.startswith(f"{part}/{name}/") for f in files) == n, f"{part}/{name}")
    sizes = set()
    for name, data in files.items():  # JPEG (ITU-T T.81): markers up to the frame's, which holds the size
        check(data[:2] == b"\xff\xd8" and data[-2:] == b"\xff\xd9", f"{name} is no JPEG file")
        at = 2
        while data[at + 1] != 0xC0:
            at += 2 + struct.unpack(">H", data[at + 2:at + 4])[0]
        sizes.add(struct.unpack(">HH", data[at + 5:at + 9]))
    check(len(sizes) > 20 and min(min(s) for s in sizes) >= 33 and max(max(s) for s in sizes) <= 84, f"sizes: {sizes}")
    said = run("inspect", "c/test_batch.bin", "-o", "c.png")
    x = pictures[5][:, 1:].reshape(-1, 3, 1024)
    green = f"{x[:, 1].mean():.5g}"
    check("CIFAR-10" in said and "[50, 3, 32, 32]" in said and green in said, f"inspect on records: {said[-900:]}")
    name = sorted(n for n in files if n.startswith("val"))[0]
    said = run("inspect", f"j/{name}", "-o", "j.png")
    check("JPEG picture" in said and "picture  u8 [1, 3, " in said, f"inspect on a JPEG file: {said}")
    with open(f"{TMP}/cut.jpg", "wb") as f:
        f.write(files[name][:len(files[name]) // 2])
    check("damaged, and guessed in part" in run("inspect", "cut.jpg", "-o", "j.png"), "a JPEG file cut short")
    with open(f"{TMP}/odd.bin", "wb") as f:
        f.write(bytes([11]) + bytes(3072))
    check("neither" in run("inspect", "odd.bin", "-o", "j.png", status=3), "a label above 9")
    check("multiple of 5" in run("images", "-o", "bad", "--train", "201", status=2), "--train 201")


def fields():
    run("fields", "-o", "f/a.h5", "-q", "--samples", "20", "--size", "32", "--channels", "2", "--threads", "1")
    run("fields", "-o", "f/b.h5", "-q", "--samples", "20", "--size", "32", "--channels", "2", "--threads", "2")
    check(content("f")["a.h5"] == content("f")["b.h5"], "fields hang on the number of threads")
    run("fields", "-o", "f/b.h5", "-q", "--samples", "20", "--size", "32", "--seed", "1")  # its own file is replaced
    with h5py.File(f"{TMP}/f/a.h5") as f, h5py.File(f"{TMP}/f/b.h5") as other:
        x, t = f["x"][:].astype(np.float64), f["t"][:].astype(np.float64)
        check(x.shape == t.shape == (20, 2, 32, 32) and f["x"].dtype == np.float32 and f["x"].chunks is None,
              "layout of fields")
        check(0 <= x.min() and x.max() <= 1 and abs(x.mean() - 0.5) < 0.03 and abs(x.var() - 1 / 12) < 0.01,
              "x is not uniform")
        check(not np.array_equal(x[:, :1], other["x"][:]), "another seed")
        attributes = dict(f.attrs)
    # The same equations in small steps of Euler's method.
    u, n = x.copy(), 4000
    dt = attributes["time"] / n
    for _ in range(n):
        laplace = sum(np.roll(u, s, a) for s in (1, -1) for a in (2, 3)) - 4 * u
        u = u + dt * (attributes["diffusivity"] * laplace +
                      u * (1 - u - attributes["competition"] * (u.sum(1, keepdims=True) - u)))
    check(np.abs(u - t).max() < 1e-3, f"t is {np.abs(u - t).max():.2e} from what x becomes")
    check("x  f32 [20, 2, 32, 32]" in run("inspect", "f/a.h5", "-o", "f.png"), "inspect on fields")
    with open(f"{TMP}/f/mine.h5", "w") as f:
        f.write("not yours")
    check("--force" in run("fields", "-o", "f/mine.h5", status=2), "a file of others was replaced")


def packed():
    """h5py's own packing, with and without its neighbours; one whose size is not the chunk's is not unpacked."""
    values = np.arange(600, dtype="f4").reshape(20, 30) - 300
    with h5py.File(f"{TMP}/lzf.h5", "w") as f:
        f.create_dataset("x", data=values, chunks=(7, 7), compression="lzf", shuffle=True)
        f.create_dataset("y", data=values, chunks=(9, 13), compression="lzf", fletcher32=True)
    said = run("inspect", "lzf.h5", "-o", "lzf.png")
    check("[7, 7], shuffle, lzf\n" in said and "[9, 13], lzf, fletcher32\n" in said
          and said.count("       -300         299        -0.5") == 2, f"lzf: {said}")
    with open(f"{TMP}/lzf.h5", "rb") as f:
        data = f.read()
    size = struct.pack("<I", 9 * 13 * 4)
    check(data.count(size) == 1, f"{data.count(size)} places of a chunk's bytes")
    with open(f"{TMP}/odd.h5", "wb") as f:
        f.write(data.replace(size, struct.pack("<I", 9 * 13 * 400)))
    said = run("inspect", "odd.h5", "-o", "odd.png")  # h5py states the size; the shape of a chunk is what counts
    check(said.count("       -300         299        -0.5") == 2, f"lzf of another size: {said}")


def stopped():
    """Ctrl-C and SIGTERM in the middle: nothing is left, and the status is the signal's."""
    for number, args in ((signal.SIGINT, ["weather", "-o", "stopped"]),
                         (signal.SIGTERM, ["images", "-o", "stopped", "--jpeg"]),
                         (signal.SIGTERM, ["fields", "-o", "stopped.h5", "--samples", "3000"])):
        before = set(os.listdir(TMP))
        p = subprocess.Popen([DLDATA, *args], cwd=TMP, env=ENV, stderr=subprocess.PIPE, text=True)
        for line in p.stderr:
            if "step 0/" in line:
                break
        p.send_signal(number)
        said = p.stderr.read()
        p.wait()
        check(p.returncode == -number and "nothing was written" in said,
              f"{args[0]} stopped: {p.returncode}, {said[-200:]}")
        check(set(os.listdir(TMP)) == before, f"{args[0]} left {set(os.listdir(TMP)) - before}")


for part in (weather, images, fields, packed, stopped):
    part()
finish()
