"""check_fourier.py BUILD [DEVICE...]: rfft, irfft, fft and ifft next to torch.fft in float64: values by position and
gradients, of sizes of all kinds (powers of two, 2-3-5-7, primes, 1), at any axis, all norms, few modes; in f32, f64 and
16 bits.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from oracle_tools import Workplace, check, finish, load_tensors, relative, save_tensors, torch

os.environ.setdefault("DLR_CUDA_EMULATOR", os.path.join(sys.argv[1], "tests/emulator/libcuda_emulator.so"))
place = Workplace(sys.argv[1])
devices = sys.argv[2:] or ["cpu", "cuda:emulated"]
torch.manual_seed(5)
fft = torch.fft
cases = []  # (text over x, axes of x, value of x in float64, element type, axes of the result)
z_of, real_of = torch.view_as_complex, torch.view_as_real


def complex_of(f):
    """f of complex numbers as a function of pairs."""
    return lambda x: real_of(f(z_of(x.contiguous())))


def case(text, axes, value, dtype="f32", other=None):
    cases.append((text, axes, value, dtype, other))


def low_modes(f, m, dim):
    """The modes that modes=m keeps along a complex axis."""
    return torch.cat([f.narrow(dim, 0, m), f.narrow(dim, f.shape[dim] - m, m)], dim)


def widened(f, m, n, dim):
    """The inverse of low_modes: zeros between."""
    gap = list(f.shape)
    gap[dim] = n - 2 * m
    return torch.cat([f.narrow(dim, 0, m), torch.zeros(gap, dtype=f.dtype), f.narrow(dim, m, m)], dim)


def lines(n, dtype="f32", lead="N=3, C=3", after=""):
    """All four transforms of one size, before and after other axes."""
    m, dim = n // 2 + 1, lead.count("=")
    case("rfft(x, over=W)", f"{lead}, W={n}{after}", lambda x: real_of(fft.rfft(x, dim=dim)), dtype)
    case(f"irfft(x, over=W, size={n})", f"{lead}, W={m}{after}, Z=2", lambda x: fft.irfft(z_of(x), n, dim=dim), dtype)
    case("fft(x, over=W)", f"{lead}, W={n}{after}, Z=2", complex_of(lambda z: fft.fft(z, dim=dim)), dtype)
    case("ifft(x, over=W)", f"{lead}, W={n}{after}, Z=2", complex_of(lambda z: fft.ifft(z, dim=dim)), dtype)


for n in (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 30, 31, 32, 49, 64, 105, 127, 128, 210, 250, 1024):
    lines(n)
for n in (1, 4, 15, 22, 64):
    lines(n, lead="N=2", after=", C=19")
    lines(n, lead="N=2", after=", C=3, D=2")
    lines(n, "f64", lead="N=2", after=", C=3")
for n in (8, 33, 60):
    lines(n, "f64")
lines(4096, lead="N=1")
lines(6000, lead="N=1")  # turns are products of two tables
lines(8192, "f64", lead="N=1")
for norm in ("backward", "ortho", "forward"):
    case(f'rfft(x, over=W, norm="{norm}")', "N=2, W=20", lambda x, o=norm: real_of(fft.rfft(x, norm=o)))
    case(f'irfft(x, over=W, norm="{norm}")', "N=2, W=11, Z=2", lambda x, o=norm: fft.irfft(z_of(x), norm=o))
    case(f'fft(x, over=[H, W], norm="{norm}")', "N=2, H=6, W=10, Z=2",
         complex_of(lambda z, o=norm: fft.fft2(z, norm=o)))
    case(f'ifft(x, over=[H, W], norm="{norm}")', "N=2, H=6, W=10, Z=2",
         complex_of(lambda z, o=norm: fft.ifft2(z, norm=o)))
# modes beyond the last are not read
case("irfft(x, over=W, size=9)", "N=2, W=11, Z=2", lambda x: fft.irfft(z_of(x), 9))
case("irfft(x, over=W, size=33)", "N=2, W=11, Z=2", lambda x: fft.irfft(z_of(x), 33))  # missing ones are zero
case("rfft(x, over=[H, W])", "N=2, H=6, W=10, C=3", lambda x: real_of(fft.rfftn(x, dim=(1, 2))))
case("rfft(x, over=[W, H])", "N=2, H=6, W=10, C=3", lambda x: real_of(fft.rfftn(x, dim=(2, 1))))
case("rfft(x, over=[D, H, W])", "N=2, D=3, H=4, W=5", lambda x: real_of(fft.rfftn(x, dim=(1, 2, 3))))
case("irfft(x, over=[D, H, W], size=[3, 4, 5])", "N=2, D=3, H=4, W=3, Z=2",
     lambda x: fft.irfftn(z_of(x), s=(3, 4, 5), dim=(1, 2, 3)))
case("rfft(x, over=W, modes=5)", "N=2, C=9, W=32", lambda x: real_of(fft.rfft(x)[..., :5]))
case("rfft(x, over=W, modes=5)", "N=2, W=31, C=9", lambda x: real_of(fft.rfft(x, dim=1)[:, :5]))
case("irfft(x, over=W, modes=5, size=32)", "N=2, C=9, W=5, Z=2", lambda x: fft.irfft(z_of(x), 32))
case("rfft(x, over=[H, W], modes=[3, 4])", "N=2, C=3, H=16, W=20",
     lambda x: real_of(low_modes(fft.rfft2(x)[..., :4], 3, 2)))
case("irfft(x, over=[H, W], modes=[3, 4], size=[15, 20])", "N=2, C=3, H=6, W=4, Z=2",
     lambda x: fft.irfft2(widened(z_of(x), 3, 15, 2), s=(15, 20)))
case("fft(x, over=W, modes=4)", "N=2, W=13, C=5, Z=2", complex_of(lambda z: low_modes(fft.fft(z, dim=1), 4, 1)))
case("ifft(x, over=W, modes=4, size=13)", "N=2, W=8, C=5, Z=2",
     complex_of(lambda z: fft.ifft(widened(z, 4, 13, 1), dim=1)))
case("ifft(fft(x, over=W), over=W)", "N=2, W=12, Z=2", lambda x: x)
# spectral weights: modes last, more and fewer than a vector; conjugates come with the gradients
for dtype, (n, c, o, k) in (("f32", (2, 4, 4, 5)), ("f32", (3, 5, 7, 19)), ("f64", (3, 4, 3, 9)),
                            ("f32", (5, 1, 1, 8))):
    case('complex_einsum("nck,cok->nok", x, w)', f"N={n}, C={c}, K={k}, Z=2",
         lambda x, w: real_of(torch.einsum("nck,cok->nok", z_of(x), z_of(w))), dtype,
         f"C={c}, O={o}, K={k}, Z=2")
case('complex_einsum("nchw,cohw->nohw", x, w)', "N=3, C=4, H=3, W=7, Z=2",
     lambda x, w: real_of(torch.einsum("nchw,cohw->nohw", z_of(x), z_of(w))),
     other="C=4, O=5, H=3, W=7, Z=2")
case('complex_einsum("nhcw,hcow->nohw", x, w)', "N=3, H=3, C=4, W=11, Z=2",
     lambda x, w: real_of(torch.einsum("nhcw,hcow->nohw", z_of(x), z_of(w))),
     other="H=3, C=4, O=5, W=11, Z=2")
case('complex_einsum("nck,co->nok", x, w)', "N=3, C=4, K=5, Z=2",
     lambda x, w: real_of(torch.einsum("nck,co->nok", z_of(x), z_of(w))), other="C=4, O=3, Z=2")
case('complex_einsum("nk,nk->nk", x, w)', "N=3, K=9, Z=2", lambda x, w: real_of(z_of(x) * z_of(w)),
     other="N=3, K=9, Z=2")
case('complex_einsum("nk,->nk", x, w)', "N=3, K=9, Z=2", lambda x, w: real_of(z_of(x) * z_of(w)), other="Z=2")
for half in ("bf16", "f16"):  # computed in f32, rounded on the way in and out
    case(f"(rfft(x as {half}, over=W) as f32)", "N=2, W=16", lambda x: real_of(fft.rfft(x)), half)

roundoff = {"f32": 1e-6, "f64": 3e-15, "bf16": 1e-2, "f16": 2e-3}
torch_type = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.float32, "f16": torch.float32}
stored = {"f32": "f32", "f64": "f64", "bf16": "f32", "f16": "f32"}


def run(device, cases):
    text, weights, double, values = ["model Fourier():", "    input v: f32[N, Y=1]", "    output v",
                                     "    loss = sum(v) * 0.0"], {}, [], []
    for i, (call, axes, value, dtype, other) in enumerate(cases):
        given = {"x": axes} | ({"w": other} if other else {})
        for n, of in given.items():
            weights[f"{n}{i}"] = torch.randn([int(a.split("=")[1]) for a in of.split(", ")]).to(torch_type[dtype])
            text.append(f"    param {n}{i}: {stored[dtype]}[{of.replace('N=', 'B=')}] ~ normal(0, 1)")
            text.append(f"    {n} = {n}{i}")
        double.append({n: weights[f"{n}{i}"].double().requires_grad_() for n in given})
        values.append(value(*double[i].values()))
        g = weights[f"g{i}"] = torch.randn(values[i].shape).to(torch_type[dtype])
        places = ", ".join(f"P{k}={n}" for k, n in enumerate(g.shape))
        text.append(f"    param g{i}: {stored[dtype]}[{places}] ~ normal(0, 1)")
        text.append(f"    y = {call} as [{', '.join(f'P{k}' for k in range(g.dim()))}]")
        text.append(f"    loss += sum(g{i} * y)" + (" as f32" if dtype == "f64" else ""))
    path = place / "fourier.dl"
    path.write_text("\n".join(text) + "\n")
    save_tensors(place / "w.safetensors", weights)
    save_tensors(place / "b.safetensors", {"v.0": torch.ones(2, 1)})
    place.run("dlrun", path, "--local_batch_size=2", f"--expdir={place / 'run'}",
              f"--init_weights={place / 'w.safetensors'}", "--optimizer=sgd",
              f"--replay={place / 'b.safetensors'}", f"--save_grads={place / 'g.safetensors'}", f"--device={device}")
    got = load_tensors(place / "g.safetensors")
    for i, (call, axes, _, dtype, _) in enumerate(cases):
        name = f"{device}: {call} of {dtype}[{axes}]"
        off = relative(got[f"g{i}"].double(), values[i].detach())  # the gradient of its weight is the value itself
        check(off < roundoff[dtype], f"{name}: the values are {off:.2g} off")
        truth = torch.autograd.grad((weights[f"g{i}"].double() * values[i]).sum(), list(double[i].values()))
        for n, want in zip(double[i], truth):
            off = relative(got[f"{n}{i}"].double(), want)
            check(off < roundoff[dtype], f"{name}: the gradient of {n} is {off:.2g} off")


for device in devices:
    # the emulated device computes every fifth case, of all four transforms, and all products that are not
    # contractions of real parts (which it computes in TF32)
    run(device, [c for i, c in enumerate(cases) if device == "cpu" or (c[4] and "co->" not in c[0]) or i % 5 == 0])

finish()
