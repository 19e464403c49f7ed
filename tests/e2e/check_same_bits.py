#!/usr/bin/env python3
"""Ten steps of every model leave the weights and the optimiser's state that tests/golden/same_bits.tsv names, to the
bit.

check_same_bits.py BUILD              a row of each device, by draw; all with --long
check_same_bits.py BUILD --write      computes all rows, and writes the list

A change that is to change no number (a move, a rename, another structure) leaves the list as it is; one that changes
numbers on purpose writes it anew and says why. Rows of targets that the CPU lacks stay. The bits hang on the compiler
of kernels, so that the list is of the gcc that is named in it, and the test is skipped with another.
"""
import hashlib
import os
import pathlib
import re
import struct
import subprocess
import sys

from checks import ENV, TMP, check, drawn, finish
from small_models import MODELS, model_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIST = ROOT / "tests/golden/same_bits.tsv"
DLRUN = os.path.abspath(os.path.join(sys.argv[1], "cli/dlrun"))
STEPS = 10
PRECISIONS = ("none", "bf16")
# Devices, the emulated ones for those that this CPU may lack; all run where there is AVX2.
DEVICES = ("cpu:generic", "cpu:avx2", "cpu:avx512:emulated", "cuda:emulated")


def digest(folder):
    """Of all tensors by name: their types, shapes and bytes."""
    total = hashlib.sha256()
    for file in sorted(folder.glob("*.safetensors")):
        data = file.read_bytes()
        size, = struct.unpack("<Q", data[:8])
        total.update(file.name.encode() + re.sub(rb'"__metadata__": ?\{[^}]*\},?', b"", data[8:8 + size]).strip() +
                     data[8 + size:])
    return total.hexdigest()[:16]


def run(name, precision, device):
    folder = pathlib.Path(TMP, f"{name}-{precision}-{device}".replace(":", "_"))
    r = subprocess.run([DLRUN, str(model_file(name)), *MODELS[name][2], f"--num_iters={STEPS}", "--Nsamples_val=4",
                        f"--amp_mode={precision}",
                        f"--device={device}", f"--expdir={folder}"],
                       cwd=TMP, env=ENV, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    last = list(folder.glob("**/checkpoints/last"))
    return digest(
        last[0]) if r.returncode == 0 and last else f"exit status {r.returncode}: {(r.stderr or r.stdout)[-300:]}"


def compiler():
    return subprocess.run(["gcc", "-dumpfullversion"], capture_output=True, text=True).stdout.strip()


def rows():
    return [(name, precision, device) for name in MODELS for precision in PRECISIONS for device in DEVICES]


def read_list():
    lines = [line.split("\t") for line in LIST.read_text().splitlines()
             if not line.startswith("#")] if LIST.exists() else []
    return {tuple(line[:3]): line[3] for line in lines}


def write_list(found):
    head = (f"# gcc {compiler()}\n# model, amp_mode, device, digest of the state after {STEPS} steps "
            "(tests/e2e/check_same_bits.py)\n")
    LIST.write_text(head + "".join("\t".join((*row, d)) + "\n" for row, d in sorted(found.items())))


found = read_list()
if "--write" in sys.argv:
    made = {row: run(*row) for row in rows()}
    for row, got in made.items():
        check(not got.startswith("exit status"), f"{' '.join(row)}: its row stays: {got}")
    write_list({row: found.get(row, "") if got.startswith("exit status") else got for row, got in made.items()})
    finish()
if f"# gcc {compiler()}\n" not in LIST.read_text():
    print(f"SKIP: {LIST.name} is of another gcc than {compiler()}")
    sys.exit(77)
for cell, device in enumerate(DEVICES):
    for row in drawn([row for row in rows() if row[2] == device], 5 * cell):
        got = run(*row)
        check(got == found.get(row), f"{' '.join(row)}: {got}, not {found.get(row)}")
finish()
