"""Models on a GPU, as far as a machine without one can tell: every kernel becomes machine code, reads as it should,
and, emulated on the CPU, does what the interpreter does.

check_cuda.py DLC [long]     from the project's root; Python's own library, NVRTC and a C++ compiler (77: neither is
                             there)
"""
import json
import os
import re
import shutil
import subprocess
import sys

from checks import CACHE, DRAW, SHARE, check, drawn, finish, turn

DLC, LONG = os.path.abspath(sys.argv[1]), sys.argv[2:] == ["long"]
# bytes of shared memory of a block, by NVIDIA's table of compute capabilities
ARCHITECTURES = {"sm_80": 163 << 10, "sm_86": 99 << 10, "sm_89": 99 << 10, "sm_90a": 227 << 10, "sm_100": 227 << 10,
                 "sm_120": 99 << 10}
VIT = ["models/vit.dl", "--config=base", "--img_size=[16,24]", "--n_in_channels=3", "--n_out_channels=3",
       "--patch_size=4", "--embed_dim=48",
       "--depth=2", "--num_heads=2", "--local_batch_size=2"]
RESNET = ["models/resnet.dl", "--small=true", "--widths=[16,24,32,48]", "--depths=[1,1,1,1]", "--strides=[2,2,2,2]",
          "--expand=1", "--n_classes=10",
          "--input_shape=[32,32,3]", "--local_batch_size=4"]
CLASSIFIER = ["models/cnn_classifier.dl", "--input_shape=[32,32,3]", "--local_batch_size=4"]
UNET = ["models/unet.dl", "--config=tiny", "--data_size=32", "--local_batch_size=1"]
CONVNEXT = ["models/convnext.dl", "--poles=reflect", "--amp_mode=fp16"]
CONVNEXT_SMALL = CONVNEXT + ["--img_size=[24,32]", "--n_in_channels=3", "--n_out_channels=2", "--embed_dim=48",
                             "--depth=1"]
SMALL = [VIT + ["--amp_mode=fp16", "--dropout=0.1"], RESNET + ["--amp_mode=bf16"], CLASSIFIER, CONVNEXT_SMALL]
LARGE = [UNET, UNET + ["--amp_mode=bf16"], VIT, RESNET, ["models/cnn_regressor.dl", "--config=test"],
         ["models/unet.dl", "--config=base", "--local_batch_size=64", "--amp_mode=bf16"],
         ["models/vit.dl", "--config=base", "--local_batch_size=16", "--amp_mode=bf16"],
         ["models/vit.dl", "--config=base", "--local_batch_size=16", "--amp_mode=fp16"],
         ["models/resnet.dl", "--n_classes=100", "--input_shape=[224,224,3]", "--local_batch_size=256",
          "--amp_mode=bf16"],
         CONVNEXT,
         ["models/resunet.dl", "--amp_mode=fp16", "--data_size=16"],
         ["models/resunet.dl", "--amp_mode=fp16", "--data_size=16", "--widths=[8,16,32]"]]
# The optimisers' steps, each with all that it may keep.
STEPS = [["tests/data/small.dl", "--data_size=8", "--batch_size=2", f"--optimizer={{name: {name}}}", *more]
         for name, *more in (["RMSprop, centered: true, momentum: 0.9", "--weight_decay=0.1"],
                             ["NAdam", "--amp_mode=fp16"],
                   ["Adadelta"])]
VERIFIED = [UNET, UNET + ["--amp_mode=bf16"], VIT, VIT + ["--tf32=false"], RESNET] if LONG else SMALL


def dlc(*args):
    return subprocess.run([DLC, *args], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                          env={**os.environ, **CACHE})


