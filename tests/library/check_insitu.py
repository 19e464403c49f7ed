"""Training inside a program: examples/insitu, alone and on two MPI ranks, and ranks that train together, with each MPI
that is here.

check_insitu.py BUILD     from the project's root
"""
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
import checks
from checks import ENV, TMP, check, finish

BUILD = os.path.abspath(sys.argv[1])
FLAGS = ["-O1", "-Wall", "-Werror", "-Iinclude", "-I.", f"-L{BUILD}/library", f"-Wl,-rpath,{BUILD}/library"]
LIBRARIES = ["-ldlc", "-lm"]
MPIS = {"openmpi": "mpirun.openmpi", "mpich": "mpiexec.mpich"}
ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}

os.mkdir(f"{TMP}/bin")
os.symlink(f"{BUILD}/runtime", f"{TMP}/runtime")  # where a program in bin/ looks for modules


def run(*args):
    return subprocess.run(args, capture_output=True, text=True, env={**ENV, **ROOT}, stdin=subprocess.DEVNULL)


def build(name, compiler, source, *flags):
    path = f"{TMP}/bin/{name}"
    r = run(compiler, *FLAGS, *flags, source, *LIBRARIES, "-o", path)
    check(r.returncode == 0 and not r.stderr, f"{name}: {r.stderr}")
    return path


def check_example(r, what):
    """What the coarse grid misses falls to less than half; a flow that was not seen comes out better."""
    missed = [float(x) for x in re.findall(r"missed +(\S+)", r.stdout)]
    check(r.returncode == 0 and len(missed) == 4, f"{what}: exit {r.returncode}: {r.stdout} {r.stderr}")
    check(missed and missed[-1] < 0.5 * missed[0], f"{what}: {missed}")
    found = re.search(r"error of the coarse grid +(\S+), with the network +(\S+)", r.stdout)
    check(found and float(found[2]) < 0.7 * float(found[1]), f"{what}: {r.stdout}")


def weights(run):
    with open(f"{TMP}/{run}/checkpoints/last/model.safetensors", "rb") as f:
        return f.read()


def test_alone():
    path = build("burgers", "cc", "examples/insitu/burgers.c", "-std=gnu99", "-pedantic")
    for name in "first", "second":
        check_example(run(path, "examples/insitu/closure.dl", "400", f"{TMP}/{name}"), f"alone, {name}")
    check(weights("first") == weights("second"), "the same bits")
    r = run(path, f"{TMP}/nothing.dl")
    check(r.returncode == 4 and "nothing.dl" in r.stderr, f"no model: {r.returncode} {r.stderr}")


def test_ranks():
    seen = []
    for mpi, launcher in MPIS.items():
        if not shutil.which(f"mpicc.{mpi}") or not shutil.which(launcher):
            print(f"SKIP: {mpi}: no mpicc.{mpi} or {launcher}")
            continue
        path = build(f"burgers_{mpi}", f"mpicc.{mpi}", "examples/insitu/burgers.c", "-DWITH_MPI")
        check_example(run(launcher, "-n", "2", path, "examples/insitu/closure.dl", "400", f"{TMP}/{mpi}"),
                      f"two ranks, {mpi}")
        check(weights(mpi) != weights("first"), "other flows, other weights")
        seen.append(weights(mpi))
        path, model = build(f"ranks_{mpi}", f"mpicc.{mpi}", "tests/library/ranks.c", "-D_GNU_SOURCE"), f"{TMP}/{mpi}.dl"
        run(path, model, "write")
        r = run(launcher, "-n", "3", path, model)
        lines = re.findall(r"(\d+) passed, (\d+) failed", r.stdout)
        checks.passed += sum(int(p) for p, _ in lines)
        check(len(lines) == 3 and all(int(p) > 20 and f == "0" for p, f in lines),
              f"{mpi}: {r.returncode} {r.stdout} {r.stderr}")
    check(all(w == seen[0] for w in seen), "the same bits with every MPI")


def test_fortran():
    module = f"{BUILD}/bindings/fortran"
    if not os.path.exists(f"{module}/dlc.mod") or not shutil.which("gfortran"):
        return print("SKIP: Fortran: the build has no module dlc")
    path = f"{TMP}/bin/burgers_fortran"
    r = run("gfortran", "-std=f2018", "-Wall", "-Werror", f"-J{TMP}", f"-I{module}", "examples/insitu/burgers.f90",
            f"-L{module}", "-ldlc_fortran",
            f"-L{BUILD}/library", "-ldlc", f"-Wl,-rpath,{module}", f"-Wl,-rpath,{BUILD}/library", "-o", path)
    check(r.returncode == 0, f"burgers.f90: {r.stderr}")
    check_example(run(path, "examples/insitu/closure.dl", "400", f"{TMP}/fortran"), "Fortran")


test_alone()
test_ranks()
test_fortran()
finish()
