#!/usr/bin/env python3
"""check_budget.py BUILD: memory_budget. Steps that fit by kernels that run again take no more than the budget and
compute the same bits, on CPUs, emulated GPUs and ranks; a budget that is too small is refused with what helps."""
import json
import pathlib
import re
import subprocess
import sys

from checks import ENV, TMP, check, drawn, finish

BUILD = pathlib.Path(sys.argv[1]).resolve()
ENV.setdefault("DLR_CUDA_EMULATOR", str(BUILD / "tests/emulator/libcuda_emulator.so"))
DLC, DLRUN = str(BUILD / "cli/dlc"), str(BUILD / "cli/dlrun")
PLAIN = """model Plain(depth=8):
    input x: f32[N, C=4, H=16, W=16]
    target t: f32[N, C=4, H=16, W=16]
    h = x
    for i in range(depth): h = h |> conv(16, 3, pad=1) @a.{i} |> relu
    y = h |> conv(4, 3, pad=1) @last
    output y
    loss = mse_loss(y, t)
"""
# Norms with running statistics, residuals, dropout; attention; a recurrence; a frozen share of weights.
NORMS = """module Block(c)(x):
    y = x |> conv(c, 3, pad=1, bias=false) @a |> batch_norm @n |> gelu |> dropout(0.3)
    return y + (x |> group_norm(4) @g |> conv(c, 1) @b |> silu)

model Norms(depth=4):
    input x: f32[N, C=8, H=12, W=12]
    target t: f32[N, C=8, H=12, W=12]
    h = x
    for i in range(depth): h = h |> Block(8) @block.{i}
    y = h |> conv(8, 1) @last
    output y
    loss = mse_loss(y, t) + 0.1 * mean(abs(y))
"""
TOKENS = """module Block(e)(x):
    k = x |> layer_norm @ln |> linear(e) @k
    q = x |> linear(e) @q
    h = x + (attention(q, k, k, 2) |> linear(e) @o)
    return h + (h |> layer_norm @lm |> linear(4 * e) @up |> gelu |> linear(e) @down)

model Tokens(depth=4):
    input x: f32[N, T=24, E=16]
    target t: f32[N, T=24, E=16]
    h = x
    for i in range(depth): h = h |> Block(16) @block.{i}
    y = h |> lstm(16) @cell |> linear(16) @last
    output y
    loss = mse_loss(y, t)
"""
MODELS = {"plain": (PLAIN, []), "norms": (NORMS, ["--optimizer=sgd", "--momentum=0.9"]), "tokens": (TOKENS, []),
          "bf16": (PLAIN, ["--amp_mode=bf16"]), "clipped": (NORMS, ["--clip_grad_norm=0.1"])}
for name, (text, _) in MODELS.items():
    pathlib.Path(TMP, f"{name}.dl").write_text(text)


def run(*words):
    return subprocess.run([str(w) for w in words], cwd=TMP, text=True, capture_output=True, stdin=subprocess.DEVNULL,
                          env=ENV)


def figures(name, *words):
    """What `dlrun --dry_run` says of the step, or the run that fails."""
    r = run(DLRUN, f"{name}.dl", "--local_batch_size=16", "--data_loader_config=synthetic", "--dry_run", "--json",
            *MODELS[name][1], *words)
    return json.loads(r.stdout) if r.returncode == 0 else r


def trained(name, number, *words):
    """Weights and the optimizer's state after three steps."""
    r = run(DLRUN, f"{name}.dl", "--data_loader_config=synthetic", "--Nsamples=48", "--Nsamples_val=16",
            "--local_batch_size=16", "--num_epochs=1", f"--expdir={TMP}/{name}{number}", *MODELS[name][1], *words)
    check(r.returncode == 0, f"{name} {words}: {r.stderr[-300:]}")
    return [p.read_bytes() for p in sorted(pathlib.Path(TMP, f"{name}{number}").rglob("*.safetensors"))
            if p.name in ("model.safetensors", "optimizer.safetensors")]


def tensors(files):
    """Their numbers, without the header, which holds the configuration."""
    return [f[8 + int.from_bytes(f[:8], "little"):] for f in files]


def least_of(name, *words):
    """The budget that the refusal of a byte names."""
    r = figures(name, "--memory_budget=1", *words)
    said = re.search(r"memory_budget: a step takes ([\d.]+) MiB, even with kernels that run again, and the budget is "
                     r"0.0 MiB: a smaller local_batch_size takes less", getattr(r, "stderr", ""))
    check(said and r.returncode == 5, f"{name} {words}: one byte: {r}")
    return int(float(said[1]) * 2**20) if said else 1 << 40


def compare(name, device="cpu"):
    on = f"--device={device}"
    whole, least = figures(name, on)["peak_bytes"], least_of(name, on)
    check(least < 0.9 * whole, f"{name}, {device}: {least} bytes are the least, of {whole}")
    want = tensors(trained(name, f"whole_{device[:3]}", on))
    check(len(want) == 2 and len(want[0]) > 1000, f"{name}, {device}: weights and state")
    for i, budget in enumerate((whole, (whole + least) // 2, least)):
        f = figures(name, on, f"--memory_budget={budget}")
        if not check(isinstance(f, dict), f"{name}, {device}: {budget} bytes: {f}"):
            continue
        check(f["peak_bytes"] <= budget, f"{name}, {device}: {f['peak_bytes']} bytes, and {budget} are allowed")
        got = tensors(trained(name, f"{i}_{device[:3]}", on, f"--memory_budget={budget}"))
        check(got == want, f"{name}, {device}, {budget} bytes: other bits")


for name in drawn(sorted(MODELS), 2):
    compare(name)
for name in drawn(["plain", "norms"]):
    compare(name, "cuda:emulated")

# As dlc compile prints it; and of two ranks, whose sums lie in buckets.
for ranks in ([], ["--ranks=2"]):
    words = [DLC, "compile", "plain.dl", "--local_batch_size=16", "--json", *ranks]
    whole = json.loads(run(*words).stdout)
    r = run(*words, f"--memory_budget={whole['peak_bytes'] * 3 // 4}")
    f = json.loads(r.stdout) if r.returncode == 0 else {}
    check(whole["repeated_kernels"] == 0 < f.get("repeated_kernels", 0) and f["predicted_ms"] > whole["predicted_ms"]
          and f["peak_bytes"] <= whole["peak_bytes"] * 3 / 4, f"{ranks}: three quarters: {r.stdout[:300]} {r.stderr}")
said = run(*words[:-2], f"--memory_budget={whole['peak_bytes'] * 3 // 4}").stdout
check(re.search(r"^  memory budget   \d+ kernels run again in the backward pass$", said, re.M), said)
for budget, what in (("much", "not 'much'"), ("0", "not '0'"), ("-1MiB", "not '-1MiB'")):
    r = figures("plain", f"--memory_budget={budget}")
    check(getattr(r, "returncode", 0) == 2 and "memory_budget must be a size such as 8GiB" in r.stderr
          and what in r.stderr, f"memory_budget={budget}: {r}")
finish()
