#!/usr/bin/env python3
"""The rival: training steps of a model in PyTorch, as fast as we know to make it. Called by bench/step and bench/gpu.

rival.py MODEL [--batch 1] [--threads 2] [--steps 5] [--warm 2] [--fused] [--channels-last] [--compile] [--amp bf16]
         [--device cuda] [--graph] [--tf32]

Prints one line of JSON. tcmalloc is preloaded by the caller (LD_PRELOAD), since it cannot be taken later.
"""
import argparse
import functools
import json
import resource
import statistics
import sys
import time

import torch

from rival_models import MODELS, to_channels_last


def captured(work):
    """All of a step as one CUDA graph (docs.pytorch.org/docs/stable/notes/cuda.html: whole-network capture)."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(5):
            work()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = work()

    def replay():
        graph.replay()
        return loss

    return replay


def adam(o, parameters, decay):
    """Adam of these parameters. PyTorch fuses the update of real ones alone."""
    groups = [{"params": [p for p in parameters if p.is_complex() == is_complex],
               "fused": True if o.fused and not is_complex else None} for is_complex in (False, True)]
    return torch.optim.Adam([group for group in groups if group["params"]], lr=1e-4, weight_decay=decay,
                            **({"capturable": True} if o.graph else {}))


def in_a_row(run, steps):
    """Steps on a GPU, nobody waiting between them; each counts as its share of three rounds."""
    found = []
    for _ in range(3):
        torch.cuda.synchronize()
        start, cpu = time.perf_counter(), time.process_time()
        for _ in range(steps):
            loss = run()
        torch.cuda.synchronize()
        found.append((1e3 * (time.perf_counter() - start) / steps, loss.item(),
                      1e3 * (time.process_time() - cpu) / steps))
    return found


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("model", choices=MODELS)
    for name, value in (("batch", 1), ("threads", 2), ("steps", 5), ("warm", 2)):
        options.add_argument(f"--{name}", type=int, default=value)
    for name in ("fused", "channels-last", "compile", "graph", "tf32"):
        options.add_argument(f"--{name}", action="store_true")
    options.add_argument("--amp", choices=["bf16", "fp16"], help="torch.autocast; fp16 with a GradScaler")
    options.add_argument("--device", default="cpu", help="cpu, cuda, cuda:N")
    o = options.parse_args()

    cuda = o.device.startswith("cuda")
    torch.set_num_threads(o.threads)
    torch.manual_seed(0)
    if cuda:
        torch.cuda.set_device(o.device if ":" in o.device else 0)
        torch.backends.cudnn.benchmark = True
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = o.tf32
    model, batch, decay = MODELS[o.model](o.batch)
    model, batch = model.to(o.device), {name: v.to(o.device) for name, v in batch.items()}
    if o.channels_last:
        batch = to_channels_last(model, batch)
    if o.compile and hasattr(model, "sets"):
        sys.exit(f"rival.py: {o.model} has several losses, which are not compiled as one")
    loss_of = torch.compile(model.loss) if o.compile else getattr(model, "loss", None)
    # each loss has an optimizer for its parameters; most models have one
    sets = model.sets() if hasattr(model, "sets") else {"loss": list(model.parameters())}
    losses_of = getattr(model, "losses", lambda **inputs: {"loss": lambda: loss_of(**inputs)})
    optimizers = {name: adam(o, parameters, decay) for name, parameters in sets.items()}
    kind = "cuda" if cuda else "cpu"
    low = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(o.amp)
    autocast = functools.partial(torch.autocast, kind, dtype=low or torch.bfloat16, enabled=low is not None)
    scaler = torch.amp.GradScaler(kind) if o.amp == "fp16" else None

    def work():
        for optimizer in optimizers.values():
            optimizer.zero_grad(set_to_none=True)
        with autocast():
            losses = losses_of(**batch)
        for name, optimizer in optimizers.items():
            for other, parameters in sets.items():  # no gradients for others' parameters
                for p in parameters if len(sets) > 1 else ():
                    p.requires_grad_(other == name)
            with autocast():
                loss = losses[name]()
            if scaler:
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            else:
                loss.backward()
                optimizer.step()
        return loss

    if o.graph:
        run = captured(work)
    else:
        run = work

    def step():
        start, cpu = time.perf_counter(), time.process_time()
        loss = run().item()
        return 1e3 * (time.perf_counter() - start), loss, 1e3 * (time.process_time() - cpu)

    first = step()[0]
    for _ in range(o.warm - 1):
        step()
    runs = in_a_row(run, o.steps) if cuda else [step() for _ in range(o.steps)]
    print(json.dumps({
        "torch": torch.__version__, "parameters": sum(p.numel() for p in model.parameters()),
        "step_ms": statistics.median(r[0] for r in runs), "step_ms_min": min(r[0] for r in runs),
        "step_cpu_ms_min": min(r[2] for r in runs), "first_ms": first,
        "loss": runs[-1][1], **({"device_bytes": torch.cuda.max_memory_reserved()} if cuda else {}),
        "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }))


main()
