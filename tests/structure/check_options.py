#!/usr/bin/env python3
"""check_options.py: a build without libhdf5 and libjpeg-turbo, and with a run path. It refuses such files by name and with the option
that would read them, and does the rest; what is installed has the run path. `tests=true` is refused there."""
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
RPATH = "/opt/site/lib:$ORIGIN/../lib"
MODEL = """model M():
    input x: f32[N, C=1, H=8, W=8]
    y = x |> conv(1, 3, pad=1) @a
    output y
    loss = mean(y * y)
"""
passed, failed = 0, 0


def check(ok, what):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    if not ok:
        print(f"failed: {what}")


def npy(path, *shape):
    header = str({"descr": "<f4", "fortran_order": False, "shape": shape}).encode()
    header += b" " * (117 - len(header)) + b"\n"
    count = 1
    for size in shape:
        count *= size
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + struct.pack(f"<{count}f", *([0.5] * count)))


with tempfile.TemporaryDirectory(prefix="dlc_options_") as name:
    folder = pathlib.Path(name)
    subprocess.run(["meson", "setup", folder / "b", "-Dhdf5=disabled", "-Djpeg=disabled", f"-Drpath={RPATH}"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["ninja", "--quiet", "-C", folder / "b"], check=True)
    check(not (folder / "b/tests").exists(), "the tests need both libraries")
    refused = subprocess.run(["meson", "setup", folder / "c", "-Dhdf5=disabled", "-Dtests=true"], cwd=ROOT, text=True, capture_output=True)
    check(refused.returncode != 0 and "the tests need libhdf5" in refused.stdout, f"tests=true: {refused.stdout[-300:]}")
    subprocess.run(["meson", "install", "-C", folder / "b", "--destdir", folder / "d"], check=True, stdout=subprocess.DEVNULL)
    for path in [p for p in (folder / "d").rglob("*") if p.is_file() and p.open("rb").read(4) == b"\x7fELF"]:
        said = subprocess.run(["readelf", "-d", path], text=True, capture_output=True).stdout
        check(f"[{RPATH}]" in said, f"{path.name} has no run path")
    (folder / "m.dl").write_text(MODEL)
    (folder / "x.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(200))
    (folder / "p.jpg").write_bytes(b"\xff\xd8\xff\xe0" + bytes(200))
    npy(folder / "x.npy", 8, 1, 8, 8)

    def run(program, *args):
        return subprocess.run([folder / "b/cli" / program, *args], cwd=folder, text=True, capture_output=True,
                              env={**os.environ, "DLR_CACHE_DIR": str(folder / "cache")})

    def train(file):
        return run("dlrun", "m.dl", f"--data={{inputs: {{x: {file}}}, split: {{valid: 0.5}}}}", "--local_batch_size=2", "--num_epochs=1")

    for r, option in ((train("x.h5"), "hdf5"), (run("dldata", "inspect", "x.h5"), "hdf5"), (run("dldata", "inspect", "p.jpg"), "jpeg"),
                      (run("dldata", "images", "--jpeg", "-o", "pictures", "--train=5", "--valid=1"), "jpeg")):
        check(r.returncode == 5 and f"-D{option}=enabled" in r.stderr, f"{option}: exit {r.returncode}, {r.stderr[-300:]}")
    r = train("x.npy")
    check(r.returncode == 0, f"trains on .npy: {r.stderr[-300:]}")
    r = run("dldata", "nbody", "-o", "n.h5", "--size=16", "-q")
    check(r.returncode == 0 and (folder / "n.h5").stat().st_size > 1 << 16, f"writes HDF5 all the same: {r.stderr[-300:]}")
print(f"{passed} passed, {failed} failed")
sys.exit(1 if failed or not passed else 0)
