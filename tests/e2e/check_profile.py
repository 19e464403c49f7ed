"""dlrun --profile: the trace and the table of some steps, on the CPU and through the emulated device; system D's
switches.

check_profile.py DLRUN     from the project's root; needs nothing but Python's own library, and a C compiler
"""
import json
import os
import re
import subprocess
import sys

from checks import ENV, TMP, check, finish, save_file

DLRUN = os.path.abspath(sys.argv[1])
for variable in ("ENABLE_PROFILING", "PROFILE_OUTPUT", "NSYS_PROFILING_SESSION_ID", "NVTX_INJECTION64_PATH"):
    ENV.pop(variable, None)

MODEL = f"{TMP}/small.dl"
with open("tests/data/small.dl") as small, open(MODEL, "w") as f:  # with two equal layers: their kernels are twins
    text = small.read()
    f.write(text.replace("    y = ", "    for k in range(2): h = h |> conv(width, 3, pad=1) @mid{k}\n    y = ", 1))


def run(name, *more, samples=40, epochs=1, **env):
    """The run's directory and what it said. Two samples a step."""
    args = [DLRUN, MODEL, "--data_loader_config=synthetic", "--data_size=16", "--local_batch_size=2",
            f"--Nsamples={samples}",
            "--Nsamples_val=4", f"--num_epochs={epochs}", "--start_lr=1e-3", "--device=cpu", f"--expdir={TMP}/{name}",
            *more]
    r = subprocess.run(args, capture_output=True, text=True, env={**ENV, **env}, stdin=subprocess.DEVNULL)
    r.folder = f"{TMP}/{name}/small-base/1GPU/00"
    return r


def read(path, mode="r"):
    with open(path, mode) as f:
        return f.read()


def trained(r):
    """Losses and weights: what a profile must not touch."""
    points = [json.loads(line) for line in read(f"{r.folder}/metrics.jsonl").splitlines()]
    return [(p["iteration"], p["Loss/train"], p["Loss/valid"])
            for p in points], read(f"{r.folder}/checkpoints/last/model.safetensors", "rb")


def ns(us):
    return round(us * 1000)


def load_trace(path):
    """Row -> its events (name, begin, end in nanoseconds, arguments), in order; what is told of the whole."""
    trace = json.loads(read(path))
    names = {e["tid"]: e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"}
    rows = {name: [] for name in names.values()}
    for e in trace["traceEvents"]:
        if e["ph"] == "X":
            rows[names[e["tid"]]].append((e["name"], ns(e["ts"]), ns(e["ts"]) + ns(e["dur"]), e["args"]))
    return rows, trace["otherData"]


def check_rows(rows, what):
    """Time goes on; on the host's row events hold each other or lie apart, on others they lie apart."""
    for row, events in rows.items():
        check(all(b <= e for _, b, e, _ in events) and events and min(b for _, b, _, _ in events) >= 0,
              f"{what}: events of {row} end after their beginning")
        check([b for _, b, _, _ in events] == sorted(b for _, b, _, _ in events),
              f"{what}: events of {row} are in order")
        open_until = []
        for name, b, e, _ in events:
            while open_until and open_until[-1] <= b:
                open_until.pop()
            nests = not open_until or (row == "host" and e <= open_until[-1])
            check(nests, f"{what}: {name} at {b} overlaps another of {row}")
            open_until.append(e)


def check_kernels(rows, device, about, steps, what):
    """Every launch of every step, in order, within the range that started it."""
    host, kernels, n = rows["host"], rows[device], about["launches"]
    got = [(a["step"], a["launch"]) for _, _, _, a in kernels]
    check(got == [(s, i) for s in steps for i in range(n)], f"{what}: each launch of steps {steps}: {got[:20]}")
    check([name for name, _, _, _ in host if name.startswith("step ")] == [f"step {s}" for s in steps],
          f"{what}: the steps' ranges")
    programs = [(b, e) for name, b, e, _ in host if name == "program"]
    check(len(programs) == len(steps), f"{what}: a range each")
    for s, (b, e) in zip(steps, programs):
        of = [k for k in kernels if k[3]["step"] == s]
        total = sum(k[2] - k[1] for k in of)
        check(b <= of[0][1] and of[-1][2] <= e and 0 < total <= e - b,
              f"{what}: kernels of step {s}, {total} ns, within {b} to {e}")
    for name, b, e, a in kernels:
        check({"where", "flops", "bytes", "predicted_us", "symbol"} <= set(a), f"{what}: {name} has {sorted(a)}")
        if e > b:
            check(abs(a["GFLOP/s"] * (e - b) - a["flops"]) <= 1e-5 * a["flops"] + 1e-9, f"{what}: GFLOP/s of {name}")
            check(abs(a["GB/s"] * (e - b) - a["bytes"]) <= 1e-5 * a["bytes"] + 1e-9, f"{what}: GB/s of {name}")
    check(any("small.dl:6" in a["where"] for _, _, _, a in kernels), f"{what}: source lines")


def load_table(path):
    """Rows by kernel as numbers; the last is the sum. Lines before the head are words."""
    lines = read(path).splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith("kernel "))
    rows = []
    for line in lines[head + 1:]:
        if " ran above the ceiling" in line:
            continue
        m = re.match(r"(@?\w+) +(\d+) +([\d.]+) +([\d.]+) +([\d.]+)% +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+) "
                     r"+([\d.]+) (memory|compute|-) +(?:([\d.]+)%|-) +(-?[\d.]+)", line)
        check(m, f"a row of the table: {line}")
        if m:
            rows.append([m[1], int(m[2]), *map(float, m.groups()[2:10]), m[11], m[12] and float(m[12]), float(m[13])])
    return lines[:head], rows


