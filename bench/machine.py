"""What the programs of this folder share: where the rival's environment lies, which machine this is, our programs."""
import os
import pathlib
import platform
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
ENV = pathlib.Path(os.environ.get("DLC_BENCH_ENV") or
                   pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "dlc-bench")


def clean_environment():
    """Without what a machine's environment may set for its OpenBLAS, and OpenMP's own threads."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("OPENBLAS_", "OMP_", "MKL_", "KMP_", "GOMP_"))}


def processor():
    found = re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    name = found.group(1) if found else platform.processor() or "unknown"
    family = re.findall(r"^(cpu family|model)\s*: (\d+)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)[:2]
    return name + "".join(f", {k} {v}" for k, v in family)


def machine_name():
    """The processor, as results' files are named."""
    return re.sub(r"[^A-Za-z0-9]+", "-", processor()).strip("-").lower()


def program(build, name):
    """One of ours; the bench ends where it is not built."""
    found = next((p for p in (ROOT / build).glob(f"*/{name}") if p.is_file()), None)
    if not found:
        sys.exit(f"bench: no {name} under {build}: build first (meson setup build && ninja -C build)")
    return found
