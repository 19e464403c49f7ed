#!/usr/bin/env python3
"""The split of samples: at random, by groups, with a gap, and never a sample in both parts.

check_splits.py BUILD

Every sample holds its own number.
"""
import os
import sys

from checks import check, finish
from datasets import BUILD, config, faults, model, run, samples

try:
    import h5py
    import numpy as np
except ImportError as missing:
    print(f"SKIP: {missing} (scripts/install-packages test)")
    sys.exit(77)

random = np.random.default_rng(5)
N = 60
subject = random.integers(0, 9, N) * 10
np.save("x.npy", np.stack([np.arange(N), np.zeros(N)], 1).astype("f4"))
with h5py.File("s.h5", "w") as f:
    f["subject"], f["half"], f["void"] = subject, subject[:30], np.where(subject == 30, np.nan, subject)
for i in range(3):
    with h5py.File(f"s{i}.h5", "w") as f:
        f["subject"] = subject[20 * i:20 * i + 20]
model("one",
      "model One():\n    input x: f32[N, F=2]\n    y = x |> linear(1) @fc\n    output y\n    loss = mean(y**2)\n")
model("pair",
      "model Pair():\n    input x: f32[N, F=2]\n    target t: f32[N, F=2]\n    y = x |> linear(2) @fc\n    output y\n"
      "    loss = mse_loss(y, t)\n")


def numbers(split, *options, name="one", more=""):
    """The numbers of both parts, in order."""
    config(f"inputs: {{x: x.npy}}\n{more}split: {split}")
    got = [samples(name, part, 0, *options) for part in ("train", "valid")]
    if any(isinstance(g, str) for g in got):
        check(False, f"{split}: {got}")
        return [], []
    return tuple(sorted(int(i) for i in g["x"][:, 0]) for g in got)


def apart(train, valid, want, what):
    check(not set(train) & set(valid) and len(set(train)) == len(train),
          f"{what}: a sample is in both parts, or twice: {train} {valid}")
    check((len(train), len(valid)) == want, f"{what}: {len(train)} and {len(valid)} samples")


# ---- at random ----

train, valid = numbers("{valid: 0.1, shuffle: true}")
apart(train, valid, (54, 6), "shuffle"), check(valid != list(range(54, 60)) and sorted(train + valid) == list(range(N)),
                                               f"drawn: {valid}")
check(numbers("{valid: 0.1, shuffle: true}") == (train, valid), "the same again")
check(numbers("{valid: 0.1, shuffle: true}", "--seed=77")[1] != valid, "another seed, another split")
seven = numbers("{valid: 0.1, shuffle: 7}")
apart(*seven, (54, 6),
      "shuffle: 7"), check(seven[1] != valid and numbers("{valid: 0.1, shuffle: 7}", "--seed=77") == seven,
                           "a seed of its own")
check(numbers("{valid: 0.1, shuffle: false}")[1] == list(range(54, 60)), "shuffle: false")
apart(*numbers("{train: 0.3, valid: 0.2, shuffle: true}"), (18, 12), "fractions of both")
spread = np.mean([np.mean(numbers(f"{{valid: 0.25, shuffle: {i}}}")[1]) for i in range(12)])
check(22 < spread < 37, f"from all over the file: {spread}")
for share, n in ((0.5, 7), (0.1, 15), (0.3, 5)):  # halves are rounded, and not both up
    np.save("x.npy", np.stack([np.arange(n), np.zeros(n)], 1).astype("f4"))
    for more in ("", ", shuffle: true"):
        got = numbers(f"{{valid: {share}{more}}}")
        apart(*got, (n - int(share * n + 0.5), int(share * n + 0.5)), f"{share} of {n}{more}")
np.save("x.npy", np.stack([np.arange(N), np.zeros(N)], 1).astype("f4"))

# ---- statistics are of the training part, and are kept ----

config("inputs: {x: {file: big.npy, normalize: standardize}}\nsplit: {valid: 0.2, shuffle: true}")
big = random.standard_normal((N, 2)).astype("f4") + np.arange(N)[:, None] * 3
np.save("big.npy", big.astype("f4"))
train = numbers("{valid: 0.2, shuffle: true}")[0]
valid = numbers("{valid: 0.2, shuffle: true}")[1]
config("inputs: {x: {file: big.npy, normalize: standardize}}\nsplit: {valid: 0.2, shuffle: true}")
got = samples("one", "valid")
part = big.astype("f4")[train].astype("f8")
want = (big.astype("f4")[valid] - part.mean()) / part.std()
check(not isinstance(got, str) and np.allclose(got["x"], want, atol=1e-5),
      f"statistics: {got if isinstance(got, str) else np.abs(got['x'] - want).max()}")
check(os.path.exists("big.npy.statistics"), "kept")

# ---- by group ----

for group in ("'s.h5:subject'", "{file: s.h5, array: subject}", "'s?.h5:subject'"):
    train, valid = numbers(f"{{valid: 0.3, group: {group}}}")
    held, kept = ({int(subject[i]) for i in part} for part in (valid, train))
    apart(train, valid, (len(train), N - len(train)), group)
    check(not held & kept and held == set(sorted(set(subject))[-len(held):])
          and len(held) == round(0.3 * len(set(subject))), f"{group}: the last groups: {held} {kept}")
