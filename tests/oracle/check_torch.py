"""Files of PyTorch's, read and written, next to PyTorch: torch.save, our reader, our writer, torch.load, bit for bit.

check_torch.py TORCH_EXCHANGE     (the program built from torch_exchange.c); exit status 77: torch is missing
"""
import collections
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

from strict import check, finish, is_modern

try:
    import torch
except ImportError:
    print("SKIP: needs torch")
    sys.exit(77)

PROGRAM = sys.argv[1]
DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16,
          torch.int8,
          torch.uint8, torch.bool]


def load(path, **more):
    return torch.load(path, map_location="cpu", **({"weights_only": False} if is_modern(torch) and not more else more))


def bits(t):
    t = t.detach().clone(memory_format=torch.contiguous_format).reshape(-1)
    return bytes(t.tolist()) if t.dtype == torch.bool else t.view(torch.uint8).numpy().tobytes() if t.numel() else b""


def same(a, b, where="root"):
    """Equal in kind and to the last bit; the order of dictionaries counts."""
    if torch.is_tensor(a):
        check(torch.is_tensor(b) and a.dtype == b.dtype and a.shape == b.shape and bits(a) == bits(b), where)
        return
    check(type(a) is type(b), f"{where}: {type(a)} and {type(b)}")
    if isinstance(a, dict):
        check(list(a) == list(b), f"{where}: {list(a)} and {list(b)}")
        for k in a:
            same(a[k], b[k], f"{where}.{k}")
    elif isinstance(a, (list, tuple)):
        check(len(a) == len(b), where)
        for i, (x, y) in enumerate(zip(a, b)):
            same(x, y, f"{where}[{i}]")
    else:
        check(a == b or a != a and b != b, f"{where}: {a!r} and {b!r}")


def run(*args):
    return subprocess.run([PROGRAM, *map(str, args)], capture_output=True, text=True)


def done(*args):
    r = run(*args)
    check(r.returncode == 0, f"{args}: {r.returncode} {r.stderr}")


def sample(dtype, *shape):
    """Numbers of every kind: the bits are random."""
    n = int(torch.tensor(shape).prod()) if shape else 1
    if dtype == torch.bool:
        return (torch.randn(shape) > 0)
    raw = torch.randint(0, 256, (n * torch.empty(0, dtype=dtype).element_size(),), dtype=torch.uint8)
    return raw.view(dtype).reshape(shape)


def every_type():
    return {str(d): [sample(d, 3, 5), sample(d), sample(d, 0), sample(d, 2, 0, 3)] for d in DTYPES}


def views():
    base = torch.randn(4, 5, 6)
    big = torch.randn(300, 7000)  # two pieces, of a transposed one
    return {"whole": base, "turned": base.t() if base.dim() == 2 else base.permute(2, 0, 1),
            "slice": base[1:3, ::2, 1:],
            "column": base[:, 2, 3], "one": base[2, 3, 4], "expanded": base[0, 0, :1].expand(3, 4),
            "middle": base.view(-1)[7:19],
            "channels last": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last), "big": big.t(),
            "strided": torch.randn(40)[::3], "bools": (torch.randn(6, 6) > 0).t(),
            "doubles": torch.randn(9, 9).double().t()[2:]}


def numbers():
    return {"ints": [0, 1, -1, 255, 256, 65535, 65536, 2 ** 31 - 1, 2 ** 31, -2 ** 31, -2 ** 31 - 1, 2 ** 63 - 1,
                     -2 ** 63],
            "reals": [0.0, -0.0, 1e-320, 1e308, float("inf"), float("-inf"), float("nan"), 0.1],
            "rest": [None, True, False, "", "text", "\u00e9\U0001f600", 'a"b\n'],
            "tuples": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)],
            "empty": [[], {}, collections.OrderedDict()], "deep": [[[[[[["x"]]]]]]], 7: "by number", -1: {0: {1: 2}},
            "many": {i: float(i) for i in range(3000)}, "long": list(range(5000))}


def trained():
    torch.manual_seed(3)
    net = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.BatchNorm2d(3), torch.nn.Flatten(),
                              torch.nn.Linear(12, 4))
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, factor=0.2, patience=10, mode="min")
    for _ in range(3):
        opt.zero_grad()
        net(torch.randn(5, 2, 4, 4)).square().mean().backward()
        opt.step()
        plateau.step(0.5)
    return net, {"iters": 3, "epoch": 1, "model_state": net.state_dict(), "optimizer_state_dict": opt.state_dict(),
                 "scheduler_state_dict": plateau.state_dict()}


