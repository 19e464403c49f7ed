#!/usr/bin/env python3
"""Exports one model of the lists, with what PyTorch computes of it.   library_export.py OUT LIBRARY NAME

OUT/model.pt2, OUT/batch.safetensors (inputs x.0 and the target t.0 of a replay), OUT/info.json, and in
OUT/truth.safetensors loss and all gradients of one training step in float64, and the outputs in evaluation mode as
"predicted", "predicted.1" and so on. The loss is that of the first output. OUT/info.json has the seconds that PyTorch
takes for a step of float32 with one thread.
"""
import json
import pathlib
import sys
import time
import unittest.mock
import warnings

import torch
from safetensors.torch import save_file
from torch import nn
from torch.utils import _pytree

from library_more import LIBRARIES
import library_science  # noqa: F401 (further lists)
import library_written_shared  # noqa: F401

warnings.filterwarnings("ignore")
CHANCES = ("p", "drop_prob", "drop_rate", "dropout", "dropout_p", "attention_dropout", "layerdrop", "attn_drop_rate",
           "dropout_rate", "drop_path", "attn_dropout", "dropout_prob", "drop_connect_rate", "_drop_connect_rate")


def without_chance(model):
    """Every rate of dropping is 0: one step has one answer."""
    for m in model.modules():
        for name in CHANCES:
            if isinstance(m.__dict__.get(name), float):
                setattr(m, name, 0.0)
    return model


def outputs(model, inputs):
    """All tensors that it gives. inputs: (positions, keywords)."""
    return [y for y in _pytree.tree_leaves(model(*inputs[0], **inputs[1])) if torch.is_tensor(y)]


def step(model, inputs, target):
    model.zero_grad()
    y = outputs(model, inputs)[0]
    loss = nn.functional.mse_loss(y, target)
    loss.backward()
    grads = {k: p.grad for k, p in model.named_parameters(remove_duplicate=True) if p.grad is not None}
    return {"": y.detach(), "loss": loss.detach().reshape(1),
            **{f"grad.{k}": torch.view_as_real(g) if g.is_complex() else g for k, g in grads.items()}}


def all_of(make, inputs, target, default):
    """A training step in float64, and what the model predicts before it. default: of tensors that it makes itself."""
    models = [doubled(make()[0]) for _ in range(2)]
    try:
        torch.set_default_dtype(default)
        with torch.no_grad():
            predicted = outputs(models[0].eval(), inputs)
        return {**step(models[1], inputs, target),
                **{f"predicted.{i}" if i else "predicted": y for i, y in enumerate(predicted)}}
    finally:
        torch.set_default_dtype(torch.float)


def step_seconds(model, inputs, target, steps=4):
    """The shortest of some steps, forward and backward."""
    times = []
    for _ in range(steps):
        begin = time.perf_counter()
        step(model, inputs, target)
        times.append(time.perf_counter() - begin)
    return min(times)


def doubled(model):
    model = model.double()
    for tensor in list(model.parameters()) + list(model.buffers()):
        if tensor.is_complex():
            tensor.data = tensor.data.to(torch.cdouble)
    for m in model.modules():  # tensors that are no buffers
        for name, value in vars(m).items():
            if torch.is_tensor(value) and value.dtype == torch.float32:
                setattr(m, name, value.double())
    return model


def export(out, library, name, times=True):
    """times: whether a step is timed"""
    out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)

    def make():
        torch.manual_seed(sum(map(ord, name)))
        model, inputs, *keywords = LIBRARIES[library][name]()
        model = without_chance(model).train()
        torch.manual_seed(7)
        for k, p in model.named_parameters():  # zeros and ones hide faults
            if p.dtype == torch.float32 and p.numel() and float((p.data - p.data.flatten()[0]).abs().max()) == 0:
                p.data += 0.1 * torch.randn(p.shape)
        return model, (tuple(inputs), *keywords, {})[:2]

    model, inputs = make()
    shapes = None
    if getattr(model, "open_batch", False):
        shapes = tuple({0: torch.export.Dim("batch")} for _ in inputs[0])
    program = torch.export.export(model, *inputs, dynamic_shapes=shapes)
    if getattr(model, "decomposed", False):
        program = program.run_decompositions()
    torch.export.save(program, out / "model.pt2")
    names = [s.arg.name for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
    with torch.no_grad():
        shape = outputs(make()[0], inputs)[0].shape
    target = torch.randn(shape)
    plain = [step(make()[0], inputs, target) for _ in range(2)]
    if not torch.equal(plain[0][""], plain[1][""]):
        sys.exit("two steps differ: the model has chances of its own")
    if not torch.isfinite(plain[0]["loss"]).all():
        sys.exit("its loss is not finite")
    exact = _pytree.tree_map(lambda x: x.double() if x.is_floating_point() else x, inputs)
    try:
        truth = all_of(make, exact, target.double(), torch.float)
    except RuntimeError:  # a library may make float32 tensors by itself
        with unittest.mock.patch.object(torch.Tensor, "float", torch.Tensor.double):
            truth = all_of(make, exact, target.double(), torch.double)
    given = {f"{n}.0": x.contiguous() for n, x in zip(names, _pytree.tree_leaves(inputs))}
    wanted = "wanted.0" if "t.0" in given else "t.0"  # as dlc import names the target
    save_file({**given, wanted: target.contiguous()}, out / "batch.safetensors")
    save_file({k: v.contiguous() for k, v in truth.items() if k}, out / "truth.safetensors")
    other_names = {}  # of parameters that a module has under several
    for k, p in model.named_parameters(remove_duplicate=False):
        other_names.setdefault(id(p), []).append(k)
    info = {"library": library, "names": [n for n in other_names.values() if len(n) > 1],
            "mixes": getattr(model, "mixes", False), "name": name, "nodes": len(program.graph.nodes),
            "parameters": sum(p.numel() for p in model.parameters())}
    if times:
        info["torch_step_s"] = step_seconds(make()[0], inputs, target)
    (out / "info.json").write_text(json.dumps(info))


if __name__ == "__main__":
    export(pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3])
