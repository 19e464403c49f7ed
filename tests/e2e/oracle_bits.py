#!/usr/bin/env python3
"""The same run gives the same bits: run again, on another number of threads, stopped and resumed, killed and resumed.

oracle_bits.py BUILD

Compared are the last checkpoint's weights and optimiser state, byte by byte, and every loss of metrics.jsonl.
"""
import hashlib
import json
import signal
import sys
import time

from oracle_tools import Workplace, check, finish

STEPS = 16  # an epoch
SETTINGS = ("--config", "tiny", "--data_loader_config=synthetic", f"--Nsamples={4 * STEPS}", "--Nsamples_val=8",
            "--num_epochs=2", "--start_lr=5e-4")


def directory(place, name):
    return place / name / "tiny/1GPU/00"


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


def whole_run(place, name, *options):
    place.run("dlrun", *SETTINGS, f"--expdir={place / name}", *options)
    return result(directory(place, name))


def interrupted_run(place, name, sign):
    """Sends the signal in the second epoch, then resumes. Returns the exit status and where the checkpoint stood."""
    run = directory(place, name)
    process = place.start("dlrun", *SETTINGS, f"--expdir={place / name}")
    while process.poll() is None and not any(i >= STEPS for i, tag in points(run) if tag == "Loss/valid"):
        time.sleep(0.02)
    time.sleep(0.2)
    process.send_signal(sign)
    process.communicate()
    state = json.loads((run / "checkpoints/last/state.json").read_text())
    place.run("dlrun", *SETTINGS, f"--expdir={place / name}", "--resume")
    return process.returncode, state["iteration"]


def compare(what, got, want):
    same_files, same_points = got[0] == want[0], got[1] == want[1]
    check(same_files and same_points, f"{what}: {len(want[0])} files {'equal' if same_files else 'DIFFER'}, "
          f"{len(want[1])} losses {'equal' if same_points else f'DIFFER: {sorted(set(got[1].items()) ^ set(want[1].items()))[:4]}'}")


def main(build):
    place = Workplace(build)
    want = whole_run(place, "first", "--threads=2")
    iterations = {i for i, _ in want[1]}
    check(len(want[0]) >= 2 and {0, STEPS, 2 * STEPS} <= iterations, f"a run leaves {len(want[0])} files and losses at {sorted(iterations)}")
    valid = [v for (i, tag), v in sorted(want[1].items()) if tag == "Loss/valid"]
    check(len(set(valid)) == len(valid), f"it trains: validation losses {valid}")
    other = whole_run(place, "seed", "--threads=2", "--seed=1")
    check(other[0] != want[0] and other[1] != want[1], "another seed gives other bits: the comparison can fail")
    compare("run again", whole_run(place, "again", "--threads=2"), want)
    compare("on one thread", whole_run(place, "one", "--threads=1"), want)

    status, iteration = interrupted_run(place, "stopped", signal.SIGTERM)
    check(status == 75 and STEPS <= iteration < 2 * STEPS, f"SIGTERM: exit status {status}, checkpoint at iteration {iteration}")
    compare("stopped and resumed", result(directory(place, "stopped")), want)
    status, iteration = interrupted_run(place, "killed", signal.SIGKILL)
    check(status == -signal.SIGKILL and iteration == STEPS, f"SIGKILL: status {status}, checkpoint at iteration {iteration}")
    compare("killed and resumed", result(directory(place, "killed")), want)
    finish()


main(*sys.argv[1:])
