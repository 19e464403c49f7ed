"""check_language.py BUILD: what the model language adds up from ops, compiled, against PyTorch in float64.

Losses, their reductions and weights, constants, casts, and the gradient that PyTorch chooses where there are several
(docs/reference/functions.md, "Gradients at kinks"): each a case of one model, with parameters of its own. Then whole
models with shared layers: losses of five steps, the first gradients, weights and running statistics at the end.
"""
import copy
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
import language_cases  # adds its cases to those of language_runs
from language_nets import Doubles, Forecast, Penalised, Recurrent, Segment, Siamese, SimSiam, Tied, ours
from language_runs import F, N, cases, inf, nan, replay
from oracle_tools import check, finish, relative, torch

text, weights, batch = ["model Cases():"], {}, {}
for i, (name, dl, expect, params, inputs) in enumerate(cases):
    names = {k: f"c{i}_{k}" for k in {**params, **inputs}}
    for k, (axes, v) in inputs.items():
        text.append(f"    input {names[k]}: {'i32' if v.dtype == torch.int32 else 'f32'}[{axes}]")
        batch[names[k]] = v
if not batch:
    sys.exit("no inputs")
for i, (name, dl, expect, params, inputs) in enumerate(cases):
    names = {k: f"c{i}_{k}" for k in {**params, **inputs}}
    for k, (axes, v) in params.items():
        text.append(f"    param {names[k]}: [{axes}] = 0")
        weights[names[k]] = v
    text += [f"    l{i} = {dl.format(**names)}", f'    metric "case {i}" = l{i}']
text += ["    output l0", "    loss = " + " + ".join(f"l{i}" for i in range(len(cases))), ""]
lines, grads, _ = replay("\n".join(text), weights, [batch])
for i, (name, dl, expect, params, inputs) in enumerate(cases):
    p = {k: v.double().requires_grad_() for k, (_, v) in params.items()}
    q = {k: v.double() if v.is_floating_point() else v for k, (_, v) in inputs.items()}
    want = expect(**p, **q)
    slopes = dict(zip(p, torch.autograd.grad(want, list(p.values()), allow_unused=True)))
    # A value is a sum of at most some hundred terms of a few float32 roundings each: off by some units of 2^-24 of what
    # relative changes of the parameters do to it (its terms may cancel). Kinks are exact.
    size = abs(want.item()) + sum((g * p[k]).nan_to_num(0, 0, 0).abs().sum().item()
                                  for k, g in slopes.items() if g is not None)
    got = lines[0][f"case {i}"]
    good = abs(got - want.item()) <= 2e-6 * size if torch.isfinite(want) else got == want.item()
    wrong = "" if good else f"value {got!r}, PyTorch has {want.item()!r}"
    for k in p:
        g = torch.zeros_like(p[k]) if slopes[k] is None else slopes[k]
        name_of = f"c{i}_{k}"
        mine = grads[name_of].double() if name_of in grads else torch.zeros_like(g)
        same = torch.isfinite(g) == torch.isfinite(mine)
        strange = ~torch.isfinite(g)
        same &= torch.where(strange, (g == mine) | (g.isnan() & mine.isnan()),
                            (g - mine).abs() <= 4e-6 * g.abs() + 1e-6 * g[~strange].abs().max() if (~strange).any()
                            else True)
        if not same.all():
            at = (~same).nonzero()[0].tolist()
            wrong += f" gradient of {k} at {at}: {mine[tuple(at)].item()!r}, PyTorch has {g[tuple(at)].item()!r}"
    check(not wrong, f"{name} {wrong}")

# A class without a score: the loss is infinite, and training stops
text = ("model A():\n    input x: f32[N, F=3]\n    target t: i32[N]\n    y = x |> linear(5) as [N, C]\n    output y\n"
        "    loss = cross_entropy(y, t)\n")
start = {"y.weight": torch.randn(5, 3), "y.bias": torch.randn(5)}
for t in (5, -1):
    classes = torch.tensor([0, 4, t, 2], dtype=torch.int32)
    out = replay(text, start, [{"x": torch.randn(N, 3), "t": classes}], status=7)
    check("not finite" in out, f"class {t} of 5 stops the run")


# Numbers that are no class, next to scores of every sign and such that are none: losses one by one, what counts as a
# hit, shares.
inputs = torch.tensor([[3.0, 1, 2, -1, 0], [-5, -1, -2, -3, -4], [1, 1, 0, 0, 0], [nan, 1, 2, 3, 4],
                       [5, -1, inf, 2, nan], [-inf, -1, -2, -3, -4]])
classes = torch.tensor([0, 1, 2, 3, 4, 5, -1, -2147483648, 2147483647, 255], dtype=torch.int32)
inputs, classes = inputs.repeat_interleave(len(classes), 0), classes.repeat(len(inputs))
known, gain = (classes >= 0) & (classes < 5), torch.tensor([0.5, 2, 0, 1, 3])
finite = inputs.isfinite().all(1)
losses = {"": {}, ", weight=w": {"weight": gain}, ", label_smoothing=0.25": {"label_smoothing": 0.25},
          ", weight=w, label_smoothing=0.25": {"weight": gain, "label_smoothing": 0.25},
          ", ignore_index=255": {"ignore_index": 255},
          ", weight=w, ignore_index=255": {"weight": gain, "ignore_index": 255}}
