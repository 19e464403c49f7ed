"""check_products.py BUILD: products written as sums, einsum, slices of one tensor and concatenations of many parts,
next to PyTorch in float64: values by position, and gradients. The IR must have a contraction where there is a matrix
product, and none elsewhere.
"""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from oracle_tools import Workplace, check, finish, load_tensors, relative, save_tensors, torch

place = Workplace(sys.argv[1])
torch.manual_seed(11)
einsum = torch.einsum
shapes = {"x": "N=3, T=5, E=8", "w": "V=7, E=8", "m": "E=8", "s": "N=3", "q": "N=3, T=5, E=8", "k": "N=3, S=6, E=8",
          "r": "N=3, T=5, S=6", "a": "N=3, J=4, K=9", "b": "M=6, K=9", "c": "M=6, J=4, K=9", "u": "I=8, O=9, B=3",
          "f": "I=8, P=7, B=3", "big": "I=60, O=50, B=3", "fat": "I=60, P=55, B=3", "g": "G=12, H=12, L=3, D=12",
          "h": "G=12, L=3, X=12, D=12", "p": "T=9, C=2, E=4"}
tensors = {n: torch.randn([int(k) for k in re.findall(r"=(\d+)", axes)]) for n, axes in shapes.items()}
cases = []  # (text, value of float64 tensors, the result's axes by name, contractions)


def case(text, value, axes, contractions=None):
    cases.append((text, value, axes, contractions))


def sums(text, letters, axes, contractions):
    """A sum of a product of all tensors of the text, which einsum's letters say, too."""
    names = [n for n in re.findall(r"[a-z]+", text.split(", over")[0]) if n in tensors]
    case(text, lambda t: einsum(letters, *(t[n] for n in names)), axes, contractions)


# a head, scores, tables; factors that all terms share, that one factor has alone, in any order
sums("sum(x * w, over=E)", "nte,ve->ntv", "NTV", 1)
sums("sum(w * x, over=E)", "ve,nte->vnt", "VNT", 1)
sums("sum(x * m * w * s, over=E)", "nte,e,ve,n->ntv", "NTV", 1)
sums("sum(s * (m * (w * x)), over=[E])", "n,e,ve,nte->vnt", "VNT", 1)
sums("sum(q * k, over=E)", "nte,nse->nts", "NTS", 0)  # 5 x 6 x 8 products a sample: too few
sums("sum(x * w, over=[T, E])", "nte,ve->nv", "NV", 1)
sums("sum(a * b, over=[J, K])", "njk,mk->nm", "NM", 1)
sums("sum(a * c, over=[J, K])", "njk,mjk->nm", "NM", 1)
sums("sum(a * c, over=K)", "njk,mjk->nmj", "NMJ", 0)
sums("sum(g * h, over=D)", "ghld,glxd->ghlx", "GHLX", 1)
sums("sum(g * h, over=[D, L])", "ghld,glxd->ghx", "GHX", 1)
sums("sum(u * f, over=I)", "iob,ipb->opb", "OPB", 0)  # matrices by vector lanes
sums("sum(big * fat, over=I)", "iob,ipb->opb", "OPB", 1)
case("mean(x * w, over=E)", lambda t: einsum("nte,ve->ntv", t["x"], t["w"]) / 8, "NTV", 1)
case("sum(-(x * w) + 2 * (w * x), over=E)", lambda t: einsum("nte,ve->ntv", t["x"], t["w"]), "NTV", 2)
case("sum(x * w - x * abs(w) * s, over=E)",
     lambda t: einsum("nte,ve->ntv", t["x"], t["w"]) - einsum("nte,ve,n->ntv", t["x"], abs(t["w"]), t["s"]), "NTV", 2)
case("sum(expand(m, V=7) * x, over=E)",
     lambda t: einsum("e,nte->nt", t["m"], t["x"])[..., None].expand(3, 5, 7), "NTV", 0)
# none of these is a matrix product
sums("sum(x * m, over=E)", "nte,e->nt", "NT", 0)
sums("sum(x * q, over=E)", "nte,nte->nt", "NT", 0)
sums("sum(x * w, over=T)", "nte,ve->nve", "NVE", 0)
sums("sum(m * s, over=E)", "e,n->n", "N", 0)
case("sum(x * w + x, over=E)", lambda t: einsum("nte,ve->ntv", t["x"], t["w"]) + t["x"].sum(2)[..., None], "NTV", 0)
case("sum(max(x * w, 0), over=E)", lambda t: (t["x"][:, :, None] * t["w"]).relu().sum(3), "NTV", 0)
# einsum itself
for pattern, names, axes, n in (
        ("nte,ve->ntv", "x w", "NTV", 1), ("nte,ve->vtn", "x w", "VTN", 1), ("nte,nse->nts", "q k", "NTS", 1),
        ("nte,nse->nts", "q q", "NTS", 1),
        ("nts,nse->nte", "r k", "NTE", 1), ("nte,n,e,ve->tv", "x s m w", "TV", None), ("nte->en", "x", "EN", 0),
        ("nte->", "x", "", 0),
        ("nte,nte->nte", "x q", "NTE", 0), ("e,n->en", "m s", "EN", 0), ("njk,mjk->nm", "a c", "NM", 1),
        ("njk , mk -> jm", "a b", "JM", None),
        ("iob,ipb->bop", "u f", "BOP", 1), ("ab,cb->ac", "w w", "VC", 1), ("Aa,Ba->AB", "w w", "VB", 1)):
    case(f'einsum("{pattern}", {", ".join(names.split())})',
         lambda t, p=pattern.replace(" ", ""), names=names: einsum(p, *(t[n] for n in names.split())), axes, n)
