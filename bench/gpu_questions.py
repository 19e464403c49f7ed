"""What only a device can say: the open questions of the GPU's kernels, each by itself, in under eight minutes together.

bench/gpu --questions runs them. A question is a function below of a Bench (bench/gpu) and returns what was found, a
dictionary; its first docstring line is the question. One that fails, or for which no time is left, says so, and the
others are asked.
"""
import hashlib
import json
import re
import time

import gpu_cases as cases
import gpu_machine
from machine import ROOT

LIMIT = 480  # seconds for all of them


def bench(b, args, name, steps, **environment):
    """`dlc bench`'s figures of a model's step and of its kernels."""
    status, text, said = b.run([b.programs["dlc"], "bench", *args, f"--device={b.o.device}", "--json", "--kernels",
                                f"--steps={steps}"], 240, **environment)
    lines = [line for line in text.splitlines() if line.startswith("{")]
    if status or not lines:
        return b.fault("questions", name, b.why(status, said))
    return json.loads(lines[-1])


def attends(where):
    """Whether a kernel's places name the line of models/vit.dl that calls attention."""
    lines = [f"models/vit.dl:{i}"
             for i, line in enumerate((ROOT / "models/vit.dl").read_text().splitlines(), 1) if "attention(" in line]
    return bool(set(lines) & set(where.split()))


TINY_VIT = ["models/vit.dl", "--config=base", "--img_size=[8,12]", "--n_in_channels=2", "--n_out_channels=2",
            "--patch_size=4", "--depth=1"]


def vit(b, heads, size, *shape, mode="bf16"):
    """A ViT of so many heads of that size, at the sizes of its own configuration or at `shape`; on the emulated device
    a tiny one."""
    if b.o.tiny:
        return TINY_VIT + ["--num_heads=1", "--embed_dim=16", *cases.batch(1), *cases.MODES[mode]]
    return ["models/vit.dl", "--config=base", *shape, f"--num_heads={heads}", f"--embed_dim={heads * size}",
            *cases.batch(16), *cases.MODES[mode]]


def sm_90(b):
    """How fast is code for sm_90, which is made as for sm_80, the nearest thing to an A100, next to code for sm_90a?"""
    models = {"cnn_classifier": cases.SPEED_TINY["cnn_classifier"]} if b.o.tiny else cases.SPEED
    found = {}
    for name, (args, _, size) in models.items():
        for target in ("cuda:sm_90", "cuda:sm_90a"):
            one = bench(b, args + cases.batch(size) + cases.MODES["bf16"] + [f"--target={target}"], f"sm_90, {name}",
                        2 if b.o.tiny else 10)
            found.setdefault(name, {})[target] = one if "wrong" in one else {"step_ms": one["step_ms"],
                                                                             "share_of_peak": one["share_of_peak"]}
    return found


def attention_ways(b):
    """Which way of attention is the fastest at each head size, and what does each take?"""
    found, small = {}, "--img_size=[176,352]"
    forms = {f"head {size}": (size, "bf16", small) for size in (48, 32, 64, 96, 128)}
    forms |= {"head 48, 4,050 tokens": (48, "bf16"), "head 48, dropout": (48, "bf16", small, "--dropout=0.1"),
              "head 48, fp16": (48, "fp16", small)}
    for form, (size, mode, *more) in {"head 16": (16, "bf16")}.items() if b.o.tiny else forms.items():
        args = vit(b, 8, size, "--depth=1", *more, mode=mode)
        status, _, said = b.run([b.programs["dlc"], "bench", *args, f"--device={b.o.device}", "--tune=true",
                                 f"--steps={2 if b.o.tiny else 10}", "--json"],
                                60, DLR_DEBUG="tune")
        ways = re.findall(r"^tune: (\S+) (.*?): (differs|[\d.]+ us) as (.*?)(, taken)?$", said, re.M)
        found[form] = ([{"kernel": k, "time": t, "way": w, "taken": bool(taken)}
                        for k, where, t, w, taken in ways if attends(where)] if status == 0
                       else b.fault("questions", f"attention_ways, {form}", b.why(status, said)))
        if status == -1:  # it is stuck: time for the other questions
            break
    return found


def correctness(b):
    """Are all models right in bf16, fp16 and TF32?"""
    chosen = cases.VERIFY_TINY if b.o.tiny else {n: a
                                                 for n, a in cases.VERIFY.items()
                                                 if "88x176" not in n and "64^3" not in n}
    return b.verify_all(chosen)


def quick(b):
    """What are the samples a second (bench/gpu --quick)?"""
    return {f"{name} bf16": b.speed_of(name, "bf16", quick=not b.o.tiny)
            for name in (cases.SPEED_TINY if b.o.tiny else cases.SPEED) if not late(b)}


def same_bits(b):
    """Are the weights after some steps the same bits twice?"""
    found = {}
    for name, (args, shapes, classes, mode, _) in (cases.CURVES_TINY if b.o.tiny else cases.CURVES_QUICK).items():
        batches, hashes = b.tmp / "bits.safetensors", []
        gpu_machine.write_batches(batches, shapes, classes, 3)
        for turn in range(2):
            weights = b.tmp / f"weights{turn}.safetensors"
            status, _, said = b.run([b.programs["dlrun"], *args, *mode, f"--device={b.o.device}", f"--replay={batches}",
                                     f"--save_weights={weights}",
                                     f"--expdir={b.tmp / 'bits'}"], 120)
            if status:
                return b.fault("questions", f"same_bits, {name}", b.why(status, said))
            hashes.append(hashlib.sha256(weights.read_bytes()).hexdigest())
        found[name] = {"same": hashes[0] == hashes[1], "sha256": hashes}
        if hashes[0] != hashes[1]:
            b.fault("questions", f"same_bits, {name}", "two runs leave other weights")
    return found


def nccl(b):
    """Does NCCL with one rank work, in a stream and captured into a graph that is launched twice?"""
    folder = b.programs["dlc"].parent.parent
    check = folder / "tests/ranks/comm_check"
    if not check.exists():
        return {"left_out": f"{check} is not built"}
    standin = next(folder.glob("tests/ranks/*nccl_standin.so"), None) if b.emulated else None
    status, text, said = b.run([check, "nccl" if b.emulated else "cuda", "1"], 60,
                               **({"DLR_NCCL": str(standin)} if standin else {}))
    counted = re.findall(r"^(\d+) passed, 0 failed", text, re.M)
    if status == 77:
        return {"left_out": text.strip()[-300:]}
    if status or not counted or "captured" not in text:
        return b.fault("questions", "nccl", (text + said).strip()[-400:])
    return {"passed": int(counted[-1])}


QUESTIONS = (attention_ways, quick, same_bits, nccl, sm_90, correctness)


def late(b):
    return time.monotonic() - b.began > b.o.limit


def ask(b):
    """(name, {question, seconds, answer}) of each in --parts, or of all."""
    b.o.limit = b.o.limit or LIMIT
    for question in (q for q in QUESTIONS if q.__name__ in b.o.parts):
        began, text = time.monotonic(), question.__doc__.splitlines()[0]
        try:
            answer = {"left_out": f"{b.o.limit:.0f} s are over"} if late(b) else question(b)
        except Exception as e:  # whatever it is, the other questions are asked
            answer = b.fault("questions", question.__name__, f"{type(e).__name__}: {e}")
        b.say(f"{question.__name__}: {json.dumps(answer)[:300]}")
        yield question.__name__, {"question": text, "seconds": round(time.monotonic() - began, 1), "answer": answer}
