"""The files of a run, read by other means than our own: safetensors and PyTorch, TensorBoard's records, metrics.jsonl.

check_io.py IO_EXCHANGE     (the program built from io_exchange.c); exit status 77: torch or numpy is missing
"""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

from crc32c import crc32c
from strict import check, finish

try:
    import numpy as np
    import torch
except ImportError:
    print("SKIP: needs numpy and torch")
    sys.exit(77)

DTYPES = {"F32": torch.float32, "F64": torch.float64, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64}


# Safetensors ------------------------------------------------------------------------------------------------------

def read_safetensors(path):
    raw = path.read_bytes()
    (n,) = struct.unpack_from("<Q", raw)
    check((8 + n) % 64 == 0, "data starts at a multiple of 64")
    header = json.loads(raw[8:8 + n])
    header.pop("__metadata__", None)
    ends = sorted(tuple(t["data_offsets"]) for t in header.values())
    check([a for a, _ in ends] == [0] + [b for _, b in ends[:-1]] and 8 + n + ends[-1][1] == len(raw), "no gaps")
    tensors = {}
    for name, t in header.items():
        begin, end = t["data_offsets"]
        data = bytearray(raw[8 + n + begin:8 + n + end])
        tensors[name] = torch.frombuffer(data, dtype=DTYPES[t["dtype"]]).reshape(t["shape"])
    return tensors


def write_safetensors(path, tensors):
    """As other programs do: padded to 8 bytes only; the first tensor has 6 bytes, so that the next ones lie
    unaligned."""
    header, data = {"__metadata__": {"format": "pt"}}, bytearray()
    names = {dtype: name for name, dtype in DTYPES.items()}
    for name, t in tensors.items():
        raw = t.reshape(-1).view(torch.uint8).numpy().tobytes()
        header[name] = {"dtype": names[t.dtype], "shape": list(t.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv3d(4, 5, 3)
        self.bn = torch.nn.BatchNorm3d(5)


def check_checkpoint(run):
    check((run / "checkpoints/last").resolve().name == "step-00000048", "last")
    check((run / "checkpoints/best").resolve().name == "step-00000048", "best")
    state = json.loads((run / "checkpoints/last/state.json").read_text())
    check(state["iteration"] == 48 and state["best_loss"] == 0.0437 and state["seed"] == "7", "state.json")
    block = Block()
    order = [n for n in block.state_dict() if not n.endswith("tracked")]
    block.load_state_dict(read_safetensors(run / "checkpoints/last/model.safetensors"), strict=True)
    for k, name in enumerate(order):
        got = block.state_dict()[name].flatten()
        check(torch.equal(got, k + torch.arange(got.numel()) / 8), name)
    check(block.bn.num_batches_tracked.item() == 48, "num_batches_tracked")


def check_reading(program, run):
    torch.manual_seed(1)
    tensors = {"module.h": torch.randn(3).half(), "module.b": torch.randn(2, 2).bfloat16(),
               "module.conv.weight": torch.randn(4, 3, 2),
               "module._orig_mod.d": torch.randn(5, dtype=torch.float64), "n": torch.tensor(2 ** 40),
               "e": torch.zeros(0, 3)}
    path = run / "torch.safetensors"
    write_safetensors(path, tensors)
    lines = subprocess.run([program, "read", path], check=True, capture_output=True, text=True).stdout.splitlines()
    got = {line.split()[0]: line.split()[1:] for line in lines}
    check(set(got) == {"h", "b", "conv.weight", "d", "n", "e"}, "names without prefixes")
    for name, t in tensors.items():
        dtype, shape, *values = got[name.replace("module.", "").replace("_orig_mod.", "")]
        check(DTYPES[dtype] == t.dtype and json.loads(shape) == list(t.shape), name)
        want = t.flatten().tolist() if t.dtype == torch.int64 else t.float().flatten().tolist()
        check(want == [float(np.float32(v)) for v in values], f"values of {name}")


# TensorBoard ------------------------------------------------------------------------------------------------------

def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff


def records(raw):
    while raw:
        length, length_crc = struct.unpack_from("<QI", raw)
        data = raw[12:12 + length]
        (data_crc,) = struct.unpack_from("<I", raw, 12 + length)
        check(length_crc == masked(raw[:8]) and data_crc == masked(data), "record CRC")
        yield data
        raw = raw[16 + length:]


def fields(data):
    """A protobuf message as {field: [values]}; the types are left to the caller."""
    at, out = 0, {}

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            value = varint()
        else:
            n = {1: 8, 5: 4}.get(key & 7) or varint()
            value, at = data[at:at + n], at + n
        out.setdefault(key >> 3, []).append(value)
    return out


def check_events(run):
    (path,) = (run / "logs").iterdir()
    name = path.name.split(".")
    check(name[:3] == ["events", "out", "tfevents"] and len(name[3]) == 10 and name[-1] == "0", "file name")
    events = [fields(r) for r in records(path.read_bytes())]
    check(len(events) == 8, "eight events")
    times = [struct.unpack("<d", e[1][0])[0] for e in events]
    check(times == sorted(times) and abs(times[0] - path.stat().st_mtime) < 60, "wall times")
    check(events[0][3] == [b"brain.Event:2"], "version first")
    check(fields(events[1][7][0]) == {1: [1]} and events[1][2] == [49], "START with the first step to come")
    values = [fields(fields(e[5][0])[1][0]) for e in events[2:]]
    steps = [e.get(2, [0])[0] for e in events[2:]]
    check(steps == [0, 300, 48, 0, 0, 0] and 2 not in events[2], "steps, 0 left out")
    check(values[0] == {1: [b"Loss/valid"], 2: [struct.pack("<f", 0.0873)]}, "scalar")
    check(values[1] == {1: [b"Learning Rate"], 2: [struct.pack("<f", 1e-4)]}, "scalar")
    check(fields(values[2][4][0]) == {1: [32], 2: [64], 3: [3], 4: [b"not really a PNG, but \0 bytes\0"]}, "image")
    check(values[3][1] == [b"config/text_summary"] and fields(fields(values[3][9][0])[1][0])[1] == [b"text"],
          "text plugin")
    check(fields(values[3][8][0]) == {1: [7], 2: [b""], 8: ["**short** \xe9".encode()]}, "text")
    start = fields(fields(fields(values[4][9][0])[1][0])[2][0])[3][0]
    pairs = {fields(m)[1][0]: fields(fields(m)[2][0]) for m in fields(start)[1]}
    check(pairs == {b"config": {3: [b"short"]}, b"lr": {2: [struct.pack("<d", 1e-4)]}}, "hparams")
    check(values[4][1] == [b"_hparams_/session_start_info"] and values[5][1] == [b"_hparams_/session_end_info"],
          "hparams tags")
    end = fields(fields(fields(values[5][9][0])[1][0])[2][0])[4][0]
    check(fields(end)[1] == [1], "session ended with success")


def check_metrics(run):
    (line,) = (run / "metrics.jsonl").read_text().splitlines()
    check(json.loads(line) == {"epoch": 1, "iteration": 24, "Loss/valid": 0.1 + 0.2, "x": None}, "metrics.jsonl")


with tempfile.TemporaryDirectory() as tmp:
    run = pathlib.Path(tmp)
    subprocess.run([sys.argv[1], "write", run], check=True)
    check_checkpoint(run)
    check_reading(sys.argv[1], run)
    check_events(run)
    check_metrics(run)
finish()