def test_machine_code():
    """Every kernel is compiled, has its source lines, and spills nothing; of a share every second model, for one
    architecture, in turn."""
    for number, model in enumerate(LARGE if LONG else SMALL):
        for architecture in drawn(ARCHITECTURES, number // 2) if turn(number) else ():
            r = dlc("compile", *model, f"--target=cuda:{architecture}", "--json")
            where = f"{' '.join(model)} for {architecture}"
            check(r.returncode == 0, f"{where}: exit {r.returncode} {r.stderr[-400:]}")
            if r.returncode:
                continue
            found = json.loads(r.stdout)
            check(len(found["kernel_table"]) >= 5 and (found["cast_kernels"] == 0 or "models/resunet.dl" in model),
                  f"{where}: {found['cast_kernels']} kernels that only cast")
            for k in found["kernel_table"]:
                check(0 < k["registers"] <= 255 and k["spill_bytes"] == 0
                      and k["shared_bytes"] <= ARCHITECTURES[architecture] and re.search(r"\.dl:\d+", k["where"]),
                      f"{where}: {k}")


def test_text():
    """What --dump=source prints: no header, source lines for each kernel, PTX in functions named kd_* alone."""
    r = dlc("compile", *VIT, "--amp_mode=bf16", "--target=cuda:sm_90a", "--dump=source")
    kernels = len(re.findall(r"__global__", r.stdout))
    check(r.returncode == 0 and kernels >= 10, f"{kernels} kernels: {r.stderr[-300:]}")
    check(not re.search(r"^ *#include", r.stdout, re.M), "a header is included")
    # a line for each kernel that the function serves
    served = re.findall(r"(?:^/\* @(?:\w+ .*vit\.dl:\d+|dl_feed ).*\n)+", r.stdout, re.M)
    check(len(served) == kernels and sum(s.count("\n") for s in served) > kernels,
          "a function without source lines, or none that is shared")
    function = ""
    for line in r.stdout.splitlines():
        function = line if re.match(r"[^ \t].*\(", line) else function
        check("asm" not in line or "kd_" in function, f"PTX in {function}")


def test_sources():
    """More compiling threads get more sources; equal numbers get the same, and nonsense is refused."""
    def sources(*threads):
        r = dlc("compile", *VIT, "--target=cuda:sm_90a", "--dump=sources", *threads)
        lines = re.findall(r"^source \d+: \d+ characters, \d+ kernels$", r.stdout, re.M)
        check(r.returncode == 0 and lines and len(lines) == r.stdout.count("\n"), f"{r.stdout} {r.stderr}")
        return lines
    few, many = sources("--compile_threads=2"), sources("--compile_threads=64")
    check(len(many) > len(few) and few == sources("--compile_threads=4"), f"{len(few)} and {len(many)} sources")
    r = dlc("compile", *VIT, "--target=cuda:sm_90a", "--dump=sources", "--compile_threads=0")
    check(r.returncode == 2 and "whole number from 1 to" in r.stderr, f"exit {r.returncode} {r.stderr}")


def test_table_of_a_cpu():
    """Each kernel's place and traffic, and its kind: the loss is a reduction, layers are contractions."""
    r = dlc("compile", "tests/data/small.dl", "--data_size=16", "--json")
    table = json.loads(r.stdout)["kernel_table"]
    check(table and all(k["where"] and k["bytes"] > 0 and "registers" not in k for k in table), f"{table[:2]}")
    check({"contraction", "reduction"} <= {k["kind"] for k in table} <= {"contraction", "reduction", "pointwise"},
          f"kinds {sorted(k['kind'] for k in table)}")
    r = dlc("compile", *VIT, "--json")
    kinds = [k["kind"] for k in json.loads(r.stdout)["kernel_table"]]
    check({"flash_attention", "flash_attention_grad"} <= set(kinds) and all(kinds), f"kinds {sorted(set(kinds))}")


def test_emulated():
    """All of them; of a share every second model, and every second step, in turn."""
    for model in VERIFIED + STEPS if SHARE == 1 else VERIFIED[DRAW % 2::2] + STEPS[DRAW % 2::2]:
        r = dlc("verify", *model, "--target=cuda:sm_90a", "--device=cuda:emulated")
        check(r.returncode == 0 and "all agree" in r.stdout,
              f"{' '.join(model)}: exit {r.returncode} {r.stdout[-400:]} {r.stderr[-400:]}")


def test_tf32():
    """It is in the kernels' text unless it is not wanted."""
    for args, env, wanted in (([], {}, True), (["--tf32=false"], {}, False),
                              ([], {"NVIDIA_TF32_OVERRIDE": "0"}, False)):
        os.environ.update(env)
        r = dlc("compile", *CLASSIFIER, "--target=cuda:sm_90a", "--dump=kernel", *args)
        check(r.returncode == 0 and (" in tf32 : f32" in r.stdout) == wanted,
              f"{args} {env}: {r.stdout[:300]} {r.stderr}")
        for name in env:
            del os.environ[name]
    r = dlc("compile", *CLASSIFIER, "--dump=kernel")
    check("tf32" not in r.stdout, "a CPU's kernels in TF32")


test_tf32()
test_text()
test_sources()
test_table_of_a_cpu()
nvrtc = dlc("compile", "tests/data/small.dl", "--data_size=16", "--target=cuda:sm_90a", "--json")
if nvrtc.returncode == 0:
    test_machine_code()
elif "NVRTC" not in nvrtc.stderr:
    check(False, f"a small model: {nvrtc.stderr}")
if any(map(shutil.which, ("c++", "g++", "clang++"))):
    test_emulated()
elif nvrtc.returncode:
    print("SKIP: neither NVRTC nor a C++ compiler")
    sys.exit(77)
finish()
