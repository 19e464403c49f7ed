"""What bench/gpu finds on a machine: our programs, NVRTC, the driver, a Python with PyTorch; and what it takes along to
one that cannot build."""
import glob
import json
import math
import os
import pathlib
import random
import re
import shutil
import struct
import subprocess
import sys

from machine import ENV, ROOT

PACK = ROOT / "build-gpu"
# The C library and what goes with it are the other machine's own.
OWN = re.compile(r"^(ld-linux|linux-vdso|lib(c|m|dl|rt|pthread|resolv|gcc_s|stdc\+\+)\.so)")
DRIVERS = ("/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/usr/lib64", "/usr/lib/x86_64-linux-gnu",
           "/usr/lib/wsl/lib",
           "/usr/local/cuda/compat")


class Missing(Exception):
    """Nothing can be measured; the text says what is missing."""


def out(command, **more):
    """What a command prints; "" where it fails or is not there."""
    try:
        return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, **more).stdout
    except OSError:
        return ""


def find_programs(folder):
    found = {name: next((p for p in pathlib.Path(folder).glob(f"*/{name}") if p.is_file()), None)
             for name in ("dlc", "dlrun")}
    return found if all(found.values()) else None


def build(folder):
    lacking = [tool for tool in ("meson", "ninja", "flex", "bison", "pkg-config") if not shutil.which(tool)]
    if lacking:
        raise Missing(f"nothing is built under {folder}, and to build it lacks {', '.join(lacking)}: "
                      "scripts/install-packages build, or "
                      "`bench/gpu --pack` on a machine that builds, and its build-gpu here")
    steps = ([] if (folder / "build.ninja").exists() else [["meson", "setup", str(folder)]]) + [
        ["ninja", "-C", str(folder), "cli/dlc", "cli/dlrun", "tests/test_gpu", "tests/ranks/comm_check"]]
    for command in steps:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode:
            said = [line for line in (done.stdout + done.stderr).splitlines() if "rror" in line] or [done.stdout[-300:]]
            raise Missing(f"{' '.join(command)} fails: {said[0].strip()}; `bench/gpu --pack` on a machine that "
                          "builds, and its build-gpu here")


def programs(folder):
    """dlc and dlrun: those of the build, of what was taken along, or built now."""
    for place in (folder, PACK):
        if find_programs(place):
            return find_programs(place)
    build(folder)
    found = find_programs(folder)
    if not found:
        raise Missing(f"the build under {folder} left no programs")
    return found


def pack(folder):
    """The programs and the libraries that they are linked with, for a machine that has the C library alone."""
    built = programs(folder)
    shutil.rmtree(PACK, ignore_errors=True)
    (PACK / "cli").mkdir(parents=True), (PACK / "lib").mkdir()
    for program in built.values():
        shutil.copy2(program, PACK / "cli")
        for name, path in re.findall(r"^\s*(\S+) => (/\S+)", out(["ldd", str(program)]), re.M):
            if not OWN.match(name):
                shutil.copy2(path, PACK / "lib" / name)
    for test in ("tests/test_gpu", "tests/ranks/comm_check"):
        if (folder / test).exists():
            (PACK / test).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(folder / test, PACK / test)
    size = sum(p.stat().st_size for p in PACK.rglob("*") if p.is_file())
    print(f"{PACK}: {size / 2**20:.0f} MiB; bench/gpu takes it where nothing is built")


def version(found, environment):
    """The lines of `dlrun --version`."""
    return out([str(found["dlrun"]), "--version"], env=environment).splitlines()


