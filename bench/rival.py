#!/usr/bin/env python3
"""The rival: training steps of a model in PyTorch, as fast as we know to make it. Called by bench/step.

rival.py MODEL [--batch 1] [--threads 2] [--steps 5] [--warm 2] [--fused] [--channels-last] [--compile] [--amp bf16]

Prints one line of JSON. tcmalloc is preloaded by the caller (LD_PRELOAD), since it cannot be taken later.
"""
import argparse
import json
import resource
import statistics
import time

import torch

from rival_models import MODELS


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("model", choices=MODELS)
    for name, value in (("batch", 1), ("threads", 2), ("steps", 5), ("warm", 2)):
        options.add_argument(f"--{name}", type=int, default=value)
    for name in ("fused", "channels-last", "compile"):
        options.add_argument(f"--{name}", action="store_true")
    options.add_argument("--amp", choices=["bf16", "fp16"], help="torch.autocast; fp16 with a GradScaler")
    o = options.parse_args()

    torch.set_num_threads(o.threads)
    torch.manual_seed(0)
    model, loss_of, x, t, decay = MODELS[o.model](o.batch)
    if o.channels_last:
        last = torch.channels_last_3d if x.dim() == 5 else torch.channels_last
        model, x = model.to(memory_format=last), x.to(memory_format=last)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, weight_decay=decay, **({"fused": True} if o.fused else {}))
    call = torch.compile(model) if o.compile else model
    low = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(o.amp)
    scaler = torch.amp.GradScaler("cpu", enabled=o.amp == "fp16")

    def step():
        start, cpu = time.perf_counter(), time.process_time()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=low, enabled=low is not None):
            loss = loss_of(call(x), t)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return 1e3 * (time.perf_counter() - start), loss.item(), 1e3 * (time.process_time() - cpu)

    first = step()[0]
    for _ in range(o.warm - 1):
        step()
    runs = [step() for _ in range(o.steps)]
    print(json.dumps({
        "torch": torch.__version__, "parameters": sum(p.numel() for p in model.parameters()),
        "step_ms": statistics.median(r[0] for r in runs), "step_ms_min": min(r[0] for r in runs),
        "step_cpu_ms_min": min(r[2] for r in runs), "first_ms": first,
        "loss": runs[-1][1], "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }))


main()
