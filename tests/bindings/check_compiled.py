#!/usr/bin/env python3
"""Networks in programs of C, C++ and Fortran: the examples' predictions have the bits of `dlrun predict`; calls and
refusals.

check_compiled.py BUILD     from the project's root; needs nothing but Python's own library; compilers that are absent
                            are left out
"""
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/e2e"))
from checks import CCACHE, CCACHE_ENV, ENV, TMP, check, finish  # noqa: E402
from trained import same_bytes, train  # noqa: E402

BUILD = os.path.abspath(sys.argv[1])
EXAMPLES, HERE = f"{ROOT}/examples/embed", f"{ROOT}/tests/bindings"
LIBRARY = [f"-L{BUILD}/library", "-ldlc", f"-Wl,-rpath,{BUILD}/library"]
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror", "-O1"]


def compiled(compiler, source, *flags):
    """The program, or None where it does not compile."""
    program = f"{TMP}/program"
    r = subprocess.run([*CCACHE, *compiler, source, *flags, "-c", "-o", f"{program}.o"], capture_output=True, text=True,
                       env={**os.environ, **CCACHE_ENV})
    if r.returncode == 0:
        r = subprocess.run([compiler[0], f"{program}.o", *flags, *LIBRARY, "-o", program], capture_output=True,
                           text=True)
    if check(r.returncode == 0, f"{' '.join(compiler)} {source}: {r.stderr[:800]}"):
        return program


def embeds(compiler, source, *flags):
    program, out = compiled(compiler, f"{EXAMPLES}/{source}", *flags), f"{TMP}/out.f32"
    if program:
        r = subprocess.run([program, RUN, f"{TMP}/x.f32", out], capture_output=True, text=True, env=ENV)
        check(r.returncode == 0 and same_bytes(out, f"{TMP}/y.f32"), f"{source}: {r.returncode} {r.stdout} {r.stderr}")
        os.path.exists(out) and os.unlink(out)
        r = subprocess.run([program, "/nonexistent", f"{TMP}/x.f32", out], capture_output=True, text=True, env=ENV)
        check(r.returncode != 0 and "nonexistent" in r.stdout + r.stderr,
              f"{source}: a run that is not there: {r.stdout} {r.stderr}")


def calls(compiler, source, *flags, words=()):
    program = compiled(compiler, f"{HERE}/{source}", *flags)
    if program:
        r = subprocess.run([program, RUN, f"{TMP}/x.f32", f"{TMP}/y.f32", TMP, *words], capture_output=True, text=True,
                           env=ENV)
        check(r.returncode == 0 and " 0 failed" in r.stdout,
              f"{' '.join(compiler)} {source}: {r.returncode}: {r.stdout}{r.stderr}")


RUN = train(BUILD, ROOT)
include = f"-I{ROOT}/include"
for cc in filter(shutil.which, ("gcc", "clang")):
    for standard in ("c99",):
        embeds([cc, f"-std={standard}", *STRICT], "embed.c", include)
for cxx in filter(shutil.which, ("g++", "clang++")):
    for standard in ("c++17", "c++20"):
        embeds([cxx, f"-std={standard}", *STRICT], "embed.cpp", include)
        calls([cxx, f"-std={standard}", *STRICT], "calls.cpp", include)
if os.path.exists(f"{BUILD}/bindings/fortran/dlc.mod"):
    # Traps, as climate models have them: none may meet one in the library.
    fortran = ["gfortran", "-std=f2018", "-Wall", "-Wextra", "-Wno-compare-reals", "-Wno-function-elimination",
               "-Werror", "-O1",
               "-ffpe-trap=zero,invalid,overflow", f"-J{TMP}", f"-I{BUILD}/bindings/fortran"]
    flags = [f"-L{BUILD}/bindings/fortran", "-ldlc_fortran", f"-Wl,-rpath,{BUILD}/bindings/fortran"]
    embeds(fortran, "embed.f90", *flags)
    calls(fortran, "calls.f90", *flags, words=["traps"])
    # Another compiler has module files of its own: it compiles the installed source.
    for other in filter(shutil.which, ("flang", "flang-new", "flang-22", "flang-19")):
        source = [other, "-std=f2018", "-pedantic", "-J", TMP, f"{BUILD}/bindings/fortran/dlc.f90"]
        embeds(source, "embed.f90")
        calls(source, "calls.f90")
        break
    else:
        print("SKIP: Fortran by another compiler: no flang")
else:
    print("SKIP: Fortran: the build has no module dlc, as gfortran was absent")
finish()