train, valid = numbers("{valid: 0.3, group: 's.h5:subject', shuffle: 4}")
held, kept = ({int(subject[i]) for i in part} for part in (valid, train))
check(not held & kept and len(train) + len(valid) == N and held != set(sorted(set(subject))[-len(held):]),
      f"groups at random: {held} {kept}")

# ---- pairs: shuffled as pairs, and within a group ----

PAIR = "targets: {t: {file: x.npy, offset: 2}}\n"
train, valid = numbers("{valid: 0.25, shuffle: true}", name="pair", more=PAIR)
check(sorted(train + valid) == list(range(58)), f"pairs at random: {train} {valid}")
runs = np.repeat(np.arange(6), 10)
with h5py.File("runs.h5", "w") as f:
    f["run"] = runs
config("inputs: {x: x.npy}\n" + PAIR + "split: {valid: 0.34, group: 'runs.h5:run', shuffle: 3}")
both = [samples("pair", part) for part in ("train", "valid")]
for got in both:
    check(not isinstance(got, str)
          and all(runs[int(a)] == runs[int(b)] and b - a == 2 for a, b in zip(got["x"][:, 0], got["t"][:, 0])),
          "pairs stay within a group")
check(not any(isinstance(g, str) for g in both) and len(both[0]["x"]) == 32 and len(both[1]["x"]) == 16,
      "8 pairs of each run of 10")

# ---- a gap ----

check(numbers("{valid: 0.25, gap: 5}") == (list(range(40)), list(range(45, 60))), "a gap before validation")
check(numbers("{valid: [0, 20], train: [15, 60], gap: 4}".replace("15", "20")) ==
      (list(range(24, 60)), list(range(20))), "a gap after validation")
check(numbers("{valid: [40, 60], train: [0, 30], gap: 4}") == (list(range(30)), list(range(40, 60))),
      "ranges that are far apart already")

# ---- a run of several ranks takes the same split ----

config("inputs: {x: x.npy}\nsplit: {valid: 0.2, shuffle: true}", num_epochs=1, lr=0.0)
done = run(BUILD + "/cli/dlc", "check", "one.dl", "--yaml_config=c.yaml")
check(b"48 samples for training, 12 for validation" in done.stdout, done.stdout + done.stderr)

# ---- faults ----

base = "inputs: {x: x.npy}\nsplit: "
for split, want in [
        ("{valid: 0.1, shuffle: maybe}",
         "data.split.shuffle must be true (by the run's seed), false, or a seed of its own, 0 or more, not 'maybe'"),
        ("{valid: [50, 60], train: [0, 50], shuffle: true}",
         "data.split.shuffle goes with fractions, as {valid: 0.1, shuffle: ...}"),
        ("{valid: 0.1, shuffle: true, gap: 3}",
         "data.split.gap lies between samples in their order: with shuffle, a split has none"),
        ("{valid: 0.1, gap: 0}", "data.split.gap must be an integer of at least 1, not '0'"),
        ("{valid: 0.5, gap: 30}", "data.split.gap: 30 leaves training no samples of axis N"),
        ("{valid: 0.1, shuffle: true, axis: F}",
         "data.split.shuffle is of samples along an axis N, and data.split.axis names another"),
        ("{valid: 0.1, group: 's.h5:subjects'}", "data.split.group: s.h5 has no array 'subjects'"),
        ("{valid: 0.1, group: 's.h5:half'}", "data.split.group has 30 numbers in 1 files (s.h5), for 60 samples"),
        ("{valid: 0.1, group: 's.h5:void'}", "is nan: it names no group"),
        ("{valid: 0.01, group: 's.h5:subject'}", "groups is not one of them: take a larger share"),
        ("{valid: 0.1, group: {array: subject}}", "data.split.group.file is missing"),
        ("{valid: 0.1, group: 3}", "data.split.group must be FILE:ARRAY or {file, array}, not '3'"),
        ("{valid: 0.1, group: {file: s.h5, arrays: 3}}",
         "data.split.group has no key 'arrays'; did you mean 'array'?")]:
    config(base + split)
    faults("one", want)

# ---- classes: counted; a file sorted by class ----

model("classes",
      "model S():\n    input x: f32[N, F=10]\n    target t: i64[N]\n    y = x |> linear(10) @fc as [N, C]\n"
      "    output y\n    loss = cross_entropy(y, t)\n"
      "    metric acc = mean(argmax(y, over=C) == t)\n")
y = np.repeat(np.arange(10), 20)
with h5py.File("sorted.h5", "w") as f:
    f["x"], f["y"] = (np.eye(10)[y] + 0.1 * random.standard_normal((200, 10))).astype("f4"), y
DATA = "inputs: {x: sorted.h5:x}\ntargets: {t: sorted.h5:y}\nsplit: "
config(DATA + "{valid: 0.1}", num_epochs=1)
done = run(BUILD + "/cli/dlrun", "classes.dl", "--yaml_config=c.yaml", "--expdir=r1")
remedy = "(data.split: {valid: 0.1, shuffle: true})"
check(remedy in done.stderr.decode()
      and "training has no sample of 1 of the 1 classes that validation has, class 9 first" in done.stderr.decode(),
      done.stderr.decode()[-800:])
config(DATA + remedy[13:-1], num_epochs=20, lr=0.1)
done = run(BUILD + "/cli/dlrun", "classes.dl", "--yaml_config=c.yaml", "--expdir=r2")
text = done.stderr.decode()
check(done.returncode == 0 and "no sample of" not in text and "'t': training has 10 classes of " in text,
      f"the remedy: {text[-900:]}")

finish()
