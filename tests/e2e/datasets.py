"""Tests of the section `data`: configurations, samples as the loader gives them, faults. The first argument is BUILD,
and the tests run in a folder of their own."""
import os
import re
import shutil
import subprocess
import sys

from checks import ENV, TMP, check

try:
    import numpy as np
except ImportError as missing:
    print(f"SKIP: {missing} (scripts/install-packages test)")
    sys.exit(77)

BUILD = os.path.abspath(sys.argv[1])
EMULATES = any(map(shutil.which, ("c++", "g++", "clang++")))
DTYPES = {"f32": "f4", "i32": "i4", "i64": "i8", "bool": "u1"}
os.chdir(TMP)


def write(name, text):
    with open(name, "w") as f:
        f.write(text)


def model(name, text):
    write(name + ".dl", text)


def config(text, **more):
    """default: {batch of 2, data: text, more}."""
    data = "\n".join("    " + line for line in text.strip("\n").splitlines())
    write("c.yaml",
          "default:\n  local_batch_size: 2\n" + "".join(f"  {k}: {v}\n" for k, v in more.items()) + "  data:\n" + data +
          "\n")


def run(*words, env=None):
    return subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env or ENV)


def samples(name, split="train", epoch=0, *options):
    """{array: numpy array of all samples} as the loader gives them; or its error. An emulated GPU makes the same of
    what it reads for that."""
    words = (BUILD + "/tests/dump_samples", split, str(epoch), name + ".dl", "--yaml_config=c.yaml", *options)
    done = run(*words)
    for held in ({}, {"DUMP_HELD": "1"}) if EMULATES else ():
        device = run(*words, env={**ENV, "DUMP_DEVICE": "cuda:sm_90a:emulated", **held})
        check((device.returncode, device.stdout, device.stderr) ==
              (done.returncode, done.stdout if done.returncode == 0 else b"", done.stderr),
              f"{name}, {split}, {held}: samples that the device makes: {device.stderr.decode()} for "
              f"{done.stderr.decode()}")
    if done.returncode:
        return done.stderr.decode()
    head, data = done.stdout.split(b"\n", 1)
    n, fields = head.decode().split(" ", 1)
    parts, at = {}, 0
    rows = []
    for field in fields.split(";"):
        array, kind, dims = re.fullmatch(r"(\w+) (\w+)(\[.*\])?", field).groups()
        shape = [int(s) for s in re.findall(r"=(\d+)", dims or "")]
        rows.append((array, np.dtype((DTYPES[kind], tuple(shape)))))
    whole = np.frombuffer(data, dtype=np.dtype(rows))
    check(len(whole) == int(n), f"{name}: {len(whole)} samples of {n}")
    return {array: whole[array] for array, _ in rows}


def same(a, b, what):
    check(isinstance(a, np.ndarray) and a.shape == b.shape and np.array_equal(a, b.astype(a.dtype)),
          f"{what}: {a if isinstance(a, str) else (a.shape, b.shape)}")


def faults(name, want, *options):
    """dlc check ends with 3 and says so, before anything runs; so does dlrun."""
    done = run(BUILD + "/cli/dlc", "check", name + ".dl", "--yaml_config=c.yaml", *options)
    text = done.stderr.decode()
    check(done.returncode == 3 and want in text, f"dlc check: {done.returncode} {text!r}, not {want!r}")
    done = run(BUILD + "/cli/dlrun", name + ".dl", "--yaml_config=c.yaml", *options)
    check(done.returncode == 3 and want in done.stderr.decode() and not os.path.exists("runs/c"),
          f"dlrun: {done.stderr.decode()!r}")
