#!/usr/bin/env python3
"""Ranks with a GPU each, emulated, without MPI, that read HDF5 files, which child processes do: no process forks once
NCCL has registered memory with network cards. The stand-in for NCCL ends one that does. A run, and a trial of a sweep,
whose values name the files.

    check_gpus_files.py BUILD     exit 77 without h5py
"""
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import mpi  # noqa: E402
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "e2e"))
from checks import check, finish, run_points  # noqa: E402

try:
    import h5py
    import numpy as np
except ImportError as missing:
    print(f"SKIP: {missing} (scripts/install-packages test)")
    sys.exit(77)

MODEL = """model Field(h=6, w=8):
    input x: f32[N, C=2, H=h, W=w]
    target t: f32[N, C=1, H=h, W=w]
    y = x |> conv(1, 3, pad=1) @head
    output y
    loss = mse_loss(y, t)
"""
CONFIG = """base:
  local_batch_size: 2
  num_epochs: 2
  threads: 1
  data:
    inputs: {x: a.h5:x}
    targets: {t: a.h5:t}
    split: {valid: 0.25}
"""
SWEEP = "method: grid\nmetric: {name: Loss/valid}\nparameters: {lr: {values: [1E-3]}}\n"
RANKS = 2


def main(build):
    dlrun = os.path.abspath(f"{build}/cli/dlrun")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="dlr-gpus-files-"))
    draw = np.random.default_rng(4)
    (folder / "field.dl").write_text(MODEL), (folder / "field.yaml").write_text(CONFIG)
    (folder / "s.yaml").write_text(SWEEP)
    with h5py.File(folder / "a.h5", "w") as f:
        f["x"], f["t"] = draw.standard_normal((16, 2, 6, 8)).astype("f4"), draw.standard_normal((16, 6, 8))
    words = {k: v for k, v in mpi.environment().items() if not k.startswith("TORCHELASTIC_")}
    run = ["field.dl", "--yaml_config=field.yaml", "--config=base", "--device=cuda:emulated", "--comm_timeout=60"]

    def start(*args):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = str(s.getsockname()[1])
        jobs = [subprocess.Popen([dlrun, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, cwd=folder,
                                 stderr=subprocess.PIPE, text=True,
                                 env={**words, "RANK": str(r), "LOCAL_RANK": str(r), "WORLD_SIZE": str(RANKS),
                                      "LOCAL_WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port})
                for r in range(RANKS)]
        said = [job.communicate() for job in jobs]
        return [job.returncode for job in jobs], [text[1][-400:] for text in said]

    status, said = start(*run, "--run_dir=whole", "--lr=1e-3")
    check(status == [0] * RANKS, f"a run: {status} {said}")
    points = run_points(folder / "whole")
    check([point["epoch"] for point in points] == [0, 1, 2], f"a run: {points}")
    made = subprocess.run([dlrun, "sweep", "s.yaml", "-n", str(RANKS), *run, "--root_dir=root", "--sweep_id=s"],
                          cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=words)
    check(made.returncode == 0, f"a sweep: {made.stderr[-400:]}")
    status, said = start(*run, "--root_dir=root", "--sweep_id=s")
    trials = (folder / "root/sweeps/s/trials.jsonl").read_text().splitlines()
    check(status == [0] * RANKS and [json.loads(line)["event"] for line in trials] == ["taken", "done"],
          f"a trial: {status} {said} {trials}")
    finish()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
