"""On a GPU: kernels next to the interpreter, curves next to the CPU's, samples next to the host's, a step's launches,
memory as it was predicted and as it ends, what DLR_DEBUG=guard finds, a profile.

check_device.py BUILD [--device=cuda]     from the project's root; Python's own library, NVRTC and a GPU (77: there is
                                          none)
check_device.py BUILD --device=cuda:emulated: the same without, in minutes
"""
import json
import os
import pathlib
import random
import re
import subprocess
import sys

from checks import ENV, TMP, check, finish

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import gpu_cases as cases  # noqa: E402
import gpu_machine  # noqa: E402

BUILD = pathlib.Path(sys.argv[1]).resolve()
DEVICE = sys.argv[2].partition("=")[2] if len(sys.argv) > 2 else "cuda"
EMULATED = DEVICE == "cuda:emulated"
if (BUILD / "lib").is_dir():  # as bench/gpu --pack leaves it
    ENV["LD_LIBRARY_PATH"] = ":".join(filter(None, (str(BUILD / "lib"), ENV.get("LD_LIBRARY_PATH"))))
PROGRAMS = gpu_machine.find_programs(BUILD)
if not PROGRAMS:
    sys.exit(f"check_device.py: no dlc and dlrun under {BUILD}")
VERSIONS = gpu_machine.find_cuda(PROGRAMS, ENV)
if not EMULATED and ("no NVRTC" in VERSIONS or not any(line.startswith("device ") for line in VERSIONS)):
    print(f"SKIP: {'; '.join(VERSIONS[1:])}")
    sys.exit(77)

SMALL = cases.CLASSIFIER + cases.batch(1) + cases.MODES["bf16"]
VERIFIED = {"a small one": SMALL} if EMULATED else cases.VERIFY_QUICK


def run(program, *args, **environment):
    return subprocess.run([str(PROGRAMS[program]), *args, f"--device={DEVICE}"], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL,
                          env={**ENV, **environment}, cwd=ROOT)


def test_kernels():
    for name, args in VERIFIED.items():
        r = run("dlc", "verify", *args)
        check(r.returncode == 0 and "all agree" in r.stdout,
              f"{name}: exit {r.returncode} {r.stdout[-600:]} {r.stderr[-400:]}")


def test_guard():
    """Kernels write nowhere but where they may; guarded, they make the same."""
    for name, args in list(VERIFIED.items())[-4:]:
        r = run("dlc", "verify", *args, DLR_DEBUG="guard")
        check(r.returncode == 0 and "all agree" in r.stdout,
              f"{name}, guarded: exit {r.returncode} {r.stdout[-600:]} {r.stderr[-400:]}")


def test_curves():
    """What trains on the device is what trains on the CPU; twice to the same bits; and guarded to the same bits."""
    for name, (args, shapes, classes, mode, far) in (cases.CURVES_TINY if EMULATED else cases.CURVES_QUICK).items():
        batches = f"{TMP}/batches.safetensors"
        gpu_machine.write_batches(batches, shapes, classes, 3)
        lines = {}
        for which, device, environment in (("cpu", "cpu", {}), ("device", DEVICE, {}), ("again", DEVICE, {}),
                                           ("guarded", DEVICE, {"DLR_DEBUG": "guard"})):
            r = subprocess.run([str(PROGRAMS["dlrun"]), *args, *mode, f"--device={device}", f"--replay={batches}",
                                f"--expdir={TMP}/runs"],
                               capture_output=True, text=True, stdin=subprocess.DEVNULL, env={**ENV, **environment},
                               cwd=ROOT)
            lines[which] = [line for line in r.stdout.splitlines() if line.startswith("{")]
            check(r.returncode == 0 and len(lines[which]) == 3,
                  f"{name}, {which}: exit {r.returncode} {r.stderr[-400:]}")
        losses = {which: [json.loads(line)["loss"] for line in found] for which, found in lines.items()}
        check(all(abs(a - b) <= far * abs(a) for a, b in zip(losses["cpu"], losses["device"])), f"{name}: {losses}")
        check(lines["device"] == lines["again"] == lines["guarded"], f"{name}: other bits: {lines}")


