#!/usr/bin/env python3
"""Starts ranks of a program by one MPI's mpirun: mpi.py BUILD openmpi|mpich N PROGRAM ARGS...; exit 77 where it is
absent."""
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "e2e"))
from checks import ENV  # noqa: E402

MARKS = {"openmpi": "Open", "mpich": "HYDRA"}  # of `mpirun --version`


def environment():
    """Root may start ranks, more of them than there are CPUs; kernels are kept where those of all tests are. No rank
    reads the machine's PCI devices, which a virtual machine answers slowly."""
    env = {k: v for k, v in ENV.items() if not k.startswith(("OMPI_", "PMI", "SLURM_"))}
    for name in ("RANK", "LOCAL_RANK"):
        env.pop(name, None)
    env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_rmaps_base_oversubscribe="1",
               OMPI_MCA_hwloc_base_binding_policy="none", HWLOC_COMPONENTS="-linuxio,-pci")
    return env


def find(build, family):
    """mpirun of that family, None where it, or the module built for it, is absent."""
    if not (pathlib.Path(build) / "runtime/comm" / f"dlr_mpi_{family}.so").exists():
        return None
    for name in (f"mpirun.{family}", f"mpiexec.{family}", "mpirun", "mpiexec"):
        path = shutil.which(name)
        said = path and subprocess.run([path, "--version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                       env=environment()).stdout
        if said and MARKS[family] in said:
            return path
    return None


def main(build, family, n, *command):
    mpirun = find(build, family)
    if not mpirun:
        print(f"SKIP: no {family}, or this build has no module for it")
        return 77
    return subprocess.run([mpirun, "-n", n, *command], stdin=subprocess.DEVNULL, env=environment()).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
