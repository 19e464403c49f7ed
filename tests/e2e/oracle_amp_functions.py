#!/usr/bin/env python3
"""Functions that torch.autocast computes in float32, of 16-bit operands, fused and stored between kernels, against
float64.

oracle_amp_functions.py BUILD

Each function f is applied to y = x w, of one layer for each, in two forms: mean(f(y)), where f is fused into the sum;
and the same plus the mean of f's maxima over an axis, for which f(y) is stored between kernels. All x are powers of two
and all w have 8 digits, so that the products are exact in fp16 and bf16: PyTorch's autocast computes f of the same y as
float64 does, which needs no autocast in fp16 (on the CPU PyTorch 1.13 has none). Sizes are such that 16 bits do not
hold what f computes on its way: beyond 65,504, below 2^-14.

The loss differs by float32's roundings, and by those of what gelu and the pool give in 16 bits, of which the mean is
taken. Of a gradient each element of dy is rounded to 16 bits once (half an ulp: 2^-11 in fp16, 2^-8 in bf16), and its
sum with x is float32: half an ulp bounds each gradient's relative L2 error. Three roundings bound it where f reads y
twice, as autocast does, too: two gradients of y, and their sum; and where f gives 16 bits, of which both the mean and
the maxima have a gradient. The scale of fp16's loss is no part of a gradient: a second run halves it.
"""
import sys

from oracle_tools import Workplace, check, finish, json, load_tensors, relative, save_tensors, torch

f = torch.nn.functional
N, L = 8, 40
LOSS = {"fp16": 2e-6, "bf16": 1e-5}  # relative
HALF_ULP = {"fp16": 2**-11, "bf16": 2**-8}
SCALES = {"fp16": (65536, 32768), "bf16": (1,)}


def roll(y):
    return y.roll(1, 1)


def row(v):
    """A number for each sample, as one along L."""
    return v[:, None]


def weighted_entropy(y):
    share = torch.full_like(y, 0.25)
    return f.binary_cross_entropy_with_logits(y, share, pos_weight=torch.full_like(y[0], 1000), reduction="none")


# Name: the size of y, the factor of the loss, f in the language and in PyTorch. By its factor each gradient, scaled and
# half scaled, is in fp16's range.
FUNCTIONS = {
    "power": (700, 1e-6, "Y**2", lambda y: y**2),
    "square": (700, 1e-6, "square(Y)", lambda y: y**2),
    "cube": (50, 1e-6, "Y**3", lambda y: y**3),
    "reciprocal": (2**-14, 1e-10, "1/Y", lambda y: 1 / y),
    "mse": (700, 1e-6, 'mse_loss(Y, roll(Y, 1, over=L), reduction="none")',
            lambda y: f.mse_loss(y, roll(y), reduction="none")),
    "l1": (30000, 1e-5, 'l1_loss(Y, roll(Y, 1, over=L), reduction="none")',
           lambda y: f.l1_loss(y, roll(y), reduction="none")),
    "smooth": (700, 1e-3, 'smooth_l1_loss(Y, roll(Y, 1, over=L), beta=0.001, reduction="none")',
               lambda y: f.smooth_l1_loss(y, roll(y), beta=0.001, reduction="none")),
    "huber": (700, 1e-6, 'huber_loss(Y, roll(Y, 1, over=L), delta=500.0, reduction="none")',
              lambda y: f.huber_loss(y, roll(y), delta=500.0, reduction="none")),
    "entropy": (700, 1e-6, 'bce_with_logits(Y, 0.25, pos_weight=1000.0, reduction="none")', weighted_entropy),
    "norm": (700, 1e-5, "expand(norm(Y, over=L), L=1)", lambda y: row(y.norm(dim=1))),
    "relative": (700, 0.1, 'expand(relative_l2_loss(Y, roll(Y, 1, over=L), over=L, reduction="none"), L=1)',
                 lambda y: row((y - roll(y)).norm(dim=1) / roll(y).norm(dim=1))),
    "squares": (700, 1e-9, "expand(sum_squares(Y), N=1, L=1)", lambda y: row((y**2).sum()[None])),
    "std": (700, 1e-5, "expand(std(Y, over=L), L=1)", lambda y: row(y.std(1, unbiased=False))),
    "cumsum": (3000, 1e-6, "cumsum(abs(Y), over=L)", lambda y: y.abs().cumsum(1)),
    "gelu": (100, 1e-4, 'gelu(Y, approximate="tanh")',
             lambda y: 0.5 * y * (1 + torch.tanh((2 / torch.pi)**0.5 * (y + 0.044715 * y**3)))),
    "pool": (20000, 1e-6, "(unsqueeze(abs(Y), over=C, at=1) |> avg_pool(8) as [N, C, L])[C=0]",
             lambda y: f.avg_pool1d(y.abs(), 8)),
    "log": (700, 1e-2, "log(abs(Y))", lambda y: y.abs().log()),
}


