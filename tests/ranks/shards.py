"""What tests of checkpoints in several files share: their tensors put together, by nothing but Python's own library."""
import json
import math
import pathlib
import struct


def read_file(path):
    """{name: (type, shape, bytes, offsets)} of a safetensors file; offsets as torch.distributed.checkpoint keeps them,
    or zeros."""
    raw = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + size])
    boxes = json.loads(header.pop("__metadata__", {}).get("DCP_SHARDING_INFO", "{}"))
    return {name: (t["dtype"], t["shape"], raw[8 + size + t["data_offsets"][0]:8 + size + t["data_offsets"][1]],
                   boxes[name]["saved_offsets"] if boxes else [0] * len(t["shape"])) for name, t in header.items()}


def join(pieces):
    """(type, shape, bytes) of a whole; None where its boxes do not fill it."""
    rank = len(pieces[0][1])
    shape = [max(p[1][i] + p[3][i] for p in pieces) for i in range(rank)]
    each = {"F32": 4, "I32": 4, "I64": 8, "F64": 8}[pieces[0][0]]
    whole, filled = bytearray(math.prod(shape) * each), 0
    for _, inner, data, at in pieces:
        run = inner[-1] if rank else 1
        for k in range(len(data) // (run * each) if run else 0):
            left, place = k, at[-1] if rank else 0
            for i in range(rank - 2, -1, -1):
                place += (at[i] + left % inner[i]) * math.prod(shape[i + 1:])
                left //= inner[i]
            whole[place * each:(place + run) * each] = data[k * run * each:(k + 1) * run * each]
        filled += len(data)
    return (pieces[0][0], shape, bytes(whole)) if filled == len(whole) else None


def tensors(checkpoint):
    """{name: (type, shape, bytes)} of all that a checkpoint holds, in however many files."""
    pieces = {}
    for path in sorted(pathlib.Path(checkpoint).glob("*.safetensors")):
        for name, t in read_file(path).items():
            pieces.setdefault(name, []).append(t)
    return {name: join(p) for name, p in pieces.items()}
