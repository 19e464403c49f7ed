#!/usr/bin/env python3
"""commit.py SOURCE: the commit of a checkout, with "-dirty" where a file differs from it. Fails for sources that are no
checkout themselves, such as an unpacked archive within another one's."""
import os
import subprocess
import sys


def git(*words):
    return subprocess.run(["git", "-C", sys.argv[1], *words], check=True, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL).stdout.strip()


try:
    if os.path.realpath(git("rev-parse", "--show-toplevel")) != os.path.realpath(sys.argv[1]):
        sys.exit(1)
    print(git("describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"))
except (OSError, subprocess.CalledProcessError):
    sys.exit(1)
