#!/usr/bin/env python3
"""Exports models of PyTorch for `dlc import`.   export.py OUT [--small] [NAME...]   (PyTorch 2.9 or newer)

For each model of models.py: OUT/NAME.pt2, a batch in NAME.batch.safetensors, and in NAME.truth.safetensors the output,
the loss and all gradients that PyTorch computes in float64. --small leaves out what `dlc import` does not read."""
import json
import pathlib
import re
import sys
import warnings
import zipfile

import torch
from safetensors.torch import save_file

from models import MODELS

warnings.filterwarnings("ignore")


def export(name, out, evaluated=False):
    make, shapes = MODELS[name]
    torch.manual_seed(sum(map(ord, name)))
    model = make()
    model.train(not evaluated)
    inputs = [torch.randn(s) for s in shapes]
    example = [x[:1] for x in inputs] if name == "single" else inputs
    program = torch.export.export(model, tuple(example))
    torch.export.save(program, out / f"{name}.pt2")
    names = [s.arg.name for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
    model.train()
    target = torch.randn(model(*inputs).shape)
    truth = make().double()
    truth.load_state_dict(torch.export.load(out / f"{name}.pt2").state_dict)
    for p in truth.parameters():  # double() leaves complex numbers as they are
        p.data = p.data.to(torch.cdouble if p.is_complex() else torch.double)
    truth.train()
    y = truth(*[x.double() for x in inputs])
    loss = torch.nn.functional.mse_loss(y, target.double())
    loss.backward()
    save_file({**{f"{n}.0": x.contiguous() for n, x in zip(names, inputs)}, "t.0": target.contiguous()},
              out / f"{name}.batch.safetensors")
    grads = {k: torch.view_as_real(p.grad) if p.is_complex() else p.grad for k, p in truth.named_parameters()}
    save_file({**{k: g.float().contiguous() for k, g in grads.items()},
               "loss": loss.detach().reshape(1)},
              out / f"{name}.truth.safetensors")


def shrink(path):
    """The archive without the sample inputs, and without the paths of this machine: for the repository."""
    old = zipfile.ZipFile(path)
    entries = {n: old.read(n) for n in old.namelist() if "sample_inputs" not in n}
    for name in entries:
        if name.endswith("models/model.json"):
            text = re.sub(r'File \\"[^"]*/(torch/)?([^"/]*)\\"',
                          lambda m: f'File \\"{"/torch/" if m[1] or "torch/" in m[0] else ""}{m[2]}\\"',
                          entries[name].decode())
            entries[name] = json.dumps(json.loads(text), separators=(",", ":")).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as new:
        for name, data in entries.items():
            new.writestr(zipfile.ZipInfo(name), data)


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    small = "--small" in sys.argv
    for name in [a for a in sys.argv[2:] if a != "--small"] or MODELS:
        export(name, folder, evaluated=name == "unet")
        if small:
            shrink(folder / f"{name}.pt2")
        print(name, flush=True)
