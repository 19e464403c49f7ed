#!/usr/bin/env python3
"""Ranks of MPI programs in Fortran and Python that train one network together, with each MPI that is here.

check_ranks.py BUILD     from the project's root; compilers and modules that are absent are left out (77: all of them)
"""
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/e2e"), str(ROOT / "tests/ranks")]
import checks  # noqa: E402
import mpi  # noqa: E402
from checks import ENV, TMP, check, finish  # noqa: E402

BUILD = os.path.abspath(sys.argv[1])
PACKAGE = {"PYTHONPATH": f"{ROOT}/bindings/python", "DLC_LIBRARY": f"{BUILD}/library/libdlc.so"}
HERE, MODEL = f"{ROOT}/tests/bindings", f"{TMP}/net.dl"
NET = """model Net():
    input u: f32[N, C=1, W=16]
    target t: f32[N, C=1, W=16]
    y = u |> conv(4, 3, pad=1) @a |> tanh |> conv(1, 1) @b
    output y
    loss = mse_loss(y, t)
"""


def two_ranks(mpirun, what, *command):
    r = subprocess.run([mpirun, "-n", "2", *command], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                       timeout=600,
                       env={**mpi.environment(), **ENV, **PACKAGE})
    lines = re.findall(r"(\d+) passed, (\d+) failed", r.stdout)
    checks.passed += sum(int(p) for p, _ in lines)
    check(r.returncode == 0 and len(lines) == 2 and all(int(p) > 8 and f == "0" for p, f in lines),
          f"{what}: {r.returncode} {r.stdout[-800:]} {r.stderr[-800:]}")


def test_fortran(family, mpirun):
    compiler, module = f"mpifort.{family}", f"{BUILD}/bindings/fortran"
    if not shutil.which(compiler) or not os.path.exists(f"{module}/dlc.mod"):
        return print(f"SKIP: Fortran with {family}: no {compiler}, or the build has no module dlc")
    program = f"{TMP}/ranks_{family}"
    r = subprocess.run([compiler, "-O1", f"-J{TMP}", f"-I{module}", f"{HERE}/ranks.f90", f"-L{module}", "-ldlc_fortran",
                        f"-L{BUILD}/library",
                        "-ldlc", f"-Wl,-rpath,{module}", f"-Wl,-rpath,{BUILD}/library", "-o", program],
                       capture_output=True, text=True)
    if check(r.returncode == 0, f"{compiler}: {r.stderr[-800:]}"):
        two_ranks(mpirun, f"Fortran, {family}", program, MODEL)


def test_python(family, mpirun):
    if not importlib.util.find_spec("numpy"):
        return print("SKIP: Python: no numpy")
    module = f"{BUILD}/runtime/comm/dlr_mpi_{family}.so"
    library = re.search(r"libmpi\S* => (\S+)", subprocess.run(["ldd", module], capture_output=True, text=True).stdout)
    two_ranks(mpirun, f"Python, {family}", sys.executable, f"{HERE}/ranks.py", MODEL, library[1])
    theirs = importlib.util.find_spec("mpi4py")
    of = theirs and subprocess.run([sys.executable, "-c", "from mpi4py import MPI; print(MPI.Get_library_version())"],
                                   capture_output=True,
                                   text=True, env=mpi.environment()).stdout
    if of and mpi.MARKS[family].replace("HYDRA", "MPICH") in of:
        two_ranks(mpirun, f"mpi4py, {family}", sys.executable, f"{HERE}/ranks.py", MODEL)
    else:
        print(f"SKIP: no mpi4py for {family}")


def test_alone():
    """Without a launcher, whose variables would name the MPI that Python's extension has loaded."""
    if not importlib.util.find_spec("mpi4py") or not importlib.util.find_spec("numpy"):
        return print("SKIP: no mpi4py")
    program = "import sys, dlc; from mpi4py import MPI; print(dlc.open(sys.argv[1], mpi_comm=MPI.COMM_WORLD))"
    r = subprocess.run([sys.executable, "-c", program, MODEL], capture_output=True, text=True,
                       env={**mpi.environment(), **ENV, **PACKAGE})
    check(r.returncode == 0 and "dlc.Model" in r.stdout, f"a rank without a launcher: {r.returncode} {r.stderr[-800:]}")


pathlib.Path(MODEL).write_text(NET)
seen = 0
for family in mpi.MARKS:
    mpirun = mpi.find(BUILD, family)
    if not mpirun:
        print(f"SKIP: no {family}, or this build has no module for it")
        continue
    seen += 1
    test_fortran(family, mpirun)
    test_python(family, mpirun)
if not seen:
    sys.exit(77)
test_alone()
finish()
