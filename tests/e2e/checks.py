"""Shared by the checks of whole programs: counts, a temporary directory, a kernel cache (scripts/test has one for all
tests), safetensors.

They need Python's own library alone; checks against PyTorch use oracle_tools.py. Each check ends with finish(), which
prints the line "N passed, N failed" and fails where nothing was checked.
"""
import json
import os
import pathlib
import re
import select
import shutil
import signal
import struct
import sys
import tempfile
import zlib

passed = failed = 0
work = tempfile.TemporaryDirectory(prefix="dlc_test_")
TMP = work.name
# Meson sets this variable to folders of its build. It is a part of a kernel's key, since compilers load their libraries
# by it. With it no kernel of another build would be found in the cache (tests/cache.h).
os.environ.pop("LD_LIBRARY_PATH", None)
# Without the variables of launchers: a test is one rank.
LAUNCHERS = ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
ENV = {k: v for k, v in os.environ.items() if k not in LAUNCHERS}
# All tests keep their kernels in one folder, without a limit: scripts/test removes old files. A test that names the
# folder sets both (rule `caches` of structure/check_house.py).
CACHE = {"DLR_CACHE_DIR": os.environ.get("DLC_TEST_CACHE") or os.path.join(TMP, "cache"), "DLR_CACHE_MAX": "0"}
ENV.update(CACHE)
# A compiler's command for sources that a test writes, where ccache is there: what it knows is not compiled anew, in
# whatever folder it lies.
CCACHE = [shutil.which("ccache")] if shutil.which("ccache") else []
CCACHE_ENV = {"CCACHE_BASEDIR": TMP, "CCACHE_NOHASHDIR": "1",
              "CCACHE_DIR": os.environ.get("CCACHE_DIR") or os.path.expanduser("~/.cache/ccache")} if CCACHE else {}
# A run does not handle a signal that its parent ignores: SIGHUP under nohup, SIGUSR2 under perf record, SIGINT of a
# shell's background job.
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


def check(ok, what):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    if not ok:
        print(f"failed: {what}", flush=True)
    return bool(ok)


# One in SHARE of many similar cases is taken; DRAW selects them (tests/check.h).
SHARE = max(int(os.environ.get("DLC_TEST_SHARE") or 1), 1)
if SHARE > 1:
    ENV["DLR_DEBUG"] = "brief"  # the ceilings of profiles in one round: what they are is test_peak's matter
DRAW = int(os.environ.get("DLC_TEST_DRAW") or 0) % 2**32


def takes(number):
    """Whether this run takes the case of that number."""
    return number * 0x9e3779b9 % 2**32 * SHARE >> 32 == DRAW % SHARE


def some(cases, cell, every=4):
    """All of these cases; or, of a share, of each cell (`cell` of a case) the one whose turn it is, and one in `every`
    of the others. What has no other like it is a cell of its own, and is always taken."""
    if SHARE == 1:
        return list(cases)
    cells = {}
    for case in cases:
        cells.setdefault(cell(case), []).append(case)
    taken = {id(case) for number, of in enumerate(cells.values()) for i, case in enumerate(of)
             if i == (DRAW + number) % len(of) or (i + number + DRAW // len(of)) % every == 0}
    return [case for case in cases if id(case) in taken]


def turn(number, every=2):
    """Scenarios take turns: of a share, whether it is that of this number, one in `every`."""
    return SHARE == 1 or (DRAW + number) % every == 0


def drawn(cases, cell=0):
    """All of these cases, which differ in sizes and numbers alone; or the one of the cell that this run takes."""
    return list(cases) if SHARE == 1 else [list(cases)[(DRAW + cell) % len(list(cases))]]


def ink(png):
    """How many rows of a PNG of 8 bits have more than one colour."""
    data, at, packed = open(png, "rb").read(), 8, b""
    while at < len(data):
        n, kind = int.from_bytes(data[at:at + 4], "big"), data[at + 4:at + 8]
        if kind == b"IHDR":
            width, height, colour = (int.from_bytes(data[at + 8:at + 12], "big"),
                                     int.from_bytes(data[at + 12:at + 16], "big"), data[at + 17])
        packed += data[at + 8:at + 8 + n] if kind == b"IDAT" else b""
        at += 12 + n
    line = width * {2: 3, 6: 4}[colour] + 1
    raw = zlib.decompress(packed)
    # A filtered row of one colour is zero but for its first pixel.
    return sum(any(raw[i * line + 5:(i + 1) * line]) for i in range(height))


class Gate:
    """A point at which dlrun stops and waits (runtime/base/debug.h), so that a test acts at that point on any machine.

        gate = Gate("step", 13)
        p = subprocess.Popen(..., env={**ENV, **gate.env})
        if gate.wait(p):        # False: it ended before it came there
            p.send_signal(...)
            gate.open()         # and it goes on
    """
    made = 0

    def __init__(self, point, number=0, folder=None):
        Gate.made += 1
        self.path = os.path.join(folder or TMP, f"gate{Gate.made}")
        for path in (self.path, self.path + ".go"):
            os.mkfifo(path)
        # Opened before dlrun reaches the point, for reading and writing, so that no open waits and no close ends dlrun.
        self.reached, self.go = (os.open(p, os.O_RDWR) for p in (self.path, self.path + ".go"))
        self.env = {"DLR_DEBUG": f"gate:{point}:{number}:{self.path}"}
        self.of_rank = {"PHASE_TOLD": self.path, "PHASE_GATE": self.path + ".go"}  # the same of tests/ranks/phases.c

    def wait(self, process):
        end = os.pidfd_open(process.pid)
        try:
            ready = select.select([self.reached, end], [], [])[0]
        finally:
            os.close(end)
        return self.reached in ready and os.read(self.reached, 1) == b"\0"

    def open(self):
        os.write(self.go, b"\0")

    def close(self):
        os.close(self.reached), os.close(self.go)


def run_points(folder):
    """The points of a run, by the metrics.jsonl that lies somewhere under the folder; none where there is none."""
    return [json.loads(line) for path in sorted(pathlib.Path(folder).rglob("metrics.jsonl"))
            for line in path.read_text().splitlines()]


def narrowed(text, divisor):
    """A model's text with an n-th of its channels."""
    return re.sub(r"\b(64|128|256|512)\b", lambda n: str(int(n.group()) // divisor), text)


def finish():
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0 or passed == 0)


def write_safetensors(path, tensors):
    """{name: (type as the file says it, shape, bytes)}."""
    header, data = {}, bytearray()
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def save_file(path, tensors):
    """Safetensors: {name: (shape, list of numbers)} of f32, or (shape, list, "I32" or "I64")."""
    def entry(shape, values, dtype="F32"):
        return dtype, shape, struct.pack(f"<{len(values)}{dict(F32='f', I32='i', I64='q', BOOL='?')[dtype]}", *values)
    write_safetensors(path, {name: entry(*of) for name, of in tensors.items()})


def save_npy(path, shape, descr="<f4"):
    """Numbers from a small generator, of f32; of another type its bytes, zero."""
    n, state, values = 1, 12345, []
    for d in shape:
        n *= d
    for _ in range(n):
        state = (state * 1103515245 + 12345) % 2**31
        values.append(state / 2**31 - 0.5)
    data = struct.pack(f"<{n}f", *values) if descr == "<f4" else bytes(n * int(descr[2:]) * (4 if "U" in descr else 1))
    head = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    head += " " * (63 - (10 + len(head)) % 64) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\0" + struct.pack("<H", len(head)) + head.encode() + data)