def check_copies(tmp):
    shared = torch.randn(6)
    parameter = torch.nn.Parameter(torch.randn(3))
    trees = {"types": every_type(), "views": views(), "numbers": numbers(), "seeds": trained()[1],
             "bare": trained()[0].state_dict(),
             "shared": {"a": shared, "b": shared[2:], "c": shared, "l": [shared] * 3},
             "parameter": {"p": parameter, "q": [parameter]}}
    for name, tree in trees.items():
        path, out = tmp / f"{name}.pt", tmp / f"{name}.copy"
        holder = tree if all(torch.is_tensor(v)
                             for v in tree.values()) or "model_state" in tree else {"model": {}, "tree": tree}
        torch.save(holder, path)
        done("copy", path, out)
        same(load(path), load(out), name)
        check(all(i.header_offset == 0 or i.compress_type == 0 for i in zipfile.ZipFile(out).infolist()), "stored")
        check(zipfile.ZipFile(out).testzip() is None, f"{name}: CRCs")
        if is_modern(torch):
            same(load(path), load(out, weights_only=True), f"{name}, weights only")


def check_states(tmp):
    """The model's state, wherever it is; with and without prefixes; into either format and back."""
    state = trained()[0].state_dict()
    plain = collections.OrderedDict((k, v.clone()) for k, v in state.items())  # without _metadata
    prefixed = {"module._orig_mod." + k: v for k, v in plain.items()}
    for name, tree in {"bare": state, "plain": dict(plain),
                       "model_state": {"epoch": 3, "model_state": prefixed, "best": 0.5},
                       "model_state_dict": {"model_state_dict": plain, "args": {"lr": (1, 2)}},
                       "state_dict": {"state_dict": prefixed},
                       "model": {"model": plain, "optimizer": {}},
                       "nested": {"model": {"state_dict": prefixed, "config": "x"}}}.items():
        path = tmp / f"state {name}.tar"
        torch.save(tree, path)
        for step in (["a.safetensors", "b.pt"], ["a.pth", "b.tar"]):
            first, second = tmp / step[0], tmp / step[1]
            done("convert", path, first)
            done("convert", first, second)
            got = load(second, weights_only=True)
            check(type(got) is collections.OrderedDict, name)
            want = plain if step[0] == "a.pth" else {k: plain[k] for k in got}  # safetensors order by width
            same(collections.OrderedDict(want), got, name)
            net = trained()[0]
            net.load_state_dict(got)
            check(all(torch.equal(v, state[k]) for k, v in net.state_dict().items()), f"{name}: load_state_dict")
    z = torch.randn(3, 5, dtype=torch.complex64)
    pairs = {"z": z, "t": z.T[1:, 1:], "d": z.to(torch.complex128)[2], "s": z[1, 1]}  # views, a scalar
    torch.save(pairs, tmp / "complex.pt")
    done("convert", tmp / "complex.pt", tmp / "complex.pth")
    same({k: torch.view_as_real(v).contiguous() for k, v in pairs.items()},
         dict(load(tmp / "complex.pth", weights_only=True)), "complex numbers as pairs")
    odd = {"": torch.ones(1), "a b\n\"'\\": torch.ones(2), "\u00e9\u4e2d\U0001f600": torch.ones(3),
           "x" * 5000: torch.ones(4), "...": torch.ones(5)}
    torch.save(odd, tmp / "odd.pt")
    done("convert", tmp / "odd.pt", tmp / "odd.pth")
    same(odd, dict(load(tmp / "odd.pth", weights_only=True)), "odd names")


def check_unsigned(tmp):
    """Types that PyTorch 1.13 lacks are read."""
    tensors = {"h": torch.tensor([1, 65535], dtype=torch.uint16),
               "w": torch.tensor([[7], [2 ** 32 - 1]], dtype=torch.uint32).t(),
               "l": torch.tensor(2 ** 64 - 1, dtype=torch.uint64)}
    torch.save(tensors, tmp / "unsigned.pt")
    done("convert", tmp / "unsigned.pt", tmp / "unsigned.safetensors")
    raw = (tmp / "unsigned.safetensors").read_bytes()
    n = int.from_bytes(raw[:8], "little")
    check(raw[8 + n:] == bits(tensors["l"]) + bits(tensors["w"]) + bits(tensors["h"]), "unsigned")


class Evil:
    def __init__(self, *call):
        self.call = call

    def __reduce__(self):
        return self.call