def model(stored):
    lines, losses = [], []
    for name, (_, factor, text, _) in FUNCTIONS.items():
        lines += [f"y_{name} = x |> linear({L}, bias=false) @{name} as [N, L]",
                  f"f_{name} = {text.replace('Y', f'y_{name}')}"]
        losses.append(f"mean(f_{name}) * {factor}" + stored * f" + mean(max(f_{name}, over=L)) * {factor}")
    return "\n    ".join(["model Functions():", "input x: f32[N, K=1]", *lines, "output y_power",
                          "loss = " + " + ".join(losses)]) + "\n"


def in_double(stored, weights, x):
    weights = {name: w.double().requires_grad_() for name, w in weights.items()}
    loss = 0
    for name, (_, factor, _, function) in FUNCTIONS.items():
        value = function(x.double() @ weights[f"{name}.weight"].T)
        loss = loss + factor * value.mean() + stored * factor * value.amax(1).mean()
    loss.backward()
    return loss.item(), {name: w.grad for name, w in weights.items()}


def roundings(name):
    return 3 if "roll" in FUNCTIONS[name][2] or name in ("gelu", "pool") else 1


def draw():
    torch.manual_seed(11)
    weights = {}
    for name, (size, _, _, _) in FUNCTIONS.items():
        w = size * (0.25 + 0.75 * torch.rand(L, 1)) * (2 * torch.randint(0, 2, (L, 1)) - 1)
        weights[f"{name}.weight"] = w.bfloat16().float()
    return weights, torch.tensor([1, -1, 2, -0.5, 0.5, -2, 1, 2])[:, None]


def train(place, path, *options):
    """The loss, the gradients and the printed line of one step."""
    grads = place / "grads.safetensors"
    out = place.run("dlrun", path, f"--local_batch_size={N}", "--lr_schedule=none", "--lr=1e-9",
                    f"--init_weights={place / 'w.safetensors'}",
                    f"--replay={place / 'x.safetensors'}", f"--save_grads={grads}", f"--expdir={place / 'run'}",
                    *options)
    line = next(json.loads(line) for line in out.splitlines() if line.startswith("{") and '"step"' in line)
    return line, load_tensors(grads)


def main(build):
    place = Workplace(build)
    weights, x = draw()
    save_tensors(place / "w.safetensors", weights)
    save_tensors(place / "x.safetensors", {"x.0": x})
    for stored in False, True:
        path, form = place / f"functions_{stored:d}.dl", "stored" if stored else "fused"
        path.write_text(model(stored))
        loss, truth = in_double(stored, weights, x)
        for mode, scales in SCALES.items():
            for scale in scales:
                line, grads = train(place, path, f"--amp_mode={mode}",
                                    *([f"--loss_scale_init={scale}"] if mode == "fp16" else []))
                what = f"{form}, {mode}" + f", scale {scale}" * (mode == "fp16")
                off = abs(line["loss"] - loss) / abs(loss)
                check(off <= LOSS[mode] and not line.get("skipped"),
                      f"{what}: loss {line['loss']}, {off:.1e} from float64 (at most {LOSS[mode]:.0e})")
                for name in FUNCTIONS:
                    error, bound = relative(grads[f"{name}.weight"],
                                            truth[f"{name}.weight"]), roundings(name) * HALF_ULP[mode]
                    check(error <= bound, f"{what}: gradient of {name}: {error:.1e} (at most {bound:.1e})")
    finish()


main(*sys.argv[1:])