def test_samples():
    """Pictures that the device makes of bytes, moved by parts of a point, train to the bits of those that the host
    makes."""
    draw = random.Random(7)
    for name, n in ("data_batch_1.bin", 8), ("test_batch.bin", 4):
        with open(f"{TMP}/{name}", "wb") as f:
            for k in range(n):
                f.write(bytes([k % 10]) + draw.randbytes(3072))
    weights = {}
    for loader in "cifar10", "dali", "dali-lowmem":
        r = run("dlrun", *cases.CLASSIFIER, *cases.batch(2), *cases.MODES["bf16"], "--data=cifar10",
                f"--data_dir={TMP}", "--zoom_range=0.3", "--num_epochs=1",
                f"--data_loader_config={loader}", f"--expdir={TMP}/samples_{loader}",
                f"--save_weights={TMP}/{loader}.safetensors")
        check(r.returncode == 0 and ("the device makes samples" in r.stderr) == (loader != "cifar10"),
              f"{loader}: exit {r.returncode} {r.stderr[-400:]}")
        weights[loader] = pathlib.Path(f"{TMP}/{loader}.safetensors").read_bytes()
    check(len(set(weights.values())) == 1, "samples by the device train to other weights")


def test_counts():
    r = run("dlrun", *(cases.COUNTED_TINY if EMULATED else cases.COUNTED), f"--expdir={TMP}/counted",
            DLR_DEBUG="driver")
    check(r.returncode == 0
          and "driver: graph launches a step 1, synchronisations a step 0, allocations a step 0 " in r.stderr,
          f"exit {r.returncode} {r.stderr[-600:]}")


def dry(*args):
    r = run("dlrun", *args, "--dry_run", "--json")
    check(r.returncode == 0, f"dry run of {args}: exit {r.returncode} {r.stderr[-400:]}")
    return json.loads(r.stdout)


def test_memory():
    """What is predicted is what is in use; a batch that does not fit says so, with what was asked for and what is
    free."""
    model = SMALL if EMULATED else ["models/unet.dl", "--config=base", "--amp_mode=bf16"] + cases.batch(16)
    found = dry(*model)
    r = run("dlc", "bench", *model, "--json", "--steps=3")
    seen = json.loads(r.stdout.splitlines()[-1])
    near = 8 << 20 if EMULATED else 0.01 * seen["device_bytes"]
    check(abs(found["device_bytes_predicted"] - seen["device_bytes"]) <= near,
          f"{found['device_bytes_predicted']} predicted, {seen['device_bytes']} seen")
    few, many = 64, 512  # so many that a sample more takes what it takes
    one, two = (dry(*[a for a in model if "local_batch_size" not in a], *cases.batch(n))["peak_bytes"]
                for n in (few, many))
    batch = int(1.2 * found["device_bytes_total"] / ((two - one) / (many - few)))
    r = run("dlc", "bench", *[a for a in model if "local_batch_size" not in a], *cases.batch(batch), "--steps=1")
    check(r.returncode == 5
          and re.search(r"this run needs [\d.]+ MiB of memory on .*, and [\d.]+ of its [\d.]+ MiB are free, .*most at "
                        r"once touches kernel '\w+' \(.*\.dl:",
                                          r.stderr), f"batch {batch}: exit {r.returncode} {r.stderr[-600:]}")


def test_profile():
    args, shapes, classes, mode, _ = cases.CURVES_TINY["cnn_classifier bf16"]
    batches = f"{TMP}/profiled.safetensors"
    gpu_machine.write_batches(batches, shapes, classes, 4)
    r = run("dlrun", *args, *mode, f"--replay={batches}", f"--run_dir={TMP}/profiled", "--profile")
    tables = list(pathlib.Path(f"{TMP}/profiled").rglob("profile.txt"))
    check(r.returncode == 0 and len(tables) == 1, f"exit {r.returncode} {r.stderr[-400:]}")
    if not tables:
        return
    table = tables[0].read_text()
    check(re.search(r"^ceilings measured here.*: [\d.]+ GFLOP/s and [\d.]+ GB/s", table, re.M)
          and len(re.findall(r"^@\w+ .*(memory|compute) .*\.dl:\d", table, re.M)) > 10, table)
    events = json.loads(tables[0].with_suffix(".json").read_text())
    events = events["traceEvents"] if isinstance(events, dict) else events
    check(sum(e.get("ph") == "X" and e.get("dur", 0) > 0 for e in events) > 40, f"{len(events)} events")


for test in [v for k, v in list(globals().items()) if k.startswith("test_")]:
    test()
finish()