def check_refusals(tmp):
    ran = tmp / "ran"
    cases = {
        "os.system": ({"x": Evil(os.system, (f"touch {ran}",))}, r"system"),
        "eval": ({"x": Evil(eval, (f"open({str(ran)!r}, 'w')",))}, "builtin"),
        "a module": (torch.nn.Linear(2, 2), "torch.nn.modules.linear.Linear"),
        "a function": ({"f": torch.load}, "torch.serialization.load"),
        "a set": ({"s": {1, 2}}, "set"),
        "bytes": ({"b": b"xy"}, "_codecs.encode"),
        "complex and large": ({"c": torch.zeros([1] * 8, dtype=torch.complex64)}, "a complex tensor of 8 dimensions"),
        "large": ({"n": 2 ** 70}, "at most 8"),
        "two states": ({"model": {}, "state_dict": {}}, "both 'state_dict' and 'model'"),
        "no state": ({"epoch": 3, "net": {"w": torch.ones(2)}}, "'epoch' is a whole number"),
        "a tensor": (torch.ones(3), "holds a tensor"),
        "sparse": ({"s": torch.ones(2, 2).to_sparse()}, "_rebuild_sparse_tensor"),
        "a float as a key": ({1.5: 2}, "a number as a dictionary's key"),
    }
    for name, (tree, says) in cases.items():
        path = tmp / "bad.pt"
        torch.save(tree, path)
        r = run("convert", path, tmp / "out.pt")
        check(r.returncode == 3 and says in r.stderr and "bad.pt" in r.stderr, f"{name}: {r.returncode} {r.stderr}")
    check(not ran.exists() and not (tmp / "out.pt").exists(), "nothing of it ran")
    loop = []
    loop.append(loop)
    for protocol, tree, says in ((2, {"l": loop}, "holds itself"), (3, {"a": torch.ones(2)}, "protocol 3"),
                                 (4, {"a": 1}, "protocol 4")):
        torch.save(tree, tmp / "bad.pt", pickle_protocol=protocol)
        r = run("convert", tmp / "bad.pt", tmp / "out.pt")
        check(r.returncode == 3 and says in r.stderr, f"{says}: {r.stderr}")
    torch.save({"a": torch.ones(2)}, tmp / "bad.pt", _use_new_zipfile_serialization=False)
    r = run("convert", tmp / "bad.pt", tmp / "out.pt")
    check(r.returncode == 3 and "before 1.6" in r.stderr and "torch.save(torch.load(" in r.stderr, r.stderr)
    torch.save({"a": torch.ones(2)}, tmp / "good.pt")
    with zipfile.ZipFile(tmp / "good.pt") as source, zipfile.ZipFile(tmp / "bad.pt", "w",
                                                                     zipfile.ZIP_DEFLATED) as packed:
        for name in source.namelist():
            packed.writestr(name, source.read(name))
    r = run("convert", tmp / "bad.pt", tmp / "out.pt")
    check(r.returncode == 3 and "compressed" in r.stderr, r.stderr)


def check_flips(tmp):
    """A flipped bit of a storage is an error, also of a tensor that lies in it in another order or has a part of it."""
    shared = torch.arange(24.0)
    torch.save({"state_dict": {"plain": torch.arange(5), "turned": torch.arange(12.0).reshape(3, 4).t(),
                               "part": shared[20:]}},
               tmp / "sound.pt")
    raw = (tmp / "sound.pt").read_bytes()
    for entry in zipfile.ZipFile(tmp / "sound.pt").infolist():
        if "/data/" not in entry.filename:
            continue
        begin = entry.header_offset + 30 + sum(int.from_bytes(raw[entry.header_offset + k:entry.header_offset + k + 2],
                                                              "little")
                                               for k in (26, 28))
        for at in (begin, begin + entry.file_size // 2, begin + entry.file_size - 1):
            flipped = bytearray(raw)
            flipped[at] ^= 1
            (tmp / "flipped.pt").write_bytes(flipped)
            r = run("convert", tmp / "flipped.pt", tmp / "out.pt")
            check(r.returncode == 3 and f"checksum of entry '{entry.filename}'" in r.stderr,
                  f"{entry.filename}: {r.stderr}")
    done("convert", tmp / "sound.pt", tmp / "out.pt")


with tempfile.TemporaryDirectory() as place:
    torch.manual_seed(1)
    check_copies(pathlib.Path(place))
    check_states(pathlib.Path(place))
    check_refusals(pathlib.Path(place))
    check_flips(pathlib.Path(place))
    if is_modern(torch):
        check_unsigned(pathlib.Path(place))
finish()
