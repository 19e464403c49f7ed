"""bench/gpu end to end on the emulated device, at tiny sizes, so that it works when it meets a GPU; and that it tells
what is wrong.

check_gpu.py BUILD     from the project's root; Python's own library, a C and a C++ compiler (77: there is none)
"""
import json
import os
import shutil
import subprocess
import sys
import types

from checks import ENV, SHARE, TMP, check, finish, turn

BUILD = os.path.abspath(sys.argv[1])
if not any(map(shutil.which, ("c++", "g++", "clang++"))) or not any(map(shutil.which, ("cc", "gcc", "clang"))):
    print("SKIP: no C and C++ compiler")
    sys.exit(77)


def gpu(*args, **environment):
    return subprocess.run(["bench/gpu", "--tiny", "--device=cuda:emulated", *args], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL,
                          env={**ENV, "DLC_BENCH_ENV": "/nonexistent", **environment})


def last(r):
    return r.stdout.strip().splitlines()[-1]


def test_all():
    r = gpu(f"--build={BUILD}", f"--output={TMP}/out")
    check(r.returncode == 0
          and last(r).startswith("gpu: emulated: correctness 1 of 1; curves 1 of 1; cnn_classifier bf16 "),
          f"{r.returncode} {r.stdout} {r.stderr}")
    with open(f"{TMP}/out/gpu-emulated.json") as f:
        found = json.load(f)
    check(found["wrong"] == [] and found["correctness"]["cnn_classifier bf16"]["kernels"] > 20,
          f"{found['correctness']}")
    curve = found["curves"]["cnn_classifier bf16"]
    # a CPU that rounds operands as the device does may come to the same digits
    alike = "avx512_bf16" in open("/proc/cpuinfo").read()
    check(len(curve["losses"]["cpu"]) == 3 and (alike or curve["losses"]["cpu"] != curve["losses"]["cuda:emulated"])
          and curve["apart"] < 1e-2, f"{curve}")
    check(found["graph"]["line"].endswith("graph launches a step 1, synchronisations a step 0, allocations a step 0"),
          f"{found['graph']}")
    speed = found["speed"]["cnn_classifier bf16"]
    check(abs(speed["samples_per_s"] * speed["step_ms"] - 1000) < 1 and 0 < speed["share_of_peak"] < 1
          and speed["first_step_cold_ms"] > speed["first_step_warm_ms"] > 0 and speed["loss"] > 0
          and len(speed["kernel_times"]) > 20
          and all(k["ms"] > 0 and k["floor_ms"] >= 0 for k in speed["kernel_times"]), f"{speed}")
    check(speed["device_bytes"] > speed["device_bytes_before"] + speed["planned_bytes"] and
          abs(speed["device_bytes_predicted"] - speed["device_bytes"]) < 8 << 20, f"{speed}")
    rivals = found["rivals"]
    check("none" in rivals or rivals["cnn_classifier bf16"]["eager"]["samples_per_s"] > 0, f"{rivals}")
    with open(f"{TMP}/out/gpu-emulated.md") as f:
        text = f.read()
    check(all(head in text
              for head in ("# emulated\n", "## Correctness\n", "## Curves\n", "## A step\n", "## Speed\n",
                           "by their gap to the floor", "## PyTorch\n")), text)


def test_questions():
    """Each question is asked of the emulated device, too; one that fails is told, and the others are asked. Of a share
    those that compile much are left out, and two take turns."""
    dear = ("sm_90", "attention_ways", "quick")
    names = ["nccl", *(n for i, n in enumerate(("correctness", "same_bits")) if turn(i)), *(dear if SHARE == 1 else ())]
    r = gpu(f"--build={BUILD}", "--questions", "--json", f"--parts={','.join(names)}")
    found = json.loads(r.stdout) if r.returncode == 0 else {"questions": {}}
    asked = found["questions"]
    if not check(r.returncode == 0 and found["wrong"] == [] and found["commit"] and found["versions"]
                 and set(asked) == set(names), f"{r.returncode} {r.stdout} {r.stderr}"):
        return
    answers = {name: q["answer"] for name, q in asked.items()}
    check(all(q["question"].endswith("?") and q["seconds"] >= 0 for q in asked.values()), f"{asked}")
    if turn(0):
        check(answers["correctness"]["cnn_classifier bf16"]["kernels"] > 20, f"{answers}")
    if turn(1):
        check(answers["same_bits"]["cnn_classifier bf16"]["same"] is True, f"{answers['same_bits']}")
    check(answers["nccl"].get("passed", 0) > 10, f"{answers['nccl']}")
    if SHARE == 1:
        check(all(one["step_ms"] > 0 for one in answers["sm_90"]["cnn_classifier"].values())
              and len(answers["sm_90"]["cnn_classifier"]) == 2, f"{answers['sm_90']}")
        ways = answers["attention_ways"]["head 16"]
        check(any(w["taken"] for w in ways) and len({w["way"] for w in ways}) > 1, f"{ways}")
        check(answers["quick"]["cnn_classifier bf16"]["samples_per_s"] > 0, f"{answers}")


