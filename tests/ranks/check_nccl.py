#!/usr/bin/env python3
"""The runtime's declarations of NCCL next to NCCL's own headers, and the real library as far as it goes without a GPU.

    check_nccl.py BUILD     exit 77 where there is neither a header nor a library
"""
import glob
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "e2e"))
from checks import check, finish  # noqa: E402

SITES = [f"{os.path.expanduser('~')}/.cache/dlc-bench/lib/python3*/site-packages/nvidia",
         "/usr/lib/python3/dist-packages/nvidia"]


def headers():
    """Folders of a header of NCCL with those of CUDA that it includes."""
    found = [[folder, f"{site}/cu13/include"] for pattern in SITES for site in glob.glob(pattern)
             for folder in glob.glob(f"{site}/nccl/include")]
    found += [[folder]
              for folder in ("/usr/local/cuda/include", *glob.glob("/usr/local/cuda-1*/include"), "/usr/include",
                             "/usr/local/include")]
    return [f for f in found if os.path.exists(f"{f[0]}/nccl.h") and os.path.exists(f"{f[-1]}/cuda_runtime.h")]


def main(build):
    compiler, root = shutil.which("gcc") or shutil.which("cc"), pathlib.Path(__file__).parents[2]
    env = {k: v for k, v in os.environ.items() if k != "DLR_NCCL"}
    for site in (s for pattern in SITES for s in glob.glob(pattern)):
        env.setdefault("VIRTUAL_ENV", site.split("/lib/python3")[0])
    said = subprocess.run([f"{build}/cli/dlrun", "--version"], stdout=subprocess.PIPE, text=True, env=env).stdout
    real = re.search(r"^NCCL (2\.\d+\.\d+) \((/.*)\)$", said, re.M)
    if not real and not (compiler and headers()):
        print("SKIP: no library and no header of NCCL")
        return 77
    for folders in headers() if compiler else []:
        done = subprocess.run([compiler, "-std=gnu17", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
                               f"-I{root}",
                               *(f"-isystem{f}" for f in folders), str(root / "tests/ranks/nccl_header.c")],
                              stderr=subprocess.PIPE, text=True)
        check(done.returncode == 0, f"{folders[0]}/nccl.h: {done.stderr[:600]}")
    if real and "no driver" in said:
        # it makes an id, begins without blocking, and says in its own words what is missing, which is no hang and no
        # crash
        done = subprocess.run([f"{build}/tests/ranks/comm_check", "nccl", "1"], stdout=subprocess.PIPE, text=True,
                              env=env, timeout=120)
        check(re.search(r"NCCL fails in making the group of all ranks: \w.*\(.*(driver|CUDA)", done.stdout),
              f"{real.group(2)}: {done.returncode} {done.stdout}")
    finish()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
