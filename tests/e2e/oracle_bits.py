#!/usr/bin/env python3
"""The same run gives the same bits: run again, on another number of threads, stopped and resumed, killed and resumed.

oracle_bits.py BUILD

Compared are the last checkpoint's weights and optimiser state, byte by byte, and every loss of metrics.jsonl. The runs
are of the U-Net with an eighth of its channels, for the time that they take; the whole one, or of a share one with half
of its channels, runs on one and two threads.
"""
import hashlib
import json
import signal
import sys

from checks import SHARE, Gate, narrowed
from oracle_tools import ROOT, Workplace, check, finish

STEPS = 32 if SHARE == 1 else 4  # an epoch
SETTINGS = ("--yaml_config=models/config/unet.yaml", "--config", "tiny", "--data_loader_config=synthetic",
            "--Nsamples_val=8",
            "--num_epochs=2", "--start_lr=5e-4")


def directory(place, name, tag="narrow-tiny"):
    return place / name / tag / "1GPU/00"


def points(run):
    """{(iteration, tag): value} of the losses; a torn last line does not count."""
    found = {}
    path = run / "metrics.jsonl"
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            point = json.loads(line)
        except ValueError:
            break
        found.update({(point["iteration"], tag): v for tag, v in point.items() if tag.startswith("Loss/")})
    return found


def result(run):
    """What must be equal: digests of the last checkpoint, and the losses."""
    last = run / "checkpoints/last"
    digests = {f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in sorted(last.glob("*.safetensors"))}
    return digests, points(run)


def narrow_model(place, name, divisor):
    """models/unet.dl with a part of the channels; the settings of its runs."""
    path = place / f"{name}.dl"
    path.write_text(narrowed((ROOT / "models/unet.dl").read_text(), divisor))
    return *SETTINGS, f"--model={path}"


def whole_run(place, name, settings, *options, tag="narrow-tiny"):
    place.run("dlrun", *settings, f"--expdir={place / name}", *options)
    return result(directory(place, name, tag))


def interrupted_run(place, name, settings, sign):
    """Sends the signal in the middle of the second epoch, then resumes. Returns the exit status and where the
    checkpoint stood. A checkpoint is on disk before the next step, so that it is there for the one that is killed."""
    state = directory(place, name) / "checkpoints/last/state.json"
    gate = Gate("step", STEPS + STEPS // 2, place.dir)
    settings = *settings, "--async_checkpoints=false"
    process = place.start("dlrun", *settings, f"--expdir={place / name}", env={**place.env, **gate.env})
    reached = gate.wait(process)
    process.send_signal(sign)
    gate.open()
    output = process.communicate()[0]
    gate.close()
    if not reached or not state.exists():
        check(False, f"{name}: no checkpoint; {output[-2000:]}")
        finish()
    iteration = json.loads(state.read_text())["iteration"]
    place.run("dlrun", *settings, f"--expdir={place / name}", "--resume")
    return process.returncode, iteration


def compare(what, got, want):
    same_files, same_points = got[0] == want[0], got[1] == want[1]
    check(same_files and same_points and len(want[0]) >= 2 and want[1],
          f"{what}: {len(want[0])} files {'equal' if same_files else 'DIFFER'}, "
          f"{len(want[1])} losses "
          f"{'equal' if same_points else f'DIFFER: {sorted(set(got[1].items()) ^ set(want[1].items()))[:4]}'}")


def main(build):
    place = Workplace(build)
    settings = *narrow_model(place, "narrow", 8), f"--Nsamples={4 * STEPS}"
    want = whole_run(place, "first", settings, "--threads=2")
    iterations = {i for i, _ in want[1]}
    check(len(want[0]) >= 2 and {0, STEPS, 2 * STEPS} <= iterations,
          f"a run leaves {len(want[0])} files and losses at {sorted(iterations)}")
    valid = [v for (i, tag), v in sorted(want[1].items()) if tag == "Loss/valid"]
    check(len(valid) == len(set(valid)) == 3, f"it trains: validation losses {valid}")
    other = whole_run(place, "seed", settings, "--threads=2", "--seed=1")
    check(other[0] != want[0] and other[1] != want[1], "another seed gives other bits: the comparison can fail")
    compare("run again", whole_run(place, "again", settings, "--threads=2"), want)
    compare("on one thread", whole_run(place, "one", settings, "--threads=1"), want)
    compare("data by the training thread", whole_run(place, "workers", settings, "--num_data_workers=0"), want)

    status, iteration = interrupted_run(place, "stopped", settings, signal.SIGTERM)
    check(status == 75 and iteration == STEPS + STEPS // 2,
          f"SIGTERM: exit status {status}, checkpoint at iteration {iteration}")
    compare("stopped and resumed", result(directory(place, "stopped")), want)
    status, iteration = interrupted_run(place, "killed", settings, signal.SIGKILL)
    check(status == -signal.SIGKILL and iteration == STEPS,
          f"SIGKILL: status {status}, checkpoint at iteration {iteration}")
    compare("killed and resumed", result(directory(place, "killed")), want)

    whole = *narrow_model(place, "whole", 1 if SHARE == 1 else 2), "--num_epochs=1", "--Nsamples_val=4"
    whole = *whole, f"--Nsamples={STEPS}"
    one, two = (whole_run(place, f"unet{n}", whole, f"--threads={n}", tag="whole-tiny") for n in (1, 2))
    compare("the whole U-Net on one thread and on two", one, two)
    finish()


main(*sys.argv[1:])
