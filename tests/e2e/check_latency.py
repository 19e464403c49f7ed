#!/usr/bin/env python3
"""bench/latency in short: small networks stay on the caller's thread, larger ones do not, with the same bits; what it
writes.

check_latency.py BUILD     from the project's root; with ONNX Runtime or PyTorch their outputs are compared, too

Times are not judged: a machine that runs tests is a busy one.
"""
import json
import os
import pathlib
import subprocess
import sys

from checks import ENV, TMP, check, finish

BUILD = os.path.relpath(sys.argv[1])
FIGURES = {"call", "kernels", "beyond", "launches", "handed", "bits"}


def bench(*options):
    return subprocess.run([sys.executable, "bench/latency", f"--build={BUILD}", *options], capture_output=True,
                          text=True, env=ENV,
                          stdin=subprocess.DEVNULL)


def check_rows(rows, threads):
    check([(r["case"], r["threads"]) for r in rows] == [(c, t) for c in ("mlp-4x64-1", "conv-16") for t in threads],
          f"rows {rows}")
    for r in rows:
        ours, where = r["ours"], f"{r['case']}, {r['threads']} threads"
        check(set(ours) - {"python"} == FIGURES and ours.get("python", 1) > 0 and ours["call"] > 0
              and ours["kernels"] > 0, f"{where}: {ours}")
        small = r["case"] == "mlp-4x64-1" or r["threads"] == 1
        check(ours["handed"] == 0 if small else ours["handed"] > 0, f"{where}: {ours['handed']} loops went to the pool")
        check(all(r[e]["error"] < 1e-4 and r[e]["call"] > 0 for e in ("onnx", "torch") if e in r), f"{where}: {r}")


for options, threads in ((["--no-rivals"], (1, 2, 4)), ([], (1,))):
    r = bench("--quick", f"--output={TMP}/{len(threads)}", "--threads=" + ",".join(map(str, threads)), *options)
    check(r.returncode == 0, f"exit {r.returncode}: {r.stderr[-800:]}")
    written = list(pathlib.Path(TMP, str(len(threads))).glob("*-latency.json"))
    if check(len(written) == 1, f"{written}"):
        about = json.loads(written[0].read_text())
        check(about["cpu"] and about["rounds"] == 1, f"{about}")
        check_rows(about["calls_of_small_networks"], threads)
        check(len(r.stdout.splitlines()) == 1 + 2 * len(threads), r.stdout)
r = bench("no-such")
check(r.returncode == 1 and "no case no-such; there are mlp-4x64-1" in r.stderr, r.stderr)
r = bench("--quick", "--no-rivals", f"--build={TMP}")
check(r.returncode == 1 and "build first" in r.stderr, r.stderr)
r = bench("--quick", "--onnx-python=/no/python", "--torch-python=/no/python", "--threads=1", "mlp-4x64-1")
check(r.returncode == 0 and "no onnx: /no/python cannot import onnx" in r.stderr and len(r.stdout.splitlines()) == 2,
      r.stdout + r.stderr)
finish()
