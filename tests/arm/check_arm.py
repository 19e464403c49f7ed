#!/usr/bin/env python3
"""The programs for 64-bit Arm, cross-built and run by qemu: `dlc verify` finds nothing wrong with any model on Arm's
targets, and ten steps have the losses that they have on this machine.

check_arm.py BUILD     skipped where scripts/install-arm has not been run

The build is BUILD/../arm64. A share of a run takes one model of each target (tests/README.md).
"""
import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from checks import ENV, TMP, check, drawn, finish, run_points  # noqa: E402
from small_models import MODELS, ROOT, model_file  # noqa: E402

BUILD = pathlib.Path(sys.argv[1]).resolve()
TREE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache", "dlc-arm64")
ARM = BUILD.parent / "arm64"
STEPS = 10  # an epoch may have fewer
# A target, its precision, the target here that computes alike, and how far the losses of ten steps may be apart. f32:
# other orders of additions, which Adam's first steps (the sign of a gradient) make larger. bf16: Arm's products round
# to odd, and a value next to a boundary is rounded to another bf16, 2^-8 away.
TARGETS = (("cpu:neon", "none", "cpu:generic", 2e-3), ("cpu:neon_bf16", "bf16", "cpu:neon_bf16:emulated", 2**-5))


def run(command, folder=None):
    return subprocess.run([str(word) for word in command], cwd=folder or TMP, env=ENV, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True)


def build():
    if not (ARM / "build.ninja").exists():
        r = run(["meson", "setup", ARM, ROOT, f"--cross-file={TREE / 'arm64.ini'}", "-Dtests=false", "-Dwerror=true",
                 "-Dhdf5=disabled", "-Dmpi=disabled", "-Dfortran=disabled"])
        if r.returncode:
            return r.stdout + r.stderr
    r = run(["ninja", "--quiet", "-C", ARM, "cli/dlc", "cli/dlrun"])
    return r.stdout + r.stderr if r.returncode else None


def losses(program, name, precision, device):
    folder = pathlib.Path(TMP, f"{name}-{device}".replace(":", "_"))
    r = run([*program, model_file(name), *MODELS[name][2], f"--num_iters={STEPS}", "--Nsamples_val=4", "--log_every=1",
             f"--amp_mode={precision}", f"--device={device}", f"--expdir={folder}"])
    found = [point["Loss/step"] for point in run_points(folder) if "Loss/step" in point]
    return found if r.returncode == 0 else (r.stderr or r.stdout)[-400:]


def check_model(name, target, precision, alike, most):
    r = run([TREE / "run", ARM / "cli/dlc", "verify", model_file(name), *MODELS[name][2], f"--amp_mode={precision}",
             f"--target={target}", "--json"])
    said = json.loads(r.stdout) if r.returncode == 0 else {}
    check(said.get("off") == [] and said["judged"]["kernels"] > 0, f"dlc verify {name} {target}: {r.stdout}{r.stderr}")
    arm = losses([TREE / "run", ARM / "cli/dlrun"], name, precision, target)
    here = losses([BUILD / "cli/dlrun"], name, precision, alike)
    apart = (max(abs(a - b) / abs(b) for a, b in zip(arm, here))
             if type(arm) is type(here) is list and len(arm) == len(here) >= STEPS // 2 else None)
    print(f"{name} {target}: {apart} apart", flush=True)
    check(apart is not None and apart <= most, f"{name}: losses on {target}: {arm}, on {alike}: {here}")


if not (TREE / "installed").exists():
    print("SKIP: no cross build for Arm (scripts/install-arm)")
    sys.exit(77)
fault = build()
if check(fault is None, f"the build for Arm: {fault}"):
    for cell, target in enumerate(TARGETS):
        for name in drawn(MODELS, cell):
            check_model(name, *target)
finish()