def test_questions_wrong():
    r = gpu(f"--build={fake_build('mute', 'exit 5')}", "--questions", "--json")
    found = json.loads(r.stdout)
    check(r.returncode == 1 and len(found["questions"]) == 6 and len(found["wrong"]) >= 5,
          f"{r.returncode} {found['wrong']}")


def test_quick_question():
    """The quick question asks for quick runs, and leaves the options as they are for the parts after it."""
    sys.path.insert(0, "bench")
    import gpu_questions
    options, asked = types.SimpleNamespace(tiny=False, quick=False, limit=1e9), []
    bench = types.SimpleNamespace(o=options, began=0, speed_of=lambda name, mode,
                                  quick: asked.append((name, quick)) or {})
    found = gpu_questions.quick(bench)
    check(len(found) == len(asked) > 2 and all(quick for _, quick in asked), f"{asked}")
    check(options == types.SimpleNamespace(tiny=False, quick=False, limit=1e9), f"{options}")


def test_kernels_alone():
    """On a device `dlc verify` judges kernels alone, in the part and in the question: what passes make needs no
    device."""
    log = f"{TMP}/words.log"
    build = fake_build("words", f"echo \"$@\" >>{log}; exit 5")
    gpu(f"--build={build}", f"--output={TMP}/words.out", "--parts=correctness")
    gpu(f"--build={build}", "--questions", "--json", "--parts=correctness")
    with open(log) as f:
        verified = [line.split() for line in f if line.startswith("verify ")]
    check(len(verified) == 2 and all("--kernels" in words for words in verified), f"{verified}")


def fake_build(name, script):
    """A build whose programs answer --version, and else do as the script says."""
    folder = f"{TMP}/{name}/cli"
    os.makedirs(folder)
    for program in ("dlc", "dlrun"):
        with open(f"{folder}/{program}", "w") as f:
            f.write(f"#!/bin/sh\n[ \"$1\" = --version ] && exec {BUILD}/cli/{program} --version\n{script}\n")
        os.chmod(f"{folder}/{program}", 0o755)
    return os.path.dirname(folder)


def test_wrong():
    """Programs that fail, or print what is no result: all of it is told, and the status is 1."""
    build = fake_build("failing", "echo 'dlc: error: a kernel failed' >&2; exit 5")
    r = gpu(f"--build={build}", f"--output={TMP}/failing.out", "--parts=correctness,curves,graph,speed")
    check(r.returncode == 1
          and last(r).startswith("gpu: emulated: 4 WRONG, first: correctness, cnn_classifier bf16: exit 5"),
          f"{r.returncode} {r.stdout} {r.stderr}")
    with open(f"{TMP}/failing.out/gpu-emulated.md") as f:
        text = f.read()
    check(text.count("a kernel failed") >= 4, text)
    build = fake_build("silent",
                       "echo '  OFF  @train_k3'; echo '  train  3 kernels, 5 results: at most 9.50 of what'; echo "
                       "'{}'; exit 0")
    r = gpu(f"--build={build}", f"--output={TMP}/silent.out", "--parts=correctness,curves,graph,speed")
    check(r.returncode == 1 and "WRONG correctness, cnn_classifier bf16: 1 off: @train_k3" in r.stdout
          and "WRONG curves, the part itself: KeyError" in r.stdout
          and "WRONG graph" in r.stdout and "WRONG speed" in r.stdout, f"{r.returncode} {r.stdout} {r.stderr}")


def test_left_out():
    r = gpu(f"--build={fake_build('late', 'exit 9')}", f"--output={TMP}/late.out", "--parts=correctness,speed",
            "--limit=0.000001")
    check(r.returncode == 0 and r.stdout.count("left out: ") == 2 and "correctness 0 of 1" in last(r),
          f"{r.returncode} {r.stdout} {r.stderr}")


def test_refused():
    for args in (["--parts=all"], ["--device=cpu"]):
        check(gpu(*args).returncode == 2, f"{args}")
    r = subprocess.run([sys.executable, "bench/gpu", f"--build={BUILD}", f"--output={TMP}/none", "--device=cuda:99"],
                       capture_output=True, text=True, env=ENV)
    if "no driver" in r.stdout:
        check(r.returncode == 5 and last(r).startswith("gpu: nothing was measured: no driver (libcuda.so.1)"),
              f"{r.returncode} {r.stdout} {r.stderr}")


for test in [v for k, v in list(globals().items()) if k.startswith("test_")]:
    test()
finish()