def check_table(path, trace_rows, device, about, what):
    words, rows = load_table(path)
    *rows, total = rows
    check(total[0] == "all" and total[1] == about["launches"], f"{what}: the last row is all: {total}")
    for column, name, digits in ((1, "calls", 0), (2, "measured", 1e-4), (3, "predicted", 1e-4), (4, "of all", 0.1),
                                 (5, "MFLOP", 1e-3), (6, "MB", 1e-3)):
        s = sum(r[column] for r in rows)
        check(abs(s - total[column]) <= digits * (len(rows) + 1) / 2,
              f"{what}: {name} add up to {s}, and all is {total[column]}")
    check([r[12] for r in rows] == sorted((r[12] for r in rows), reverse=True),
          f"{what}: the one furthest from its floor first")
    check(abs(sum(r[12] for r in rows) - total[12]) <= 1e-4 * (len(rows) + 1) / 2, f"{what}: gaps add up")
    kernels = trace_rows[device]
    check(abs(sum(e - b for _, b, e, _ in kernels) * 1e-6 / about["steps"] - total[2]) <= 1e-4,
          f"{what}: the table's time is the trace's")
    one = [a for _, _, _, a in kernels[:about["launches"]]]
    check(abs(sum(a["flops"] for a in one) * 1e-6 - total[5]) <= 1e-3, f"{what}: so are FLOPs")
    check(abs(sum(a["bytes"] for a in one) * 1e-6 - total[6]) <= 1e-3, f"{what}: and bytes")
    check(len(rows) == len({a["symbol"] for a in one}) < len(one),
          f"{what}: a row for each code, twins together: {len(rows)}")
    return words, rows


