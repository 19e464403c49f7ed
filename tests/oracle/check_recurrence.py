"""check_recurrence.py BUILD [DEVICE...]: lstm, gru and rnn next to torch.nn in float64: values and gradients of inputs,
weights and biases, in one direction and both, of several layers, few and many units, one step and many, from zero
states and from given ones, with and without the last states; in f32 and f64; in 16 bits by `dlc verify`.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from checks import some
from oracle_tools import Workplace, check, finish, load_tensors, relative, save_tensors, torch

os.environ.setdefault("DLR_CUDA_EMULATOR", os.path.join(sys.argv[1], "tests/emulator/libcuda_emulator.so"))
place = Workplace(sys.argv[1])
devices = sys.argv[2:] or ["cpu", "cuda:emulated"]
torch.manual_seed(7)
nn = torch.nn
kinds = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}
roundoff = {"f32": 2e-6, "f64": 1e-14}
torch_type = {"f32": torch.float32, "f64": torch.float64}
cases = []  # (kind, units, sizes of x, element type, first and last states, options)


def case(kind, units, sizes, dtype="f32", states="", **options):
    """states: "first", "last" or both: the layer takes them, and has them as results."""
    cases.append((kind, units, sizes, dtype, states, options))


for kind in kinds:
    case(kind, 5, (3, 7, 4))
    case(kind, 19, (7, 5, 6), bidirectional=True)
    case(kind, 16, (2, 4, 3), layers=3, bidirectional=True)
    case(kind, 33, (1, 3, 2), bias=False)
    case(kind, 9, (3, 6, 4), "f64", layers=2, bidirectional=True)
    case(kind, 1, (2, 1, 1))
    case(kind, 6, (2, 3, 5, 4))  # two axes of sequences
    case(kind, 8, (6, 4))  # one sequence
    case(kind, 21, (7, 5, 6), states="first last")
    case(kind, 6, (3, 4, 5), states="first last", layers=2, bidirectional=True)
    case(kind, 5, (2, 3, 4), "f64", "first last", bidirectional=True, bias=False)
    case(kind, 4, (2, 3, 5, 4), states="first")
    case(kind, 17, (5, 4), states="last")
    case(kind, 3, (2, 1, 2), states="first last")
case("rnn", 7, (3, 5, 4), nonlinearity="relu", bidirectional=True)
case("lstm", 40, (9, 60, 12))
case("lstm", 70, (50, 3, 8))  # several blocks of sequences
case("gru", 70, (50, 3, 8))
case("lstm", 4, (600, 2, 3), states="first last")  # several sequences of a block of threads
case("rnn", 5, (3, 4, 2), states="first last", nonlinearity="relu")


def net_of(kind, units, sizes, dtype, options):
    options = {"num_layers" if n == "layers" else n: v for n, v in options.items()}
    return kinds[kind](sizes[-1], units, batch_first=True, **options).to(torch_type[dtype])


def say(value):
    return f'"{value}"' if isinstance(value, str) else str(value).lower()


def run(device, cases):
    text, weights, nets, values = ["model Recurrent():", "    input v: f32[N, Y=1]", "    output v",
                                   "    loss = sum(v) * 0.0"], {}, [], []
    truth = []
    for i, (kind, units, sizes, dtype, states, options) in enumerate(cases):
        net = net_of(kind, units, sizes, dtype, options)
        weights |= {f"l{i}.{n}": p.detach().clone() for n, p in net.named_parameters()}
        axes = ["A", "B", "T", "E"][-len(sizes):]
        parts, each = (net.num_layers * (1 + net.bidirectional)), 1 + (kind == "lstm")
        given = {n: say(v) for n, v in options.items()}

        def own(name, of, shape):
            """A parameter of the model: its numbers in the weights' file, and in float64."""
            tensor = weights[f"{name}{i}"] = torch.randn(shape).to(torch_type[dtype])
            of = ", ".join(f"{a}={n}" for a, n in zip(of, shape))
            text.append(f"    param {name}{i}: {dtype}[{of}] ~ normal(0, 1)")
            return tensor.double().requires_grad_()

        leaves = {"x": own("x", axes, sizes)}
        of, shape = ["S"] + axes[:-2] + ["E"], [parts, *sizes[:-2], units]
        if "first" in states:
            leaves |= {n: own(n, of, shape) for n in ("h", "c")[:each]}
            given |= {f"{n}0": f"{n}{i}" for n in ("h", "c")[:each]}
        first = [leaves[n].reshape(parts, -1, units) for n in ("h", "c")[:each] if n in leaves]
        net = net.double()
        given_states = None if not first else tuple(first) if each == 2 else first[0]
        y, last = net(leaves["x"].reshape(-1, *sizes[-2:]), given_states)
        made = {"y": y.reshape(*sizes[:-1], -1)}
        if "last" in states:
            given["states"] = "true"
            made |= {f"last_{n}": v.reshape(shape) for n, v in zip("hc", last if each == 2 else [last])}
        nets.append(({f"{n}{i}": v for n, v in leaves.items()}, net)), values.append(made)
        factors = [own(f"g{n}", axes if n == "y" else ["L"] + of[1:], v.shape).detach() for n, v in made.items()]
        truth.append(sum((g * v).sum() for g, v in zip(factors, made.values())))
        arguments = "".join(f", {n}={v}" for n, v in given.items())
        text.append(f"    {', '.join(made)} = x{i} |> {kind}({units}{arguments}) @l{i}")
        for n in made:
            text.append(f"    loss += sum(g{n}{i} * {n})" + (" as f32" if dtype == "f64" else ""))
    path = place / "recurrent.dl"
    path.write_text("\n".join(text) + "\n")
    save_tensors(place / "w.safetensors", weights)
    save_tensors(place / "b.safetensors", {"v.0": torch.ones(2, 1)})
    place.run("dlrun", path, "--local_batch_size=2", f"--expdir={place / 'run'}",
              f"--init_weights={place / 'w.safetensors'}", "--optimizer=sgd", "--tf32=false",
              f"--replay={place / 'b.safetensors'}", f"--save_grads={place / 'g.safetensors'}", f"--device={device}")
    got = load_tensors(place / "g.safetensors")
    for i, (case, (leaves, net), made) in enumerate(zip(cases, nets, values)):
        name, most = f"{device}: {case}", roundoff[case[3]]
        for n, v in made.items():  # the gradient of its weight is the value itself
            off = relative(got[f"g{n}{i}"].double(), v.detach())
            check(off < most, f"{name}: the values of {n} are {off:.2g} off")
        wanted = leaves | {f"l{i}.{n}": p for n, p in net.named_parameters()}
        grads = torch.autograd.grad(truth[i], list(wanted.values()))
        for n, want in zip(wanted, grads):
            off = relative(got[n].double(), want)
            check(off < 5 * most, f"{name}: the gradient of {n} is {off:.2g} off")


# An emulated device has some of each kind, where a share is asked for.
for device in devices:
    run(device, cases if device == "cpu" else some(cases, lambda c: c[0], 3))

# 16 bits: every launch within what rounding allows
for kind in kinds:
    path = place / f"{kind}.dl"
    cell, more = (", c0=h", "c") if kind == "lstm" else ("", "h")
    last = f"h, {more}" if cell else more
    path.write_text("model Half():\n    input x: f32[N, T=6, E=5]\n    input h: f32[S=2, N, E=11]\n"
                    f"    y, {last} = x |> {kind}(11, bidirectional=true, states=true, h0=h{cell}) @l\n"
                    f"    output y\n    loss = mean(y**2) + mean({more}**2)\n")
    for target, mode in (("cpu", "bf16"), ("cpu", "fp16"), ("cuda:sm_80:emulated", "bf16")):
        place.run("dlc", "verify", path, "--local_batch_size=7", f"--amp_mode={mode}", f"--target={target}")
finish()
