#!/usr/bin/env python3
"""The runtime's declarations of the CUDA driver next to its headers; their names in a toolkit's stub, which is no
driver, as dlrun says; which NVRTC is taken next to a driver of which version.

    check_driver.py BUILD     exit 77 where there is no compiler
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
from headers import COMPILER, FOLDERS, ROOT, TOOLKITS, compile_beside  # noqa: E402


# What a library needs to be found: a driver of a version; an NVRTC that is one in name alone.
DRIVER = "int cuDriverGetVersion(int *v) { *v = VERSION * 1000; return 0; }"
NVRTC = """int nvrtcVersion(int *major, int *minor) { *major = VERSION; *minor = 0; return 0; }
int nvrtcGetNumSupportedArchs(int *n) { *n = 1; return 0; }
int nvrtcGetSupportedArchs(int *archs) { *archs = 90; return 0; }
""" + "".join(f"int nvrtc{name}(void) {{ return 1; }}\n" for name in (
    "CreateProgram", "CompileProgram", "GetProgramLogSize", "GetProgramLog", "GetCUBINSize", "GetCUBIN",
    "DestroyProgram", "GetErrorString"))


def check_nvrtc(build):
    """A driver takes no code of a later major version's compiler."""
    packages = f"{TMP}/env/lib/python3.11/site-packages/nvidia"
    for text, version, file in (DRIVER, 12, "12/libcuda.so.1"), (DRIVER, 13,
                                                                 "13/libcuda.so.1"), (NVRTC, 13,
                                                                                      "a/lib/libnvrtc.so.13"), (
            NVRTC, 12, "b/lib/libnvrtc.so.12"):
        os.makedirs(os.path.dirname(f"{packages}/{file}"), exist_ok=True)
        subprocess.run([COMPILER, "-shared", "-fPIC", f"-DVERSION={version}", "-xc", "-", "-o", f"{packages}/{file}"],
                       input=text, text=True, check=True)
    env = {k: v for k, v in ENV.items() if k not in ("DLC_NVRTC", "CONDA_PREFIX")}
    for driver, want in ("12", "12"), ("13", "13"), (None, "13"):
        paths = {"LD_LIBRARY_PATH": f"{packages}/{driver}"} if driver else {}
        if driver or not shutil.which("nvidia-smi"):
            said = subprocess.run([f"{build}/cli/dlrun", "--version"], stdout=subprocess.PIPE, text=True,
                                  env={**env, "VIRTUAL_ENV": f"{TMP}/env", **paths}).stdout
            check(f"NVRTC {want}.0 (" in said, f"driver {driver}: {said}")


def check_no_link(build):
    """A container with the driver's file, whose name is its version, and without the link libcuda.so.1; a toolkit's
    stub next to it is none."""
    folder = f"{TMP}/no link"
    os.makedirs(folder, exist_ok=True)
    for file in "libcuda.so.535.104.05", "libcuda.so":
        subprocess.run([COMPILER, "-shared", "-fPIC", "-DVERSION=12", "-xc", "-", "-o", f"{folder}/{file}"],
                       input=DRIVER, text=True, check=True)
    env = {**ENV, "LD_LIBRARY_PATH": f"{TMP}/empty:{folder}"}
    said = subprocess.run([f"{build}/cli/dlrun", "--version"], stdout=subprocess.PIPE, text=True, env=env).stdout
    check("libcuda.so.1 has no cuGetProcAddress_v2" in said, f"a driver without its link: {said}")
    os.remove(f"{folder}/libcuda.so.535.104.05")
    said = subprocess.run([f"{build}/cli/dlrun", "--version"], stdout=subprocess.PIPE, text=True, env=env).stdout
    check("no driver (libcuda.so.1)" in said, f"a stub alone: {said}")


def main(build):
    if not COMPILER:
        print("SKIP: no compiler")
        return 77
    check_nvrtc(build)
    if not shutil.which("nvidia-smi"):
        check_no_link(build)
    folders = [f for f in FOLDERS if os.path.exists(f"{f}/cudaTypedefs.h")]
    for folder in folders:
        said = compile_beside("driver_header.c", folder)
        check(not said, f"{folder}/cuda.h: {said[:600]}")
    if not folders:
        print("SKIP: no header of the CUDA driver to compare with")
    names = re.findall(r"(?:X|MAYBE)\((\w+), \d+,", (ROOT / "runtime/driver/driver.h").read_text())
    check(len(names) > 40, f"the table: {names}")
    for stub in dict.fromkeys(s for t in TOOLKITS for s in glob.glob(f"{t}/lib*/stubs/libcuda.so")):
        library = ctypes.CDLL(stub)
        absent = [name for name in (*names, "GetProcAddress_v2") if not hasattr(library, f"cu{name}")]
        check(not absent, f"{stub} has no {absent}")
        os.makedirs(f"{TMP}/stub", exist_ok=True)
        shutil.copy(stub, f"{TMP}/stub/libcuda.so.1")
        done = subprocess.run([f"{build}/cli/dlrun", "--version"], stdout=subprocess.PIPE, text=True,
                              env={**ENV, "LD_LIBRARY_PATH": f"{TMP}/stub"})
        check(done.returncode == 0 and "no GPU: " in done.stdout and "is a toolkit's stub" in done.stdout,
              f"{stub}: {done.stdout}")
    finish()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