def test_cpu():
    """Steps 5 to 14 of the first epoch; numbers are those of a run without."""
    plain, r = run("plain", epochs=2), run("cpu", "--profile", epochs=2)
    check(plain.returncode == 0 and r.returncode == 0, f"runs: {plain.stderr[-300:]} {r.stderr[-300:]}")
    check(trained(plain) == trained(r), "losses and weights are those of a run that is not profiled")
    check(not os.path.exists(f"{plain.folder}/profile.json"), "which leaves no profile")
    rows, about = load_trace(f"{r.folder}/profile.json")
    check(set(rows) == {"host", "cpu"}, f"rows: {set(rows)}")
    check_rows(rows, "cpu")
    check_kernels(rows, "cpu", about, list(range(5, 15)), "cpu")
    names = [name for name, _, _, _ in rows["host"]]
    check(names[:5] == ["step 5", "data wait", "data copy in 5", "program", "results"]
          and names[-2:] == ["validation", "checkpoint"], f"the host's parts: {names}")
    words, kernels = check_table(f"{r.folder}/profile.txt", rows, "cpu", about, "cpu")
    m = re.search(r"ceilings measured here \(f32\): ([\d.]+) GFLOP/s and ([\d.]+) GB/s", "\n".join(words))
    check(m, f"ceilings: {words}")
    gflops, gbytes = float(m[1]), float(m[2])
    for k in kernels:
        compute, memory = k[5] / gflops, k[6] / gbytes
        if abs(compute - memory) > 0.02 * compute:
            check(k[10] == ("memory" if memory > compute else "compute"), f"the bound of {k}")
        printed = max(compute * 0.05 / gflops, memory * 0.05 / gbytes)  # ceilings are printed with one decimal
        check(abs(k[2] - max(compute, memory) - k[12]) < 0.02 * k[2] + 2e-4 + printed, f"the gap of {k} at {m[0]}")
        if k[2] > 0.05:
            check(abs(k[11] - 100 * max(compute, memory) / k[2]) < 0.02 * k[11] + 0.2, f"the share of {k}")
    log = read(f"{r.folder}/out.log")
    check(all(line in log for line in read(f"{r.folder}/profile.txt").splitlines()), "the log has the table")
    again = run("cpu", epochs=1)
    check(again.returncode == 0 and not os.path.exists(f"{r.folder}/profile.json")
          and os.path.exists(f"{r.folder}.1/profile.json"), "a new run keeps the old one's profile next to it")


def test_short():
    """All steps of a short epoch; a run that goes on; a run of given batches."""
    r = run("short", "--profile", samples=6)
    rows, about = load_trace(f"{r.folder}/profile.json")
    check_kernels(rows, "cpu", about, [0, 1, 2], "three steps")
    r = run("short", "--profile", "--resume", samples=24, epochs=2)
    rows, about = load_trace(f"{r.folder}/profile.json")
    check_kernels(rows, "cpu", about, list(range(2, 12)), "twelve steps, of a run that goes on")
    check(about["epoch"] == 1, f"in its first epoch: {about}")
    b = f"{TMP}/batches.safetensors"
    save_file(b,
              {f"{name}.{i}": ([2, c, 16, 16, 16], [0.5 - i * 0.1] * (2 * c * 16**3)) for i in range(3)
               for name, c in (("x", 4), ("t", 5))})
    plain, r = run("replay", f"--replay={b}"), run("replay", f"--replay={b}", "--profile")
    check(r.returncode == 0 and plain.stdout == r.stdout and r.stdout.count("\n") == 3,
          f"a replay's losses are the same: {r.stderr[-300:]}")
    rows, about = load_trace(f"{r.folder}/profile.json")
    check_kernels(rows, "cpu", about, [0, 1, 2], "replay")


def test_refused():
    r = run("dry", "--profile", "--dry_run")
    check(r.returncode == 2 and "--profile" in r.stderr, f"no profile of no step: {r.returncode} {r.stderr}")
    r = run("slash", ENABLE_PROFILING="1", PROFILE_OUTPUT="a/b")
    check(r.returncode == 2 and "PROFILE_OUTPUT=a/b" in r.stderr,
          f"a name with a slash: {r.returncode} {r.stderr[-200:]}")


TOOL = r"""
#include <stdio.h>
#include <stdlib.h>
static void say(const char *text) { FILE *f = fopen(getenv("SAID"), "a"); fprintf(f, "%s\n", text); fclose(f); }
int nvtxRangePushA(const char *name) { return say(name), 0; }
int nvtxRangePop(void) { return say("pop"), 0; }
int cudaProfilerStart(void) { return say("start"), 0; }
int cudaProfilerStop(void) { return say("stop"), 0; }
"""


