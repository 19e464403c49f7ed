#!/usr/bin/env python3
"""The runtime's declarations of the CUDA driver beside its headers; their names in a toolkit's stub, which is no driver, as dlrun says; which
NVRTC is taken beside a driver of which version.

    check_driver.py BUILD     exit 77 where there is no compiler, or no header of the driver
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


# What a library needs to be found: a driver of a version; an NVRTC that is one in name alone.
DRIVER = "int cuDriverGetVersion(int *v) { *v = VERSION * 1000; return 0; }"
NVRTC = """int nvrtcVersion(int *major, int *minor) { *major = VERSION; *minor = 0; return 0; }
int nvrtcGetNumSupportedArchs(int *n) { *n = 1; return 0; }
int nvrtcGetSupportedArchs(int *archs) { *archs = 90; return 0; }
""" + "".join(f"int nvrtc{name}(void) {{ return 1; }}\n" for name in (
    "CreateProgram", "CompileProgram", "GetProgramLogSize", "GetProgramLog", "GetCUBINSize", "GetCUBIN", "DestroyProgram", "GetErrorString"))


def check_nvrtc(build, compiler):
    """A driver takes no code of a later major version's compiler."""
    packages = f"{TMP}/env/lib/python3.11/site-packages/nvidia"
    for text, version, file in (DRIVER, 12, "12/libcuda.so.1"), (DRIVER, 13, "13/libcuda.so.1"), (NVRTC, 13, "a/lib/libnvrtc.so.13"), (
            NVRTC, 12, "b/lib/libnvrtc.so.12"):
        os.makedirs(os.path.dirname(f"{packages}/{file}"), exist_ok=True)
        subprocess.run([compiler, "-shared", "-fPIC", f"-DVERSION={version}", "-xc", "-", "-o", f"{packages}/{file}"], input=text, text=True, check=True)
    env = {k: v for k, v in ENV.items() if k not in ("DLC_NVRTC", "CONDA_PREFIX")}
    for driver, want in ("12", "12"), ("13", "13"), (None, "13"):
        paths = {"LD_LIBRARY_PATH": f"{packages}/{driver}"} if driver else {}
        if driver or not shutil.which("nvidia-smi"):
            said = subprocess.run([f"{build}/programs/dlrun", "--version"], stdout=subprocess.PIPE, text=True,
                                  env={**env, "VIRTUAL_ENV": f"{TMP}/env", **paths}).stdout
            check(f"NVRTC {want}.0 (" in said, f"driver {driver}: {said}")


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
    check_nvrtc(build, compiler)
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
