#!/usr/bin/env python3
"""Models of tests/zoo, exported by the newest PyTorch, imported and compared with it in float64.   oracle_import.py
BUILD

PyTorch 2.9 or newer and safetensors: those of the environment of scripts/install-torch, or of the interpreter that
DLC_TORCH names. Without them the test is skipped (77).
"""
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
python = os.environ.get("DLC_TORCH") or str(CACHE / "dlc-torch/bin/python")
wanted = "import sys, torch, safetensors; sys.exit(tuple(map(int, torch.__version__.split('.')[:2])) < (2, 9))"
if not pathlib.Path(python).exists() or subprocess.run([python, "-c", wanted], capture_output=True).returncode:
    print("SKIP: no PyTorch 2.9 or newer (scripts/install-torch, or DLC_TORCH=PYTHON)")
    sys.exit(77)
with tempfile.TemporaryDirectory(prefix="dlc_test_") as folder:
    made = subprocess.run([python, HERE.parent / "zoo/export.py", folder], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    if made.returncode:
        sys.exit(f"export.py: {made.stdout[-2000:]}")
    sys.exit(subprocess.run([sys.executable, HERE / "check_import.py", sys.argv[1], folder]).returncode)
