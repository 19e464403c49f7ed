#!/usr/bin/env python3
"""Data of one's own, as a scientist would write it: samples next to numpy, faults by place, and whole runs.

check_own_data.py BUILD

What is in the files says where it is from, so that a sample tells its crop and its moves; numpy then makes the same
one.
"""
import importlib
import json
import os

from checks import check, finish
from datasets import BUILD, config, faults, model, run, same, samples, write
from own_data_files import X, h5py, np

# Each goes on with the files that those before it wrote.
for part in ("own_data_values", "own_data_kinds"):
    importlib.import_module(part)

# ---- faults, by place ----

with h5py.File("odd.h5", "w") as f:
    f["complex"], f["none"], f["last"] = X.astype("c8"), X[:0], np.moveaxis(X, 1, 3)
    f["text"] = np.array([b"a"] * 20)
    f["records"] = np.zeros(20, [("a", "f4"), ("b", "i4")])
    how = h5py.h5p.create(h5py.h5p.DATASET_CREATE)  # bitshuffle, which libhdf5 need not have to write a chunk
    how.set_chunk((1, 8)), how.set_filter(32008, h5py.h5z.FLAG_OPTIONAL, ())
    made = h5py.h5d.create(f.id, b"shuffled", h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple((4, 8)), how)
    made.write_direct_chunk((0, 0), bytes(32))
base = "inputs: {x: x.npy}\ntargets: {t: t.npy}\nsplit: {valid: 0.2}"
for text, want in [
        ("inputs: {x: x.npy}\nsplit: {valid: 0.2}", "data.targets: the model's 't' f32[C=1, H=6, W=8] is missing"),
        ("inputs: {x: x.npy, z: x.npy}\ntargets: {t: t.npy}",
         "c.yaml:4:24: error: data.inputs: the model has no input 'z'; it has: x"),
        ("inputs: {x: x.npy}\ntargets: {t: t.npy}", "data.split is missing"),
        (base + "\ncorp: none", "data has no key 'corp'; did you mean 'crop'?"),
        (base + "\ncrop: all", "data.crop must be none, origin, center or random, not 'all'"),
        (base.replace("0.2", "1.5"), "data.split.valid must be"),
        (base.replace("x.npy", "{file: x.npy, mean: 3}"), "data.inputs.x: mean and std go together"),
        (base.replace("x.npy", "{file: x.npy, std: 0, mean: 1}"), "data.inputs.x.std must be above 0"),
        (base.replace("x.npy", "{file: x.npy, axis: 3}"), "data.inputs.x has no key 'axis'; did you mean 'axes'?"),
        (base.replace("x.npy", "a.h5"), "holds several arrays"),
        (base.replace("inputs", "input"), "data has no key 'input'; did you mean 'inputs'?"),
        (base.replace("inputs", "input").replace("targets", "target"),
         "data has no key 'input'; did you mean 'inputs'?"),
        (base.replace("x.npy", "odd.h5:complex"), "'complex' holds complex numbers, not numbers that can be read"),
        (base.replace("x.npy", "odd.h5:text"), "'text' holds text (strings), not"),
        (base.replace("x.npy", "odd.h5:records"), "'records' holds records, not"),
        (base.replace("x.npy", "odd.h5:none"), "'none' is empty: an axis of it has no elements"),
        (base.replace("x.npy", "odd.h5:shuffled"), "is packed with filter 32008, bitshuffle, which is not supported"),
        (base.replace("x.npy", "odd.h5:last"), "or are they its last axis? axes: [N, H, W, C])"),
        (base.replace("x.npy", "a.h5:y"), "has no array 'y'"),
        (base.replace("x.npy", "t.npy"), "data.inputs.x: t.npy"),
        (base.replace("x.npy", "signal.npy"), "signal.npy: '(its only array)' is [9, 100]"),
        (base.replace("x.npy", "{file: x.npy, axes: [N, C, H, Q]}"), "has no axis 'Q'"),
        (base.replace("x.npy", "{file: x.npy, axes: [N, C, W, H]}"),
         "W=8 of the model's 'x' is more than its 6 elements"),
        (base.replace("x.npy", "{file: x.npy, channels: [0, 2]}"), "channels: 2 is not below its 2"),
        (base.replace("x.npy", "{file: x.npy, channels: [0]}"), "1 channels, where the model's 'x' is f32[C=2"),
        (base + "\naugment: {rotate: [H, Z]}", "data.augment.rotate: no array has an axis 'Z'"),
        (base + "\naugment: {flip: [C]}", "data.augment.flip: no array has an axis 'C'"),
        (base.replace("0.2", "elsewhere.npy"), "no input or target has several"),
        (base.replace("x.npy", "{file: one0.npy, offset: 1}"), "offset is of axis N, which it has not"),
        (base.replace("0.2", "[0, 99]").replace("valid", "train: [0, 1], valid"), "have samples in common"),
        (base.replace("valid: 0.2", "train: [0, 10], valid: [10, 99]"), "exceeds the 20"),
]:
    config(text)
    faults("field", want)
config(base.replace("x.npy", "nothing*.npy"))
done = run(BUILD + "/cli/dlc", "check", "field.dl", "--yaml_config=c.yaml")
check(done.returncode == 4 and b"data.inputs.x: no file fits the pattern nothing*.npy" in done.stderr, done.stderr)
config(base)
done = run(BUILD + "/cli/dlc", "check", "field.dl", "--yaml_config=c.yaml")
check(done.returncode == 0 and b"16 samples for training, 4 for validation" in done.stdout, (done.stdout, done.stderr))
config(base)
faults("field", "H=8", "--h=8")

# ---- what dldata inspect proposes can be pasted, and passes ----


