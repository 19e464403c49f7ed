#!/usr/bin/env python3
"""Models other than the U-Net against PyTorch: 1-D, 2-D and 3-D, odd kernels, uneven sides, metrics and figures.

oracle_models.py BUILD [OPTION...]
"""
import sys

from oracle_cache import remembered
from oracle_nets import NETS
from oracle_tools import Workplace, compare_training, finish, torch, train_in_torch


def main(build, *options):
    place = Workplace(build)
    (place / "models.yaml").write_text("base: {}\n")
    for net in NETS:
        torch.manual_seed(7)
        model = net()
        weights = {name: p.detach().clone()
                   for name, p in model.state_dict().items() if not name.endswith("num_batches_tracked")}
        batches = [tuple(torch.randn(shape) for shape in net.shapes) for _ in range(5)]
        name = net.__name__
        path = place / f"{name.lower()}.dl"
        path.write_text(net.text.lstrip())
        got = place.replay(weights, batches, f"--yaml_config={place / 'models.yaml'}", "--config", "base",
                           f"--model={path}", f"--local_batch_size={net.shapes[0][0]}", *options, rate=1e-3)
        compare_training(name, got, remembered(train_in_torch, model, model.loss, batches, 1e-3))
    finish()


main(*sys.argv[1:])
