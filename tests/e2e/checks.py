"""What the checks of whole programs share: counting, a temporary directory, a kernel cache (scripts/test has one for all tests), safetensors.

They need nothing but Python's own library; those beside PyTorch have oracle_tools.py. Each ends with finish(), which prints the line
"N passed, N failed" and fails where nothing was checked.
"""
import json
import os
import struct
import sys
import tempfile

passed = failed = 0
work = tempfile.TemporaryDirectory(prefix="dlc_test_")
TMP = work.name
# No variable of a launcher: a test is one rank.
ENV = {k: v for k, v in os.environ.items() if k not in ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")}
ENV["DLR_CACHE_DIR"] = os.environ.get("DLC_TEST_CACHE") or os.path.join(TMP, "cache")


def check(ok, what):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    if not ok:
        print(f"failed: {what}", flush=True)


# Of cases that are many and alike, one in so many is taken: tests/check.h.
SHARE = max(int(os.environ.get("DLC_TEST_SHARE") or 1), 1)


def takes(number):
    """Whether this run takes that one."""
    return number * 0x9e3779b9 % 2**32 <= (2**32 - 1) // SHARE


def finish():
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0 or passed == 0)


def save_file(path, tensors):
    """Safetensors: {name: (shape, list of numbers)} of f32, or (shape, list, "I32" or "I64")."""
    header, data = {}, b""
    for name, (shape, values, *kind) in tensors.items():
        dtype = kind[0] if kind else "F32"
        raw = struct.pack(f"<{len(values)}{dict(F32='f', I32='i', I64='q')[dtype]}", *values)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)
