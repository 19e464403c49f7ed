#!/usr/bin/env python3
"""Compiles each model of docs/reference/cookbook*.md, and makes a training step of those marked so.

    check_cookbook.py BUILD

A block ```dl file=NAME [train]``` is written to NAME. `dlc check` must accept it without a warning;
one with the word `train` is trained for a step on noise, whose loss must be a number.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import check_docs

PAGES = sorted((check_docs.ROOT / "docs/reference").glob("cookbook*.md"))
LEAST, LEAST_TRAINED = 60, 20
STEP = ["--data_loader_config=synthetic", "--local_batch_size=2", "--num_iters=1", "--Nsamples=2", "--Nsamples_val=2",
        "--threads=1", "--device=cpu"]


def run(folder, env, *command):
    done = subprocess.run(command, cwd=folder, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=check_docs.SECONDS)
    return done.returncode, done.stdout


def trained(folder, env, name):
    """What is wrong with a step of training; None where nothing is."""
    status, said = run(folder, env, "dlrun", name, *STEP, f"--run_dir=runs/{name}")
    points = folder / "runs" / name / "metrics.jsonl"
    if status or not points.exists():
        return f"dlrun: exit status {status}\n{said[-2000:]}"
    last = json.loads(points.read_text().strip().split("\n")[-1])
    return None if isinstance(last.get("Loss/train"), float) else f"no loss: {last}"


def check_page(page, folder, env, counts):
    """The number of the page's models that fail."""
    lines, found = check_docs.blocks(page.read_text())
    failed = 0
    for first, end, words in found:
        names = [w[5:] for w in words if w.startswith("file=")]
        if words[:1] != ["dl"] or not names:
            continue
        check_docs.write_file(folder, names[0], "\n".join(lines[first:end]) + "\n", first)
        status, said = run(folder, env, "dlc", "check", names[0])
        wrong = said if status or "warning" in said else None
        counts["checked"] += 1
        if not wrong and "train" in words:
            wrong = trained(folder, env, names[0])
            counts["trained"] += 1
        if wrong:
            failed += 1
            print(f"{page.name}:{first}: {names[0]}: {wrong}")
    return failed


def main(build):
    counts = {"checked": 0, "trained": 0}
    with tempfile.TemporaryDirectory(prefix="dlc_cookbook_") as name:
        folder = pathlib.Path(name).resolve()
        env = check_docs.environment(build, folder)
        failed = sum(check_page(page, folder, env, counts) for page in PAGES)
    if counts["checked"] < LEAST or counts["trained"] < LEAST_TRAINED:
        failed += 1
        print(f"too few: {counts}")
    print(f"{counts['checked'] + counts['trained'] - failed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]).resolve())
