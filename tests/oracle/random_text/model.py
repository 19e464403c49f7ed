"""A random model: drawn, as text, run by PyTorch, and made small."""
import torch

from . import torch_words
from . import layers, losses, modules, moves, sequences, statements, values  # each adds its productions
from .writer import Line, Refused, Scope, axes_text

del moves, statements, values


class Model:
    def __init__(self, seed, real, batch, numbers, adam, lines, terms):
        self.seed, self.real, self.batch, self.numbers, self.adam = seed, real, batch, numbers, adam
        self.terms = terms
        self.lines = modules.needed(lines, set().union(*(t.uses for t in terms)))
        self.params = {k: v for line in self.lines for k, v in line.params.items()}
        self.states = {k: v for line in self.lines for k, v in line.states.items()}

    def with_(self, lines=None, terms=None):
        return Model(self.seed, self.real, self.batch, self.numbers, self.adam, self.lines if lines is None else lines,
                     self.terms if terms is None else terms)

    def inputs(self):
        return {line.makes for line in self.lines if line.leaf and not line.dl[0].startswith("param ")}

    def trained(self):
        return [n for n in self.params if n not in self.inputs()]

    def text(self):
        """In the model language."""
        out = []
        for m in dict.fromkeys(line.module for line in self.lines if line.module):
            out += m.dl
        arguments = ", ".join(f"{k}={v}" for k, v in self.numbers.items())
        out.append(f"model Random({arguments}):")
        lines = [f"    {t}" for line in self.lines for t in line.dl]
        if not any(t.startswith("    input ") for t in lines):
            first = next((i for i, t in enumerate(lines) if t.startswith("    target ")), None)
            if first is None:
                lines.insert(0, "    input unused: f32[N]")
            else:
                lines[first] = lines[first].replace("target", "input", 1)
        out += lines
        shown = [line.value for line in self.lines if line.value is not None and line.value.kind == "f"]
        shown = [v for v in shown if any(v.dl in t.uses for t in self.terms) and v.dl[0] == "h"] or shown
        out.append(f"    output {shown[-1].dl}")
        first, *rest = self.terms
        out.append(f"    loss = {first.dl}")
        out += [f"    loss += {t.dl}" for t in rest]
        return "\n".join(out) + "\n"

    def python(self):
        """In PyTorch, with the words of torch_words.py."""
        out = []
        for m in dict.fromkeys(line.module for line in self.lines if line.module):
            out += m.py
        out += ["def step():", '    at = ""'] + [f"    {t}" for line in self.lines for t in line.py]
        out.append("    return " + " + ".join(t.py for t in self.terms))
        return "\n".join(out) + "\n"

    def run(self, shake=None):
        """By PyTorch in float64: the loss, gradients by name, what a step leaves, the loss after it; the rate. shake:
        the relative size of what all numbers are moved by, at random."""
        P, R = {}, {k: v.clone() for k, v in self.states.items()}
        noise = torch.Generator().manual_seed(1)
        for k, v in self.params.items():
            P[k] = v.detach().clone()
            if P[k].is_floating_point():
                if shake:
                    P[k] *= 1 + shake * torch.randn(v.shape, generator=noise, dtype=torch.float64)
                P[k].requires_grad_()
        env = {**vars(torch_words), "torch": torch, "P": P, "R": R}
        exec(self.python(), env)
        torch_words.shaken[0] = shake or 0.0
        own = self.trained()
        loss = env["step"]()
        if not loss.requires_grad or not own:
            raise Refused
        grads = dict(zip(own, torch.autograd.grad(loss, [P[k] for k in own], allow_unused=True)))
        largest = max([g.abs().max().item() for g in grads.values() if g is not None and g.numel()], default=0)
        rate = 0.02 / (1 + largest)
        result = {"loss 1": loss.detach().reshape(1)}
        for k, g in grads.items():
            result[f"grad {k}"] = torch.zeros_like(P[k]) if g is None else g
            P[k].grad = g
        some = [P[k] for k in own if grads[k] is not None]
        if not some:
            raise Refused
        step = (torch.optim.Adam(some, lr=rate, eps=1e-3) if self.adam
                else torch.optim.SGD(some, lr=rate, momentum=0.9))
        step.step()
        result.update({f"next {k}": P[k].detach().clone() for k in own})
        result.update({f"next {k}": v.clone() for k, v in R.items()})
        result["loss 2"] = env["step"]().detach().reshape(1)
        torch_words.shaken[0] = 0.0
        if not all(torch.isfinite(v).all() for v in result.values()):
            raise Refused
        return result, rate

    def numbers_of(self, rate):
        """What text_run reads."""
        given = {"N": self.batch, "adam": self.adam, "optimizer.lr.init": rate, "optimizer.lr.end": rate,
                 "optimizer.momentum": 0.9, "optimizer.eps": 1e-3}
        given = {k: torch.tensor([float(v)], dtype=torch.float64) for k, v in given.items()}
        if "    input unused: " in self.text():
            given["unused"] = torch.zeros(self.batch)
        return {**given, **self.params, **self.states}


def draw(seed, real):
    """The model of that seed, or None where the numbers run away."""
    s = Scope(seed, real)
    s.numbers = {k: s.r.randint(2, 6) for k in s.r.sample(["width", "depth", "heads", "n"], s.r.randint(0, 2))}
    for _ in range(s.r.randint(1, 3)):
        s.declare([(a, 0) for a in s.r.choice(["N F", "N C T", "N T E", "N C H W", "N T", "C K", "N C D H W"]).split()])
    for first in s.r.sample([layers.linear, layers.convolution, layers.product, layers.normed, sequences.recurrence],
                            2):
        try:
            first(s)
        except Refused:
            pass
    modules.grow(s, s.r.choice([3, 5, 7, 10, 10, 16]))
    s.finishing = True
    most, adam = s.r.choice([1, 2, 2, 3]), s.chance(0.3)
    for _ in range(40):
        if len(s.terms) >= most:
            m = Model(seed, real, s.sizes["N"], s.numbers, adam, s.lines, s.terms)
            if m.trained():
                return m
        try:
            s.r.choice(losses.losses)(s)
        except Refused:
            pass
    return None


def cut(model, line):
    """The model in which a line's value is a variable."""
    v = line.value
    batch = v.has("N")
    dtype = {"f": model.real, "i": "i64", "b": "bool"}[v.kind]
    word = "input" if batch or v.kind != "f" else "param"
    dl = f"{word} {line.makes}: {dtype}[{axes_text(v.axes)}]" + (" = 0" if word == "param" else "")
    data = v.data.detach().clone()
    new = Line([dl], [f'{line.makes} = P[at + "{line.makes}"]'], line.makes, (), v, params={line.makes: data},
               leaf=True)
    return model.with_([new if k is line else k for k in model.lines])


def reduced(model, fails, most=80):
    """A smaller model that fails, too."""
    tries = 0
    again = True
    while again and tries < most:
        again = False
        ways = [model.with_(terms=[t]) for t in model.terms] if len(model.terms) > 1 else []
        ways += [cut(model, line) for line in reversed(model.lines) if not line.leaf]
        for way in ways:
            tries += 1
            if tries > most:
                break
            if fails(way):
                model, again = way, True
                break
    return model

