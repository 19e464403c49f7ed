"""Where headers of CUDA are, and our own declarations next to one: for check_driver.py and check_library.py."""
import glob
import os
import pathlib
import shutil
import subprocess

ROOT = pathlib.Path(__file__).parents[2]
COMPILER = shutil.which("gcc") or shutil.which("cc")
SITES = [site
         for pattern in (f"{os.path.expanduser('~')}/.cache/dlc-bench/lib/python3*/site-packages/nvidia",
                         "/usr/lib/python3/dist-packages/nvidia")
         for site in glob.glob(pattern)]
TOOLKITS = list(dict.fromkeys(map(os.path.realpath,
                                  (*(f"{site}/cu13" for site in SITES), "/usr/local/cuda",
                                   *glob.glob("/usr/local/cuda-1*")))))
FOLDERS = [*(f"{toolkit}/include" for toolkit in TOOLKITS), "/usr/include", "/usr/local/include"]


def compile_beside(name, *folders):
    """What the compiler says of tests/cuda/NAME next to the headers of these folders; "": nothing."""
    command = [COMPILER, "-std=gnu17", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{ROOT}"]
    done = subprocess.run([*command, *(f"-isystem{folder}" for folder in folders), str(ROOT / "tests/cuda" / name)],
                          stderr=subprocess.PIPE, text=True)
    return done.stderr or f"exit {done.returncode}" * (done.returncode != 0)
