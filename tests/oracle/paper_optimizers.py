"""Optimisers that PyTorch 1.13 lacks, by their papers' formulas: Lion (Chen et al. 2023), LAMB (You et al. 2020), LARS
(You et al. 2017), Adafactor (Shazeer and Stern 2018) and Muon (Jordan et al. 2024), as torch.optim has the last two
from 2.5 and 2.9 on; Muon's products in the parameter's type, and adamw of parameters that are no matrix.

    paper_optimizers.py       compares Adafactor and Muon with torch.optim's, where it has them
"""
import math

import torch


class Paper(torch.optim.Optimizer):
    def __init__(self, params, **options):
        super().__init__(params, {**self.DEFAULTS, **options})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                state["step"] = state.get("step", 0) + 1
                p -= self.move(p, p.grad, state, group)

    def mean(self, state, name, share, fresh):
        state[name] = state.get(name, torch.zeros_like(fresh)) * share + fresh * (1 - share)
        return state[name]


class Lion(Paper):
    DEFAULTS = {"lr": 1e-4, "betas": (0.9, 0.99), "weight_decay": 0}

    def move(self, p, g, state, o):
        m, (b1, b2) = state.get("m", torch.zeros_like(p)), o["betas"]
        state["m"] = b2 * m + (1 - b2) * g
        return o["lr"] * (torch.sign(b1 * m + (1 - b1) * g) + o["weight_decay"] * p)


class LAMB(Paper):
    DEFAULTS = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-6, "weight_decay": 0}

    def move(self, p, g, state, o):
        (b1, b2), k = o["betas"], state["step"]
        m, v = self.mean(state, "m", b1, g) / (1 - b1**k), self.mean(state, "v", b2, g * g) / (1 - b2**k)
        r = m / (v.sqrt() + o["eps"]) + o["weight_decay"] * p
        return o["lr"] * (p.norm() / r.norm() if p.norm() > 0 and r.norm() > 0 else 1) * r


class LARS(Paper):
    DEFAULTS = {"lr": 1e-1, "momentum": 0.9, "eps": 1e-8, "weight_decay": 0, "trust": 1e-3}

    def move(self, p, g, state, o):
        x = g + o["weight_decay"] * p
        if p.dim() > 1 and p.norm() > 0 and g.norm() > 0:
            x = x * o["trust"] * p.norm() / (g.norm() + o["weight_decay"] * p.norm() + o["eps"])
        state["b"] = o["momentum"] * state.get("b", torch.zeros_like(p)) + x
        return o["lr"] * state["b"]


class Adafactor(Paper):
    DEFAULTS = {"lr": 1e-2, "beta2_decay": -0.8, "eps": (2.0**-23, 1e-3), "d": 1.0, "weight_decay": 0}

    def move(self, p, g, state, o):
        share, (eps1, eps2) = state["step"]**o["beta2_decay"], o["eps"]
        if p.dim() > 1:
            rows = self.mean(state, "rows", 1 - share, (g * g).mean(-1, keepdim=True))
            columns = self.mean(state, "columns", 1 - share, (g * g).mean(-2, keepdim=True))
            v = rows @ columns / rows.mean(-2, keepdim=True).clamp(min=eps1)
        else:
            v = self.mean(state, "v", 1 - share, g * g)
        u = g / v.clamp(min=eps1**2).sqrt()

        def rms(x):
            return x.norm() / math.sqrt(x.numel())
        pace = max(eps2, rms(p)) * min(o["lr"], state["step"]**-0.5)
        return o["lr"] * o["weight_decay"] * p + pace * u / max(1, rms(u) / o["d"])


class Muon(Paper):
    DEFAULTS = {"lr": 1e-3, "momentum": 0.95, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0, "nesterov": True}

    def move(self, p, g, state, o):
        decay = o["lr"] * o["weight_decay"] * p
        if p.dim() != 2:
            (b1, b2), k = o["betas"], state["step"]
            m, v = self.mean(state, "m", b1, g) / (1 - b1**k), self.mean(state, "v", b2, g * g) / (1 - b2**k)
            return decay + o["lr"] * m / (v.sqrt() + o["eps"])
        b = self.mean(state, "b", o["momentum"], g)
        x = torch.lerp(g, b, o["momentum"]) if o["nesterov"] else b
        x = x / x.norm().clamp(min=1e-7)
        tall = x.shape[0] > x.shape[1]
        x = x.T if tall else x
        for _ in range(5):
            y = x @ x.T
            x = 3.4445 * x + (-4.775 * y + 2.0315 * y @ y) @ x
        return decay + 0.2 * math.sqrt(max(p.shape)) * o["lr"] * (x.T if tall else x)


def main():
    torch.set_default_dtype(torch.float64)
    torch.bfloat16 = torch.float64  # of Muon's products there
    for name, options in (("Adafactor", {"lr": 0.03, "weight_decay": 0.1}),
                          ("Muon", {"lr": 0.02, "weight_decay": 0.1})):
        if not hasattr(torch.optim, name):
            continue
        theirs = {"eps": (2.0**-23, 1e-3)} if name == "Adafactor" else {"adjust_lr_fn": "match_rms_adamw"}
        ends = []
        for make in (lambda p: globals()[name](p, **options),
                     lambda p: getattr(torch.optim, name)(p, **options, **theirs)):
            torch.manual_seed(1)
            p = [torch.randn(5, 3, requires_grad=True), torch.randn(4, 6, requires_grad=True)]
            optimizer = make(p)
            for _ in range(200):
                optimizer.zero_grad()
                sum((torch.sin(q) * torch.arange(1, q.numel() + 1).reshape(q.shape)).sum() for q in p).backward()
                optimizer.step()
            ends.append(torch.cat([q.detach().flatten() for q in p]))
        worst = (ends[0] - ends[1]).abs().max().item()
        print(f"{name}: worst {worst:.1e} of torch.optim's after 200 steps")
        assert worst < 1e-6, name


if __name__ == "__main__":
    main()
