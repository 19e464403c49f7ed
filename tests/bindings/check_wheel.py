#!/usr/bin/env python3
"""The wheel that scripts/wheel makes: what is in it, and a virtual environment in which it predicts, without the build
and LD_LIBRARY_PATH.

check_wheel.py BUILD     from the project's root; needs NumPy and the module ensurepip (77: they are not there)
"""
import base64
import hashlib
import importlib.util
import os
import pathlib
import subprocess
import sys
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/e2e"), str(ROOT / "tests/ranks")]
import mpi  # noqa: E402
from checks import ENV, TMP, check, finish  # noqa: E402
from trained import train  # noqa: E402

BUILD = os.path.abspath(sys.argv[1])
if not all(importlib.util.find_spec(m) for m in ("numpy", "ensurepip")):
    print("SKIP: no numpy, or no ensurepip")
    sys.exit(77)
import numpy  # noqa: E402

r = subprocess.run([f"{ROOT}/scripts/wheel", f"--build={BUILD}", f"--out={TMP}/dist"], capture_output=True, text=True)
if "sanitizers" in r.stderr:
    print("SKIP: a build with sanitizers")
    sys.exit(77)
if not check(r.returncode == 0, f"scripts/wheel: {r.stdout} {r.stderr}"):
    finish()
wheel = r.stdout.split()[-1]
with zipfile.ZipFile(wheel) as archive:
    names = archive.namelist()
    info = next(n.split("/")[0] for n in names if n.endswith("/METADATA"))
    lines = archive.read(f"{info}/RECORD").decode().split()
    check({line.split(",")[0] for line in lines} == set(names), "RECORD names all files")
    for name, digest, size in (line.split(",") for line in lines if not line.startswith(f"{info}/RECORD")):
        content = archive.read(name)
        told = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        check(digest == f"sha256={told}" and int(size) == len(content), f"RECORD of {name}")
    libraries = [n for n in names if n.startswith("dlc/") and ".so" in n]
    licences = [n for n in names if "/licenses/" in n]
    of_mpi = {f"dlc/{p.name}" for p in pathlib.Path(BUILD, "runtime/comm").glob("dlr_mpi_*.so")}
    of_others = set(libraries) - of_mpi - {"dlc/libdlc.so"}
    check({"dlc/libdlc.so"} | of_mpi < set(libraries), f"the library and its modules: {libraries}")
    check(len(licences) == 1 + len(of_others), f"a licence for each library of others: {libraries} {licences}")
    sources = {p.name for p in (ROOT / "bindings/python/dlc").glob("*.py")}
    check({pathlib.PurePath(n).name for n in names if n.endswith(".py")} == sources, "all modules")
first = pathlib.Path(wheel).read_bytes()
subprocess.run([f"{ROOT}/scripts/wheel", f"--build={BUILD}", f"--out={TMP}/dist"], check=True, capture_output=True)
check(pathlib.Path(wheel).read_bytes() == first, "the same bytes again")

env = {k: v for k, v in ENV.items() if k not in ("LD_LIBRARY_PATH", "DLC_LIBRARY", "PYTHONPATH")}
subprocess.run([sys.executable, "-m", "venv", f"{TMP}/venv"], check=True, env=env)
r = subprocess.run([f"{TMP}/venv/bin/pip", "install", "-q", "--no-deps", "--no-index", wheel], capture_output=True,
                   text=True, env=env)
check(r.returncode == 0, f"pip install: {r.stderr[-600:]}")
run = train(BUILD, ROOT)
alone = pathlib.Path(TMP, "packages")
alone.mkdir()
has_mpi = importlib.util.find_spec("mpi4py") and any("openmpi" in m for m in of_mpi)
for package in pathlib.Path(numpy.__file__).parents[1].glob("numpy*"):
    (alone / package.name).symlink_to(package)
if has_mpi:
    (alone / "mpi4py").symlink_to(pathlib.Path(importlib.util.find_spec("mpi4py").origin).parent)
program = """
import sys, dlc, numpy
x, truth = (numpy.load(f"{sys.argv[2]}/{n}.npy") for n in "xy")
with dlc.open(sys.argv[1]) as net:
    assert numpy.array_equal(net(x), truth), "other numbers"
maps = open("/proc/self/maps").read()
own = [l for l in ("libdlc", "libyaml", "libdeflate") if f"/dlc/{l}" in maps]
assert len(own) == 3, own
print(dlc.__file__, dlc.__version__)
if "mpi" in sys.argv[3:]:
    from mpi4py import MPI
    with dlc.open(sys.argv[1], mpi_comm=MPI.COMM_WORLD) as net:
        assert numpy.array_equal(net(x), truth), "other numbers in a rank"
    assert "/dlc/dlr_mpi_openmpi.so" in open("/proc/self/maps").read(), "the module is another"
"""
r = subprocess.run([f"{TMP}/venv/bin/python", "-c", program, run, TMP, *["mpi"] * bool(has_mpi)], capture_output=True,
                   text=True, cwd="/",
                   env={**mpi.environment(), **env, "PYTHONPATH": str(alone)})
check(r.returncode == 0 and f"{TMP}/venv" in r.stdout, f"a virtual environment: {r.stdout} {r.stderr[-600:]}")
finish()
