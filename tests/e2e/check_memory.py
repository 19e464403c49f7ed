"""dlrun's memory: at most 1% over the plan, the batches and the checkpoint's copy that the log states, and 40 MiB,
whatever it does. `dlc verify`'s: seven times the plan of a model whose one weight is nearly all of it, in double
precision and of all that is judged.

check_memory.py DLRUN DLC     from the project's root; takes a GiB of memory and one of disk
"""
import json
import os
import pathlib
import re
import subprocess
import sys

from checks import ENV, SHARE, TMP, check, finish, narrowed

DLRUN, DLC = (os.path.abspath(p) for p in sys.argv[1:])
MIB = 1 << 20


def measure(args):
    """Exit status, output, and the most that was resident at any moment, in bytes."""
    with open(f"{TMP}/out", "w+") as out:
        p = subprocess.Popen(args, stdout=out, stderr=out, stdin=subprocess.DEVNULL, env=ENV)
        _, status, usage = os.wait4(p.pid, 0)
        p.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        return p.returncode, out.read(), usage.ru_maxrss * 1024


def run(*more):
    return measure([DLRUN, UNET, "--data_loader_config=synthetic", "--full_scale=false", "--data_size=32",
                    "--local_batch_size=2", "--Nsamples=2", "--Nsamples_val=2", "--keep_checkpoints=1",
                    f"--expdir={TMP}/runs", *more])


# A U-Net with half of its channels: the weights are 60 MiB, so that one copy more of them is seen.
UNET = f"{TMP}/unet.dl"
with open("models/unet.dl") as whole, open(UNET, "w") as half:
    half.write(narrowed(whole.read(), 2))
LARGE = """model Large():
    input  x: f32[N, I=2048]
    target t: f32[N, F=8]
    h = x |> linear(2048) @a |> tanh |> linear(8) @b
    y = h |> rearrange("n f -> n f") as [N, F]
    output y
    loss = mse_loss(y, t)
"""


def test_verify():
    """No copy of all variables, and of a large weight's step a part at a time: whole-model gradients and updates are
    among what is judged."""
    with open(f"{TMP}/large.dl", "w") as f:
        f.write(LARGE)
    rc, text, _ = measure([DLC, "compile", f"{TMP}/large.dl", "--local_batch_size=2", "--json"])
    plan = json.loads(text[text.index("{"):])["peak_bytes"] if rc == 0 else 0
    rc, text, resident = measure([DLC, "verify", f"{TMP}/large.dl", "--local_batch_size=2", "--json"])
    found = json.loads(text[text.index("{"):]) if rc == 0 else {"judged": {}}
    print(f"verify: {resident / MIB:.1f} MiB resident next to a plan of {plan / MIB:.1f}")
    check(rc == 0 and found["off"] == found["not_judged"] == [] and found["judged"]["updates"] > 100,
          f"verify: exit {rc}: {text[-400:]}")
    check(plan > 60 * MIB and resident <= 7 * plan,
          f"verify: {resident / MIB:.1f} MiB resident next to a plan of {plan / MIB:.1f}")


def judge(what, rc, text, resident):
    stated = re.search(r"kernels a step, ([\d.]+) MiB and (?:(\d+) batch(?:es)? of ([\d.]+) MiB|no batches)(?:, a "
                       r"checkpoint's copy of ([\d.]+) MiB)?", text)
    check(rc == 0 and stated, f"{what}: exit {rc}: {text[-300:] if rc or not stated else 'says what it holds'}")
    if stated:
        plan, n, batch, copy = (float(x or 0) * MIB for x in stated.groups())
        allowed = 1.01 * plan + n / MIB * batch + copy + 40 * MIB
        check((copy > 0) == ("--async_checkpoints=false" not in text), f"{what}: a copy of {copy / MIB:.1f} MiB")
        check(plan > 180 * MIB, f"{what}: the plan has {plan / MIB:.1f} MiB")
        print(f"{what}: {resident / MIB:.1f} MiB resident next to a plan of {plan / MIB:.1f}")
        check(resident <= allowed,
              f"{what}: {resident / MIB:.1f} MiB resident, {allowed / MIB:.1f} allowed: {(resident - plan) / MIB:.1f} "
              "above the plan")


test_verify()
judge("compiling, a step, validation, a checkpoint", *run("--num_epochs=1"))
last = str(next(pathlib.Path(TMP, "runs").rglob("checkpoints/last")))
check(sum(os.path.getsize(f"{last}/{f}") for f in os.listdir(last)) > 180 * MIB, "the checkpoint has all moments")
if SHARE == 1:
    judge("resuming, and another checkpoint", *run("--num_epochs=2", "--resume"))
judge("resuming, and a checkpoint without a copy",
      *run("--num_epochs=3", "--resume", "--async_checkpoints=false", "--show-config"))
judge("initial weights, gradients",
      *run("--num_epochs=1", "--run_num=01", "--enable_benchy", f"--init_weights={last}/model.safetensors",
                                         f"--save_grads={TMP}/g.safetensors"))
check(os.path.getsize(f"{TMP}/g.safetensors") > 60 * MIB, "gradients of all weights")
finish()