text = f"""
model Strangers():
    input  x: f32[N, C=5]
    input  t: i32[N]
    input  each: f32[N]
    param  p: [C=5] = 0
    y = x + p
    w = [0.5, 2, 0, 1, 3] as [C]
    output y
    loss = mean(p**2)
    at(v) = sum(where(each > 0, v, 0))
"""
counted = [f"loss{i}" for i in range(len(losses))] + [f"top{k}" for k in (1, 2, 3, 5)] + ["hot"]
for i, options in enumerate(losses):
    text += f"    metric loss{i} = at(cross_entropy(y, t{options}, reduction=\"none\"))\n"
    text += f"    metric infinite{i} = at(where(cross_entropy(y, t{options}, reduction=\"none\") > 1e30, 1.0, 0.0))\n"
for k in (1, 2, 3, 5):
    text += f"    metric top{k} = at(where(in_top_k(y, t, {k}), 1.0, 0.0))\n"
text += "    metric hot = at(sum(one_hot(t, C=5) * ([1, 10, 100, 1000, 10000] as [C]), over=C))\n"
rows = len(inputs)
batches = [{"x": inputs, "t": classes, "each": (torch.arange(rows) == i).float()} for i in range(rows)]
lines, _, _ = replay(text, {"p": torch.zeros(5)}, batches, f"--local_batch_size={rows}", "--start_lr=0")
for i in range(rows):
    x, t, got = inputs[i : i + 1], classes[i : i + 1].long(), lines[i]
    what = f"class {t.item()} next to {x[0].tolist()}"
    for j, (options, of) in enumerate(losses.items()):
        ignored = of.get("ignore_index") == t.item()
        if not finite[i]:
            continue
        if known[i] or ignored:
            want = F.cross_entropy(x.double(), t, reduction="none",
                                   **{k: v.double() if k == "weight" else v for k, v in of.items()}).item()
            check(abs(got[f"loss{j}"] - want) < 1e-5 * (1 + abs(want)) and not got[f"infinite{j}"],
                  f"loss{options} of {what}: {got[f'loss{j}']}, {want}")
        else:
            check(got[f"loss{j}"] is None and got[f"infinite{j}"] == 1, f"loss{options} of {what}: infinite")
    for k in (1, 2, 3, 5):  # not below the k-th of topk, for which NaN is largest; its numbers of equal scores are any
        own = x[0, t[0]] if known[i] else torch.tensor(-inf)
        want = known[i].item() and (own.isnan() | (own >= x.topk(k, 1).values[0, -1])).item()
        check(got[f"top{k}"] == want, f"in_top_k {k} of {what}: {got[f'top{k}']}")
        if known[i] and len(set(x[0].tolist())) == 5:
            check(want == (x.topk(k, 1).indices == t).any().item(), f"as topk has it: {k} of {what}")
    check(got["hot"] == (10 ** t.item() if known[i] else 0), f"one_hot of {what}: {got['hot']}")


for net in Siamese, Recurrent, Forecast, Tied, SimSiam, Segment, Penalised, Doubles:
    dtype = getattr(net, "dtype", torch.float32)
    model, rate = net().to(dtype), 1e-3
    start = {ours(net, k): v.detach().clone()
             for k, v in model.state_dict().items() if not k.endswith("num_batches_tracked")}
    batches = [{k: net.labels(shape) if k == getattr(net, "labelled", "t")
                and hasattr(net, "labels") else torch.randn(shape, dtype=dtype)
                for k, shape in net.shapes.items()} for _ in range(5)]
    lines, grads, end = replay(net.text, start, batches, f"--start_lr={rate}", f"--end_lr={rate}")
    truth = copy.deepcopy(model).double()
    truth(**{k: v.double() if v.is_floating_point() else v for k, v in batches[0].items()}).backward()
    for k, v in getattr(truth, "metrics", {}).items():  # of some hundred numbers in float32
        check(abs(lines[0][k] / v - 1) < 1e-6, f"{net.__name__}: metric {k}, {lines[0][k]} and {v}")
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    for i, batch in enumerate(batches):
        optimizer.zero_grad()
        loss = model(**batch)
        loss.backward()
        if i == 0:
            check(set(grads) == {ours(net, k) for k, _ in model.named_parameters()},
                  f"{net.__name__}: gradients of {sorted(grads)}")
            # some hundred roundings; where terms cancel PyTorch's own float32 is as far off
            for k, p in truth.named_parameters():
                mine = grads[ours(net, k)]
                far, theirs = (relative(g.double(), p.grad) for g in (mine, model.get_parameter(k).grad))
                # some hundred roundings of 2^-53; where nothing should remain, of terms about 1
                if dtype == torch.float64:
                    far = min(far, (mine - p.grad).norm().item())
                check(mine.dtype == dtype and far < max(1e-5 if dtype == torch.float32 else 1e-12, 4 * theirs),
                      f"{net.__name__}: gradient of {k}, {far:.1e}, PyTorch's {theirs:.1e}")
        check(abs(lines[i]["loss"] - loss.item()) < 1e-4 * abs(loss.item()),
              f"{net.__name__}: loss {i}, {lines[i]['loss']} and {loss.item()}")
        optimizer.step()
    for k, v in model.state_dict().items():
        # Adam's first steps are of the size of the rate whatever the gradient's; a sign near zero may differ
        bound, mine = 1e-4 if "running" in k else 2e-3, end.get(ours(net, k))
        check(mine is not None and relative(mine.float(), v.float()) < bound,
              f"{net.__name__}: {k} at the end, {'absent' if mine is None else relative(mine.float(), v.float())}")
finish()
