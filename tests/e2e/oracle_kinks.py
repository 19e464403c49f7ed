#!/usr/bin/env python3
"""Which kinks of the U-Net stand so near that a float32 run falls on the other side than float64, and what is left of
the difference with these turned.

oracle_kinks.py BUILD SIDE SEED [OPTION...]   weights and a batch by seed
oracle_kinks.py BUILD DIR [OPTION...]         DIR/w.safetensors and DIR/b.safetensors, as
../shared/checks/unet_oracle.py writes them

A ReLU's argument or a difference under |x| that lies within NEAR of its spread from 0 may have either sign in float32:
hundreds of terms are rounded before it. Each such element, the nearest first, is turned in PyTorch's float64 run; where
the gradients then agree better, it stays so. What is left must be rounding alone (LEFT), a thousandth of what one kink
makes.
"""
import math
import pathlib
import sys

from oracle_nets import UNet
from oracle_tools import Workplace, check, finish, load_tensors, relative, torch

NEAR, LEFT = 1e-6, 1e-5


class Kinks:
    """The arguments of all kinks of a model, by name, and those that are turned to their other side."""

    def __init__(self, model):
        self.at, self.turned = {}, {}
        for name, module in model.named_modules():
            if isinstance(module, (torch.nn.ReLU, torch.nn.LeakyReLU)):
                module.forward = lambda z, name=name, slope=getattr(module, "negative_slope",
                                                                    0): self.bend(name, z, 1, slope)

    def bend(self, name, z, above, below):
        up = z > 0
        self.at[name] = z.detach()
        for i in self.turned.get(name, ()):
            up.view(-1)[i] ^= True
        return torch.where(up, above * z, below * z)

    def near(self):
        """(distance in spreads, name, element), the nearest first."""
        found = []
        for name, z in self.at.items():
            distance = (z / z.std()).abs().flatten()
            found += [(distance[i].item(), name, i.item()) for i in (distance < NEAR).nonzero().flatten()]
        return sorted(found)


def gradients(model, kinks, x, t):
    model.zero_grad()
    kinks.bend("loss", model(x) - t, 1, -1).mean().backward()
    return {name: p.grad.clone() for name, p in model.named_parameters()}


def main(build, case, *options):
    place = Workplace(build)
    if case.isdigit():
        side, seed, *options = int(case), *options
        torch.manual_seed(int(seed))
        model = UNet(full_scale=side >= 64)
        batch = torch.randn(1, 4, side, side, side), torch.tanh(torch.randn(1, 5, side, side, side))
    else:
        files = pathlib.Path(case)
        batches = load_tensors(files / "b.safetensors")
        batch = batches["x.0"], batches["t.0"]
        side = batch[0].shape[-1]
        model = UNet(full_scale=side >= 64)
        model.load_state_dict(load_tensors(files / "w.safetensors"))
    weights = {name: p.detach().clone() for name, p in model.state_dict().items()}
    ours = place.replay(weights, [batch], "--config", "base", f"--full_scale={str(side >= 64).lower()}",
                        f"--data_size={side}",
                        "--local_batch_size=1", *options)[1]
    model, (x, t) = model.double(), (v.double() for v in batch)
    kinks = Kinks(model)

    def distance():
        """Root of the sum of all parameters' squared distances, which each right turn makes less, and the worst of
        them."""
        want = gradients(model, kinks, x, t)
        apart = [relative(ours[name], want[name]) for name in want]
        return math.hypot(*apart), max(apart)

    far = distance()
    print(f"U-Net at {side}^3: gradients, worst {far[1]:.1e} from float64's", flush=True)
    for spreads, name, i in kinks.near():
        kinks.turned.setdefault(name, []).append(i)
        nearer = distance()
        stays = nearer < far
        print(f"  {name} element {i}, {spreads:.1e} of its spread from 0: {'turned' if stays else 'not turned'}, "
              f"worst {nearer[1]:.1e}", flush=True)
        far = min(far, nearer)
        if not stays:
            kinks.turned[name].pop()
    check(far[1] < LEFT,
          f"U-Net at {side}^3: gradients, worst {far[1]:.1e} with {sum(map(len, kinks.turned.values()))} kinks turned "
          f"(at most {LEFT:.0e})")
    finish()


main(*sys.argv[1:])
