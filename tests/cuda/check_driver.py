#!/usr/bin/env python3
"""The runtime's declarations of the CUDA driver beside its headers; their names in a toolkit's stub, which is no driver, as dlrun says.

    check_driver.py BUILD     exit 77 where there is no header of the driver
"""
import ctypes
import glob
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "e2e"))
from checks import ENV, TMP, check, finish  # noqa: E402

SITES = [f"{os.path.expanduser('~')}/.cache/dlc-bench/lib/python3*/site-packages/nvidia/cu13", "/usr/lib/python3/dist-packages/nvidia/cu13"]
ROOT = pathlib.Path(__file__).parents[2]
TOOLKITS = [os.path.realpath(folder) for pattern in (*SITES, "/usr/local/cuda", "/usr/local/cuda-1*") for folder in glob.glob(pattern)]


def main(build):
    compiler = shutil.which("gcc") or shutil.which("cc")
    headers = [f for f in dict.fromkeys([*(f"{t}/include" for t in TOOLKITS), "/usr/include"]) if os.path.exists(f"{f}/cudaTypedefs.h")]
    if not compiler or not headers:
        print("SKIP: no header of the CUDA driver")
        return 77
    for folder in headers:
        done = subprocess.run([compiler, "-std=gnu17", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{ROOT}", f"-isystem{folder}",
                               str(ROOT / "tests/cuda/driver_header.c")], stderr=subprocess.PIPE, text=True)
        check(done.returncode == 0, f"{folder}/cuda.h: {done.stderr[:600]}")
    names = re.findall(r"(?:X|MAYBE)\((\w+), \d+,", (ROOT / "runtime/cuda/driver.h").read_text())
    check(len(names) > 40, f"the table: {names}")
    for stub in dict.fromkeys(s for t in TOOLKITS for s in glob.glob(f"{t}/lib*/stubs/libcuda.so")):
        library = ctypes.CDLL(stub)
        absent = [name for name in (*names, "GetProcAddress_v2") if not hasattr(library, f"cu{name}")]
        check(not absent, f"{stub} has no {absent}")
        os.makedirs(f"{TMP}/stub", exist_ok=True)
        shutil.copy(stub, f"{TMP}/stub/libcuda.so.1")
        done = subprocess.run([f"{build}/programs/dlrun", "--version"], stdout=subprocess.PIPE, text=True, env={**ENV, "LD_LIBRARY_PATH": f"{TMP}/stub"})
        check(done.returncode == 0 and "no GPU: " in done.stdout and "is a toolkit's stub" in done.stdout, f"{stub}: {done.stdout}")
    finish()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