def make_tool():
    """Libraries by the names of NVIDIA's that write down what they are told."""
    folder = f"{TMP}/tool"
    os.mkdir(folder)
    with open(f"{folder}/tool.c", "w") as f:
        f.write(TOOL)
    for name in ("libnvToolsExt.so.1", "libcudart.so.13"):
        subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-o", f"{folder}/{name}", f"{folder}/tool.c"],
                       check=True)
    return folder


def test_ranges():
    """System D's ranges for a profiler, around epoch 4, and its own files where there is none."""
    said, folder = f"{TMP}/said", make_tool()
    env = {"LD_LIBRARY_PATH": folder, "SAID": said}
    r = run("d", samples=4, epochs=5, **env)
    check(r.returncode == 0 and not os.path.exists(said), f"nothing is told unasked: {r.stderr[-300:]}")
    r = run("d", samples=4, epochs=5, NSYS_PROFILING_SESSION_ID="17", **env)
    check(r.returncode == 0 and not os.path.exists(f"{r.folder}/profile.json"),
          f"beneath a profiler it is that which records: {r.stderr[-300:]}")
    words = read(said).splitlines()
    step = lambda i: [f"step {i}", "data wait", "pop", f"data copy in {i}", "pop", "forward", "pop", "optimizer", "pop",
                      "pop"]
    epoch = step(0) + step(1)
    after = ["validation", "pop", "checkpoint", "pop"]
    want = ["validation", "pop"] + (epoch + after) * 3 + ["start"] + epoch + ["stop"] + after + epoch + after
    check(words == want, f"ranges by system D's names, within each other: {words[:40]}")
    plain = run("plain4", samples=4, epochs=5)
    check(trained(plain) == trained(r), "the same losses")
    r = run("own", samples=40, epochs=4, ENABLE_PROFILING="1", PROFILE_OUTPUT="baseline")
    check(r.returncode == 0 and os.path.exists(f"{r.folder}/baseline.txt"),
          f"PROFILE_OUTPUT names the files: {r.stderr[-300:]}")
    rows, about = load_trace(f"{r.folder}/baseline.json")
    check_kernels(rows, "cpu", about, list(range(5, 15)), "epoch 4")
    check(about["epoch"] == 3, f"of the epoch of index 3: {about}")
    r = run("own", samples=4, epochs=2, ENABLE_PROFILING="1")
    check(r.returncode == 0 and "nothing was profiled" in r.stderr,
          f"a run that ends before says so: {r.stderr[-300:]}")


def test_device():
    """Through the emulated device: events instead of the host's clock, copies, the same bits."""
    plain = run("device", "--device=cuda:emulated", samples=8)
    if "C++" in plain.stderr and plain.returncode == 5:
        print("no C++ compiler: the device's profile is not checked")
        return
    r = run("watched", "--device=cuda:emulated", "--profile", samples=8)
    check(plain.returncode == 0 and r.returncode == 0, f"runs: {plain.stderr[-300:]} {r.stderr[-300:]}")
    check(trained(plain) == trained(r), "the same bits launch by launch as by the graph")
    rows, about = load_trace(f"{r.folder}/profile.json")
    check(set(rows) == {"host", "device", "copies"}, f"rows: {set(rows)}")
    check_rows(rows, "device")
    check_kernels(rows, "device", about, [0, 1, 2, 3], "device")
    words, _ = check_table(f"{r.folder}/profile.txt", rows, "device", about, "device")
    check("products of bf16" in "\n".join(words), f"ceilings of the device: {words}")
    for s in range(4):
        copies = [(name, a["bytes"]) for name, _, _, a in rows["copies"] if a["step"] == s]
        check(("to the device", 2 * 4 * 16**3 * 4) in copies and ("to the device", 2 * 5 * 16**3 * 4) in copies,
              f"the batch's copies of step {s}: {copies}")
        check(any(name == "to the host" for name, _ in copies), f"the results' of step {s}: {copies}")


for name, test in [(k, v) for k, v in globals().items() if k.startswith("test_")]:
    if len(sys.argv) == 2 or name[5:] in sys.argv[2:]:
        test()
finish()
