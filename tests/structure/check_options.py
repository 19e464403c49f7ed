#!/usr/bin/env python3
"""check_options.py: builds without what an option of `meson setup` leaves out.

- hdf5 and jpeg disabled, with a run path: files of these formats are refused by name, with the option that would read
  them, and the rest works; installed programs have the run path; `tests=true` is refused.
- mpi, docs, fortran and emulator disabled: there are no tests and no module for MPI; dlrun trains on one rank; an
  emulated device is refused, with the variable that names its driver.
- tests=false with emulator enabled: the emulated driver is built alone, and `dlc verify` runs on it.
"""
import os
import pathlib
import re
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
    return bool(ok)


def npy(path, *shape):
    header = str({"descr": "<f4", "fortran_order": False, "shape": shape}).encode()
    header += b" " * (117 - len(header)) + b"\n"
    count = 1
    for size in shape:
        count *= size
    numbers = struct.pack(f"<{count}f", *([0.5] * count))
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + numbers)


def setup(build, *options):
    return subprocess.run(["meson", "setup", build, *options], cwd=ROOT, text=True, capture_output=True)


def build(build, *options):
    """Whether it can be set up and built; the first error otherwise."""
    made = setup(build, *options)
    if made.returncode == 0:
        made = subprocess.run(["ninja", "--quiet", "-C", build], text=True, capture_output=True)
    return check(made.returncode == 0, f"{' '.join(options)}: {(made.stdout + made.stderr)[-2000:]}")


def runner(build, folder):
    """Runs a program of a build in the folder."""
    env = {k: v for k, v in os.environ.items() if k != "DLR_CUDA_EMULATOR"} | {"DLR_CACHE_DIR": str(folder / "cache")}

    def run(program, *args, **more):
        return subprocess.run([build / "cli" / program, *args], cwd=folder, text=True, capture_output=True,
                              env={**env, **more})
    return run


def train(run, file, *args):
    return run("dlrun", "m.dl", f"--data={{inputs: {{x: {file}}}, split: {{valid: 0.5}}}}", "--local_batch_size=2",
               "--num_epochs=1", *args)


def check_formats(folder):
    b, options = folder / "formats", ("-Dhdf5=disabled", "-Djpeg=disabled")
    if not build(b, *options, f"-Drpath={RPATH}"):
        return
    check(not (b / "tests").exists(), "the tests need both libraries")
    refused = setup(folder / "refused", *options, "-Dtests=true")
    check(refused.returncode != 0 and "the tests need libhdf5" in refused.stdout,
          f"tests=true: {refused.stdout[-300:]}")
    subprocess.run(["meson", "install", "-C", b, "--destdir", folder / "d"], check=True, stdout=subprocess.DEVNULL)
    for path in [p for p in (folder / "d").rglob("*") if p.is_file() and p.open("rb").read(4) == b"\x7fELF"]:
        said = subprocess.run(["readelf", "-d", path], text=True, capture_output=True).stdout
        check(re.search(rf"[\[:]{re.escape(RPATH)}\]", said), f"{path.name} has no run path")
    run = runner(b, folder)
    pictures = run("dldata", "images", "--jpeg", "-o", "pictures", "--train=5", "--valid=1")
    for r, option in ((train(run, "x.h5"), "hdf5"), (run("dldata", "inspect", "x.h5"), "hdf5"),
                      (run("dldata", "inspect", "p.jpg"), "jpeg"), (pictures, "jpeg")):
        check(r.returncode == 5 and f"-D{option}=enabled" in r.stderr,
              f"{option}: exit {r.returncode}, {r.stderr[-300:]}")
    r = train(run, "x.npy")
    check(r.returncode == 0, f"trains on .npy: {r.stderr[-300:]}")
    r = run("dldata", "nbody", "-o", "n.h5", "--size=16", "-q")
    check(r.returncode == 0 and (folder / "n.h5").stat().st_size > 1 << 16,
          f"writes HDF5 all the same: {r.stderr[-300:]}")


def check_machine(folder):
    b = folder / "machine"
    options = [f"-D{name}=disabled" for name in ("mpi", "docs", "fortran", "emulator")]
    if not build(b, *options):
        return
    check(not (b / "tests").exists(), "the tests need the emulated driver")
    check(not list(b.rglob("*dlr_mpi*.so")), "no module for MPI")
    check(not (b / "site").exists(), "no site")
    refused = setup(folder / "refused", *options, "-Dtests=true")
    check(refused.returncode != 0 and "CUDA emulator" in refused.stdout, f"tests=true: {refused.stdout[-300:]}")
    run = runner(b, folder)
    r = train(run, "x.npy", "--run_dir=one")
    check(r.returncode == 0, f"trains on one rank: {r.stderr[-300:]}")
    r = train(run, "x.npy", "--run_dir=emulated", "--device=cuda:emulated")
    check(r.returncode != 0 and "set DLR_CUDA_EMULATOR=" in r.stderr, f"emulated: {r.returncode}, {r.stderr[-300:]}")


def check_emulator(folder):
    b = folder / "emulator"
    if not build(b, "-Dtests=false", "-Demulator=enabled"):
        return
    driver = b / "tests/emulator/libcuda_emulator.so"
    check(driver.exists() and not list(b.glob("tests/test_*")), "the emulated driver alone")
    r = runner(b, folder)("dlc", "verify", "m.dl", "--device=cuda:emulated", "--target=cuda:sm_80",
                          DLR_CUDA_EMULATOR=str(driver))
    check(r.returncode == 0 and "all agree" in r.stdout, f"verify: {r.returncode}, {(r.stdout + r.stderr)[-300:]}")


with tempfile.TemporaryDirectory(prefix="dlc_options_") as name:
    folder = pathlib.Path(name)
    (folder / "m.dl").write_text(MODEL)
    (folder / "x.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(200))
    (folder / "p.jpg").write_bytes(b"\xff\xd8\xff\xe0" + bytes(200))
    npy(folder / "x.npy", 8, 1, 8, 8)
    check_formats(folder)
    check_machine(folder)
    check_emulator(folder)
print(f"{passed} passed, {failed} failed")
sys.exit(1 if failed or not passed else 0)
