#!/usr/bin/env python3
"""Weights move both ways between this project and PyTorch: same names, same shapes, same output.

oracle_weights.py BUILD

The output of our program is seen through a model that adds a parameter `probe`, 0 everywhere, to it: with the loss
sum((y + probe)^2) / 2 the gradient of `probe` is the output.
"""
import re
import sys

from checks import narrowed
from oracle_nets import UNet
from oracle_tools import ROOT, Workplace, check, finish, load_tensors, torch

SIDE, DIVISOR = 32, 8  # of the fields; of the channels
SMALL = ("--full_scale=false", f"--data_size={SIDE}")


def probe_model(place):
    """The U-Net with the probe, and a configuration for it; the options that run it."""
    text = (place / "narrow.dl").read_text()
    probe = "    param probe: [N, C=N_out_channels, D, H, W] = 0\n"
    text, found = re.subn(r"^    loss = .*\n", probe + "    loss = 0.5 * sum((y + probe)**2)\n", text, flags=re.M)
    if found != 1:
        sys.exit("oracle_weights: narrow.dl has no line with the loss")
    (place / "probe.dl").write_text(text)
    (place / "probe.yaml").write_text("base: {}\n")
    return "--config", "base", f"--yaml_config={place / 'probe.yaml'}", f"--model={place / 'probe.dl'}", *SMALL


def our_output(place, weights, x):
    """What our program computes for the batch x with these weights."""
    shape = (x.shape[0], 5, *x.shape[2:])
    loss, grads, _ = place.replay({**weights, "probe": torch.zeros(shape)}, [(x, torch.zeros(shape))],
                                  *probe_model(place), f"--local_batch_size={x.shape[0]}")
    y = grads["probe"]
    want = (y.double() ** 2).sum().item() / 2
    check(abs(loss[0] - want) <= 1e-5 * want,
          f"the probe shows the output: loss {loss[0]:.6g}, of the output {want:.6g}")
    return y


def compare_outputs(what, place, model, x):
    with torch.no_grad():
        want = model(x)
    got = our_output(place, model.state_dict(), x)
    worst = (got - want).abs().max().item() if got.shape == want.shape else float("inf")
    check(worst <= 1e-5,
          f"{what}: outputs differ by at most {worst:.1e} (bound 1e-05), largest value {want.abs().max():.2f}")


def main(build):
    place = Workplace(build)
    torch.manual_seed(11)
    x = torch.randn(2, 4, SIDE, SIDE, SIDE)
    (place / "narrow.dl").write_text(narrowed((ROOT / "models/unet.dl").read_text(), DIVISOR))
    model = UNet(full_scale=False, std=0.06, divisor=DIVISOR)
    compare_outputs("saved by PyTorch, loaded here", place, model, x)

    place.run("dlrun", "--config", "tiny", f"--yaml_config={ROOT / 'models/config/unet.yaml'}",
              f"--model={place / 'narrow.dl'}", "--data_loader_config=synthetic", "--conv_scale=0.06", "--Nsamples=16",
              "--Nsamples_val=4", "--num_epochs=1", "--start_lr=1e-3", f"--expdir={place / 'run'}")
    saved = load_tensors(place / "run/narrow-tiny/1GPU/00/checkpoints/last/model.safetensors")
    fresh = UNet(full_scale=False, divisor=DIVISOR)
    keys = fresh.load_state_dict(saved, strict=False)
    check(not keys.missing_keys and not keys.unexpected_keys,
          f"a checkpoint has PyTorch's names: missing {keys.missing_keys}, unexpected {keys.unexpected_keys}")
    fresh.load_state_dict(saved, strict=True)
    check(fresh.conv_last.bias.detach().abs().max() > 0,
          "the checkpoint is of a trained model: a bias has moved from 0")
    compare_outputs("trained here, loaded by PyTorch", place, fresh, x)
    finish()


main(*sys.argv[1:])
