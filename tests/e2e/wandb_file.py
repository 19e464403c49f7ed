"""A reader of Weights & Biases' offline files by the format's own rules, for tests: nothing of ours, nothing of theirs.

LevelDB's log format (doc/log_format.md) after a header of seven bytes, with zlib's CRC-32; in it protobuf's wire
format, with the field numbers of wandb_internal.proto.
"""
import glob
import json
import os
import struct
import zlib

BLOCK = 32768
KINDS = {2: "history", 3: "summary", 5: "config", 6: "files", 17: "run", 18: "exit", 20: "final", 21: "header",
         23: "preempting"}
RUN = {1: "run_id", 2: "entity", 3: "project", 6: "run_group", 7: "job_type", 8: "display_name", 9: "notes",
       12: "sweep_id", 13: "host"}


class Damaged(Exception):
    pass


def records(raw):
    """The records' bytes; where the file is torn or damaged, Damaged after those before."""
    if raw[:7] != b":W&B" + struct.pack("<HB", 0xBEE1, 0):
        raise Damaged("header")
    at, parts = 7, []
    while at < len(raw):
        room = BLOCK - at % BLOCK
        if room < 7:
            if raw[at:at + room].strip(b"\0"):
                raise Damaged(f"padding at {at}")
            at += room
            continue
        if at + 7 > len(raw):
            raise Damaged(f"torn at {at}")
        crc, n, kind = struct.unpack_from("<IHB", raw, at)
        data = raw[at + 7:at + 7 + n]
        if n > room - 7 or len(data) < n or zlib.crc32(bytes([kind]) + data) != crc or kind not in (1, 2, 3, 4) or (
                kind in (1, 2)) != (not parts):
            raise Damaged(f"chunk at {at}")
        at += 7 + n
        parts.append(data)
        if kind in (1, 4):
            yield b"".join(parts)
            parts = []
    if parts:
        raise Damaged("a record without an end")


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
        if byte < 128:
            return value, at


def fields(data):
    """[(field, number or bytes)] of a message."""
    at, found = 0, []
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        elif key & 7 == 2:
            n, at = varint(data, at)
            if at + n > len(data):
                raise Damaged("a field that is too long")
            value, at = data[at:at + n], at + n
        else:
            raise Damaged(f"wire type {key & 7}")
        found.append((key >> 3, value))
    return found


def only(data, field, default=b""):
    values = [v for f, v in fields(data) if f == field]
    if len(values) > 1:
        raise Damaged(f"field {field} {len(values)} times")
    return values[0] if values else default


def items(data, field=1):
    """{key: value} of history, summary or configuration."""
    pairs = [(only(v, 1).decode(), json.loads(only(v, 16))) for f, v in fields(data) if f == field]
    if len(dict(pairs)) != len(pairs):
        raise Damaged(f"a key twice: {[k for k, _ in pairs]}")
    return dict(pairs)


def decode(number, record):
    """(kind, what it says)."""
    (one, count), (field, data) = fields(record)
    if (one, count) != (1, number):
        raise Damaged(f"record {number} has number {count}")
    kind = KINDS[field]
    if kind == "history":
        values = items(data)
        if only(only(data, 2), 1, 0) != values["_step"]:
            raise Damaged("step and _step differ")
        return kind, values
    if kind in ("summary", "config"):
        return kind, items(data)
    if kind == "files":
        return kind, [only(v, 1).decode() for f, v in fields(data) if f == 1]
    if kind == "run":
        run = {RUN[f]: v.decode() for f, v in fields(data) if f in RUN}
        run["tags"] = [v.decode() for f, v in fields(data) if f == 10]
        return kind, {**run, "config": items(only(data, 4)), "start": only(only(data, 17), 1, 0)}
    if kind == "exit":
        return kind, only(data, 1, 0)
    return kind, None


def decoded(raw):
    return [decode(i + 1, r) for i, r in enumerate(records(raw))]


class Run:
    """The run that DIR/latest-run links to."""

    def __init__(self, dir):
        self.folder = os.path.realpath(f"{dir}/latest-run")
        (self.path,) = glob.glob(f"{self.folder}/run-*.wandb")
        with open(self.path, "rb") as f:
            self.raw = f.read()
        self.records = decoded(self.raw)
        (self.run,) = self.all("run")
        self.history = self.all("history")
        self.exit = self.all("exit")
        self.config = dict(self.run["config"])
        for c in self.all("config"):
            self.config.update(c)

    def all(self, kind):
        return [what for k, what in self.records if k == kind]