def nvrtc_of_pythons():
    """NVRTC in the packages of the Pythons here, in which dlc does not look by itself."""
    roots = [os.path.realpath(os.path.join(os.path.dirname(p), ".."))
             for p in filter(None, map(shutil.which, ("python3", "python")))]
    roots += [sys.prefix, "/opt/*/.venv", "/opt/*", "/usr/local"]
    # the venv's own folder is not the one that its link to the interpreter leads to
    roots += [os.path.dirname(os.path.dirname(p)) for p in filter(None, map(shutil.which, ("python3", "python")))]
    for root in dict.fromkeys(roots):
        for soname in ("libnvrtc.so.13", "libnvrtc.so.12"):
            for path in sorted(glob.glob(f"{root}/lib/python3*/site-packages/nvidia/*/lib/{soname}")):
                yield path
    for path in sorted(glob.glob("/usr/local/cuda*/**/libnvrtc.so.1[23]", recursive=True)):
        yield path


def find_cuda(found, environment):
    """Completes the environment until the programs find NVRTC and the driver, as far as these are here. Returns
    --version's lines."""
    lines = version(found, environment)
    if not lines:
        done = subprocess.run([str(found["dlrun"]), "--version"], capture_output=True, text=True, env=environment)
        raise Missing(f"{found['dlrun']} does not run here: {done.stderr.strip()[-300:]}")
    if any(line.startswith("no driver") for line in lines):
        for folder in DRIVERS:
            if os.path.exists(f"{folder}/libcuda.so.1"):
                environment["LD_LIBRARY_PATH"] = ":".join(filter(None, (environment.get("LD_LIBRARY_PATH"), folder)))
                break
        lines = version(found, environment)
    if "no NVRTC" in lines and "DLC_NVRTC" not in environment:
        for path in nvrtc_of_pythons():
            environment["DLC_NVRTC"] = path
            lines = version(found, environment)
            if "no NVRTC" not in lines:
                break
            del environment["DLC_NVRTC"]
    return lines


def python_with_torch(cuda):
    """A Python whose PyTorch sees the GPU (cuda: it must), and the version's text; or None and why there is none."""
    why = "no Python with PyTorch"
    for python in dict.fromkeys(filter(None,
                                       (str(ENV / "bin/python"), shutil.which("python3"), sys.executable,
                                        "/usr/bin/python3"))):
        if not os.path.exists(python):
            continue
        said = out([python, "-c",
                    "import torch; print(torch.__version__, torch.cuda.is_available(), torch.version.cuda, "
                    "torch.backends.cudnn.version())"]).split()
        if len(said) == 4 and (said[1] == "True" or not cuda):
            versions = f"PyTorch {said[0]}, CUDA {said[2]}, cuDNN {said[3]}"
            return python, versions if cuda else f"PyTorch {said[0]} on the CPU"
        if len(said) == 4:
            why = f"PyTorch {said[0]} of {python} sees no GPU"
    return None, why


def write_batches(path, shapes, classes, steps):
    """Safetensors for --replay: x.0, t.0, x.1, ...; normal numbers, or, for a target of one axis, numbers of
    classes."""
    draw, header, data, at = random.Random(1), {}, [], 0
    for step in range(steps):
        for name, shape in shapes.items():
            n = math.prod(shape)
            whole = len(shape) == 1
            raw = (struct.pack(f"<{n}i", *(draw.randrange(classes) for _ in range(n))) if whole else
                   struct.pack(f"<{n}f", *(draw.gauss(0, 1) for _ in range(n))))
            header[f"{name}.{step}"] = {"dtype": "I32" if whole else "F32", "shape": shape,
                                        "data_offsets": [at, at + len(raw)]}
            data.append(raw)
            at += len(raw)
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(data))


def commit():
    """The checkout's commit, "+" after it where files differ; of a copy without .git, what GIT_COMMIT or the file
    .commit say."""
    said = out(["git", "-C", str(ROOT), "rev-parse", "--short=12", "HEAD"]).strip()
    if said:
        return said + ("+" if out(["git", "-C", str(ROOT), "status", "--porcelain", "--untracked-files=no"]).strip()
                       else "")
    return os.environ.get("GIT_COMMIT", "unknown")
