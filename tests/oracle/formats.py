"""The Python of `scripts/install-oracle formats`: packages that read and write what Debian's do not."""
import os
import pathlib
import subprocess
import sys

PYTHON = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "dlc-formats/bin/python"


def run_again(check):
    """Runs the script a second time by that Python, where it is there and does not run it already."""
    if PYTHON.exists() and pathlib.Path(sys.executable) != PYTHON:
        done = subprocess.run([PYTHON, *sys.argv], text=True, capture_output=True)
        check(done.returncode == 0, f"by {PYTHON}: {done.stdout[-800:]} {done.stderr[-4000:]}")
    elif not PYTHON.exists():
        print("not run by the packages of scripts/install-oracle formats, which are not there")