def propose(name, *files, status=0):
    done = run(BUILD + "/cli/dldata", "inspect", *files, name + ".dl")
    check(done.returncode == status, f"dldata inspect {files}: {done.returncode} {done.stderr.decode()}")
    text = done.stdout.decode()
    section = text[text.index("  data:\n"):] if "  data:\n" in text else ""
    write("c.yaml", "default:\n  local_batch_size: 2\n" + section)
    return text, section


for name, files, wants in [
        ("field", ["a.h5"],
         ["x: {file: 'a.h5', array: 'group/x', normalize: standardize}  # [20, 2, 6, 8] f32 for f32[C=2, H=6, W=8]",
                             "t: {file: 'a.h5', array: 't', axes: [N, H, W], normalize: standardize}",
          "split: {valid: 0.1}"]),
        ("field", ["z2.zarr", "a.npz"],
         ["x: {file: 'z2.zarr', array: 'x', normalize", "t: {file: 'a.npz', array: 't', axes: [N, H, W]"]),
        ("classes", ["x.npy", "mask.npy", "b.h5"],
         ["x: {file: 'x.npy', normalize", "mask: {file: 'mask.npy', axes: [H, W]",
          "label: {file: 'b.h5', array: 'label'}"]),
        ("auto", ["signal.npy"], ["x: {file: 'signal.npy', axes: [N, L]", "crop: random"]),
        ("box", ["box.h5"], ["t: {file: 'box.h5', array: 't', axes: [D, H, W, C]", "crop: random", "Nsamples: 1024"])]:
    text, section = propose(name, *files)
    for want in wants:
        check(want in section, f"{name}: {want!r} not in {section}")
    done = run(BUILD + "/cli/dlc", "check", name + ".dl", "--yaml_config=c.yaml")
    check(done.returncode == 0 and b" for training" in done.stdout,
          f"{name}: what is proposed passes: {section} {done.stderr.decode()}")
text, section = propose("box", "signal.npy")
check("FILE:ARRAY  # nothing in these files has the axes of" in section, section)
np.save("small.npy", X[:, :, :3])
text, section = propose("field", "small.npy")
check("# [20, 2, 3, 8] f32 for f32[C=2, H=6, W=8]: sizes differ, set the model's arguments" in section
      and "offset: 1" in section, section)
text, _ = propose("field", "bad.npy")
check("bad.npy" in text and "1 NaN!" in text, "NaN is counted")

# One array as input and, some indices later, as target: one set of statistics, kept.
model("next", """model Next():
    input x: f32[N, C=%d, H=%d, W=%d]
    target t: f32[N, C=%d, H=%d, W=%d]
    y = x |> conv(%d, kernel=1) @c
    output y
    loss = mean((y - t)**2)
""" % (X.shape[1:] * 2 + X.shape[1:2]))
config("inputs: {x: {file: x.npy, normalize: standardize}}\ntargets: {t: {file: x.npy, offset: 1, normalize: "
       "standardize}}\nsplit: {valid: 0.5}")
pairs = samples("next", "valid")
kept = open("x.npy.statistics").read()
os.utime("x.npy.statistics", (1, 1))
same(pairs["x"][1:], pairs["t"][:-1], "the target is the next input, in the same numbers")
samples("next", "valid")
check(open("x.npy.statistics").read() == kept and os.path.getmtime("x.npy.statistics") == 1,
      "and its statistics are not computed again")

# ---- whole runs: the same points for any number of workers, stopped and resumed ----

for name, text, more in [("field", base, {}),
                         ("classes",
                          "inputs: {x: x.npy, mask: mask.npy, weight: b.h5:weight}\ntargets: {label: b.h5:label}\n"
                          "split: {valid: 0.2}", {}),
                         ("auto", "inputs: {x: signal.npy}\nsplit: {valid: 0.33}\ncrop: random", {"Nsamples": 20}),
                         ("box",
                          "inputs: {x: box.h5:x}\ntargets: {t: {file: box.h5, array: t, axes: [D, H, W, C]}}\n"
                          "split: {valid: 0.34}\ncrop: random\n"
                          "augment: {rotate: [D, H, W], flip: [W]}", {"Nsamples": 24, "Nsamples_val": 8})]:
    config(text, lr="1e-3", lr_schedule="none", **more)
    for workers, epochs in ((0, [2]), (3, [1, 2])):  # the second stops after its first epoch, and goes on
        for n in epochs:
            done = run(BUILD + "/cli/dlrun", name + ".dl", "--yaml_config=c.yaml", f"--num_data_workers={workers}",
                       f"--expdir=runs_{name}_{workers}",
                       f"--num_epochs={n}", "--resume")
            check(done.returncode == 0, f"{name}: {done.stderr.decode()[-600:]}")
    logs = []
    for workers in (0, 3):
        rows = [json.loads(line) for line in open(f"runs_{name}_{workers}/{name}-default/1GPU/00/metrics.jsonl")]
        logs.append([(r["Loss/train"], r["Loss/valid"]) for r in rows])
    check(len(logs[0]) == 3 and logs[0] == logs[1],
          f"{name}: the same losses with 0 workers, and with 3 and resumed: {logs}")
    done = run(BUILD + "/cli/dlrun", name + ".dl",
               f"--yaml_config=runs_{name}_0/{name}-default/1GPU/00/hyperparams.yaml", f"--expdir=again_{name}")
    rows = [json.loads(line) for line in open(f"again_{name}/{name}-default/1GPU/00/metrics.jsonl")
            ] if done.returncode == 0 else done.stderr.decode()[-600:]
    check(rows and [(r["Loss/train"], r["Loss/valid"]) for r in rows] == logs[0],
          f"{name}: a run's record, run again: {rows}")

finish()