case('x |> einsum("nte,ve->ntv", w)', lambda t: einsum("nte,ve->ntv", t["x"], t["w"]), "NTV", 1)
# slices: all of one axis, some twice, with elements left out; cats of many parts, of several sizes
case("sum([tanh(p[T=i]) * (i + 1) for i in range(9)])",
     lambda t: sum(torch.tanh(t["p"][i]) * (i + 1) for i in range(9)), "CE")
case("sum([tanh(p[T=i]) * p[T=i+3] for i in range(6)])",
     lambda t: sum(torch.tanh(t["p"][i]) * t["p"][i + 3] for i in range(6)), "CE")
case("sum([exp(p[T=i:i+4]) for i in range(0, 6, 2)]) + p[T=1:5]",
     lambda t: sum(torch.exp(t["p"][i:i + 4]) for i in (0, 2, 4)) + t["p"][1:5], "TCE")
case("sum([p[T=i, C=i % 2]**2 for i in range(2, 8)])", lambda t: sum(t["p"][i, i % 2]**2 for i in range(2, 8)), "E")
for n in (16, 17, 40, 300):
    case(f"cat([sin(p[T=i % 7 : i % 7 + 1 + i % 3]) for i in range({n})], over=T)",
         lambda t, n=n: torch.cat([torch.sin(t["p"][i % 7:i % 7 + 1 + i % 3]) for i in range(n)]), "TCE")


def model(text_of_cases):
    out = ["model Products():", "    input v: f32[N, Y=1]"]
    out += [f"    param {n}: [{axes}] ~ normal(0, 1)" for n, axes in shapes.items()]
    out += ["    output v", "    loss = sum(v) * 0.0"]
    return "\n".join(out + text_of_cases) + "\n"


double = {n: t.double().requires_grad_() for n, t in tensors.items()}
values = [value(double) for _, value, _, _ in cases]
weights = {f"g{i}": torch.randn(v.shape) for i, v in enumerate(values)}

lines = []
for i, (text, _, axes, _) in enumerate(cases):
    by_position = [f"P{k}={size}" for k, size in enumerate(values[i].shape)]
    lines.append(f"    param g{i}: [{', '.join(by_position)}] ~ normal(0, 1)")
    named = f" as [{', '.join(axes)}] as [{', '.join(f'P{k}' for k in range(len(axes)))}]" if axes else ""
    lines.append(f"    loss += sum(g{i} * (({text}){named}))")
path = place / "products.dl"
path.write_text(model(lines))
save_tensors(place / "w.safetensors", {**tensors, **weights})
save_tensors(place / "b.safetensors", {"v.0": torch.ones(3, 1)})
place.run("dlrun", path, "--local_batch_size=3", f"--expdir={place / 'run'}",
          f"--init_weights={place / 'w.safetensors'}", "--optimizer=sgd",
          f"--replay={place / 'b.safetensors'}", f"--save_grads={place / 'g.safetensors'}")
got = load_tensors(place / "g.safetensors")
loss = 0
for i, (text, _, _, _) in enumerate(cases):
    off = relative(got[f"g{i}"].double(), values[i].detach())  # the gradient of its weight is the value itself
    check(off < 2e-6, f"{text}: the values are {off:.2g} off")  # float32 sums of at most 60 products
    loss = loss + (weights[f"g{i}"].double() * values[i]).sum()
loss.backward()
for n in tensors:
    off = relative(got[n].double(), double[n].grad)
    check(off < 5e-6, f"gradient of {n}: {off:.2g} off")

for text, _, _, want in cases:
    if want is None:
        continue
    path.write_text(model([f"    loss += sum(({text})**2)"]))
    ir = place.run("dlc", "compile", path, "--local_batch_size=3", "--dump=ir",
                   "--dump-after=contractions").split("graph @eval")[0]
    found = ir.count("= contract ")
    check(found == want, f"{text}: {found} contractions, not {want}")
finish()
