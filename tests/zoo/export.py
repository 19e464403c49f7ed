#!/usr/bin/env python3
"""Exports models of PyTorch for `dlc import`.   export.py OUT [NAME...]   (PyTorch 2.9 or newer)

For each model of models.py: OUT/NAME.pt2, a batch in NAME.batch.safetensors, and in NAME.truth.safetensors the output, the
loss and all gradients that PyTorch computes in float64."""
import pathlib
import sys
import warnings

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
    program = torch.export.export(model, tuple(inputs))
    torch.export.save(program, out / f"{name}.pt2")
    names = [s.arg.name for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
    model.train()
    target = torch.randn(model(*inputs).shape)
    truth = make().double()
    truth.load_state_dict(torch.export.load(out / f"{name}.pt2").state_dict)
    truth.train()
    y = truth(*[x.double() for x in inputs])
    loss = torch.nn.functional.mse_loss(y, target.double())
    loss.backward()
    save_file({**{f"{n}.0": x.contiguous() for n, x in zip(names, inputs)}, "t.0": target.contiguous()}, out / f"{name}.batch.safetensors")
    save_file({**{k: p.grad.float().contiguous() for k, p in truth.named_parameters()}, "loss": loss.detach().reshape(1)},
              out / f"{name}.truth.safetensors")


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or MODELS:
        export(name, folder, evaluated=name == "unet")
        print(name, flush=True)
