#!/usr/bin/env python3
"""The U-Net against PyTorch: from the same weights and batches, losses, and the gradients of the first step in float64.

oracle_unet.py BUILD SIDE [OPTION...]     32: without full_scale, batch 2, ten losses (of a share three); 64: the whole
                                          model, three losses, since Debian's PyTorch takes half a minute for each
"""
import sys

from checks import SHARE
from oracle_cache import remembered
from oracle_nets import UNet
from oracle_tools import Workplace, compare_training, finish, gradients_in_double, torch, train_in_torch


def main(build, side, *options):
    side, place = int(side), Workplace(build)
    full, batch = side >= 64, 1 if side >= 64 else 2
    torch.manual_seed(side)
    model = UNet(full_scale=full)
    for name, p in model.named_parameters():  # biases too, so that they take part
        if name.endswith("bias"):
            torch.nn.init.normal_(p, 0, 0.01)
    weights = {name: p.detach().clone() for name, p in model.state_dict().items()}
    batches = [(torch.randn(batch, 4, side, side, side), torch.tanh(torch.randn(batch, 5, side, side, side)))
               for _ in range(10 if SHARE == 1 and not full else 3)]
    got = place.replay(weights, batches, "--config", "base", f"--full_scale={str(full).lower()}",
                       f"--data_size={side}", f"--local_batch_size={batch}", *options)
    loss = torch.nn.functional.l1_loss
    gradients = remembered(gradients_in_double, model, loss, batches[0])
    losses, _ = remembered(train_in_torch, model, loss, batches)
    compare_training(f"U-Net at {side}^3, batch {batch}", got, (losses, gradients))
    finish()


main(*sys.argv[1:])
