#!/usr/bin/env python3
"""Checkpoints of which each rank writes its part (--sharded_checkpoints), by several MPI ranks, next to those that
rank 0 writes.

    check_shards.py BUILD openmpi|mpich [some]      some: fewer moves and damages; kinds of runs take turns

The same run gives the same tensors either way, to the last bit; what goes on from them, in any other world or layout,
gives the same losses and the same tensors to the last bit as what goes on from rank 0's. Then what a rank writes and
holds, and what happens where files are damaged, missing, of another save, or not to be seen by all ranks.
"""
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import mpi  # noqa: E402
import shards  # noqa: E402
from check_zero import VIT  # noqa: E402
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "e2e"))
from checks import check, finish, run_points, turn  # noqa: E402

NORMED = """model Net():
    input x: f32[N, C=2, H=12, W=20]
    target t: f32[N, C=2, H=12, W=20]
    y = x |> conv(48, 3, pad=1) @a |> batch_norm @n |> relu |> conv(128, 3, pad=1) @b |> relu |> conv(2, 3, pad=1) @c
    output y
    loss = mean((y - t)**2)
"""
RUN = ["--optimizer=adam", "--lr=1e-3", "--lr_schedule=none", "--global_batch_size=4", "--data_loader_config=synthetic",
       "--limit_nsamples=16", "--limit_nsamples_val=4", "--num_iters=12", "--threads=1"]
SHARDED = "--sharded_checkpoints"
LAYOUTS = {"one": (1,), "two": (2,), "four": (4,), "zero": (2, "--zero=1"), "zero4": (4, "--zero=1"),
           "tp": (2, "--tensor_parallel=2"),
           "tp_dp": (4, "--tensor_parallel=2"), "tp4": (4, "--tensor_parallel=4"), "cp": (2, "--context_parallel=2"),
           "zero_cp": (4, "--zero=1", "--context_parallel=2"), "zero_tp": (4, "--zero=1", "--tensor_parallel=2")}
MOVES = [("two", "one"), ("one", "two"), ("four", "two"), ("tp", "one"), ("one", "tp"), ("zero", "two"),
         ("two", "zero"), ("zero4", "zero"),
         ("tp_dp", "zero_tp"), ("zero_tp", "two"), ("zero", "tp"), ("tp4", "tp"), ("cp", "tp_dp"), ("zero_cp", "two")]


def main(build, family, *some):
    mpirun = mpi.find(build, family)
    if not mpirun:
        print(f"SKIP: no {family}, or this build has no module for it")
        return 77
    env = {**mpi.environment(), "DLR_MPIRUN": mpirun}
    dlrun = str(pathlib.Path(build) / "cli/dlrun")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="dlr-shards-"))
    (folder / "net.dl").write_text(NORMED)
    normed = [str(folder / "net.dl")]

    def start(command, **more):
        return subprocess.run(command, stdin=subprocess.DEVNULL, env={**env, **more}, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE,
                              text=True, errors="replace")

    def run(name, layout, *args, model=VIT, code=0):
        ranks, *how = LAYOUTS[layout]
        done = start([dlrun, "-n", str(ranks), *model, *RUN, *how, *args, f"--expdir={folder / name}"])
        check(done.returncode == code, f"{name}: exit {done.returncode}, not {code}: {done.stderr[-600:]}")
        return done.stderr

    def place(name):
        return next((folder / name).rglob("checkpoints"))

    def points(name):
        return [{k: v for k, v in p.items() if "oss" in k or k in ("epoch", "iteration")}
                for p in run_points(place(name).parent)]

    def result(name):
        return points(name), shards.tensors(place(name) / "last")

    def same(what, a, b):
        x, y = result(a), result(b)
        check(x[0] == y[0] and len(x[0]) > 1, f"{what}: other losses: {x[0]} and {y[0]}")
        check(x[1] == y[1] and len(x[1]) > 8 and None not in x[1].values(), f"{what}: other tensors in {a} and {b}")

    # the same tensors, whoever writes them, in the middle of an epoch and after each
    left_out = ("four", "zero", "tp4", "cp", "zero_cp", *(() if turn(0) else ("tp_dp", "zero_tp"))) if some else ()
    for layout in (l for l in LAYOUTS if l not in left_out):
        for name, how in (("whole", ()), ("parts", (SHARDED,))):
            run(f"{name}_{layout}", layout, "--stop_after=5", *how, code=75)
        a, b = (shards.tensors(place(f"{n}_{layout}") / "last") for n in ("whole", "parts"))
        check(a == b and len(a) > 20, f"{layout}: the tensors of rank 0's checkpoint")
        ranks = LAYOUTS[layout][0]
        files = sorted(p.name for p in (place(f"parts_{layout}") / "last").glob("*.safetensors"))
        check(f"model-00001-of-{ranks:05}.safetensors" in files
              and f"optimizer-{ranks:05}-of-{ranks:05}.safetensors" in files,
              f"{layout}: a file of each rank: {files}")

    # rank 0's clock says when a checkpoint is due, and all ranks write it at the same step
    for name, how in (("untimed", ()), ("timed", ("--save_every_minutes=0.003",))):
        run(name, "two", SHARDED, "--keep_checkpoints=1000", "--limit_nsamples=1600", "--num_iters=400", *how,
            model=normed)
    timed = sorted(place("timed").glob("step-*"))
    check(len(timed) > 1, f"checkpoints by time: {timed}")
    a, b = (shards.tensors(place(n) / "last") for n in ("untimed", "timed"))
    check(a == b and len(a) > 8, "checkpoints by time: other tensors")
    shards.tensors(timed[0])

    # about 1/N each: of what all hold, and of what is in pieces
    for layout in (l for l in ("two", "zero4", "tp_dp", "zero_tp", "four") if l not in left_out):
        ranks = LAYOUTS[layout][0]
        last = place(f"parts_{layout}") / "last"
        sizes = [sum((last / f"{part}-{r + 1:05}-of-{ranks:05}.safetensors").stat().st_size
                     for part in ("model", "optimizer"))
                 for r in range(ranks)]
        check(max(sizes) < 1.05 * sum(sizes) / ranks, f"{layout}: ranks write {sizes} bytes")

    # what other programs find: weights that lie whole, in the file that the index names
    last = place("parts_two") / "last"
    index = json.loads((last / "model.safetensors.index.json").read_text())
    for name, file in index["weight_map"].items():
        t = shards.read_file(last / file).get(name)
        check(t and not any(t[3]), f"{name} is in {file}")
    weights = [t for file in set(index["weight_map"].values()) for t in shards.read_file(last / file).items()]
    check(len(weights) == len(index["weight_map"])
          and sum(len(t[2]) for _, t in weights) == index["metadata"]["total_size"], "the index")
    check(not (place("parts_tp") / "last/model.safetensors.index.json").exists(), "no index of weights in pieces")

    # gone on with in the same world, to the end: an unbroken run's bits; async and not
    for layout in ("two", "zero4", *(("tp",) if turn(1) else ())):
        run(f"unbroken_{layout}", layout)
        run(f"parts_{layout}", layout, SHARDED, "--resume")
        same(f"{layout}, gone on", f"unbroken_{layout}", f"parts_{layout}")
        kept = sorted(p.name for p in place(f"parts_{layout}").iterdir())
        steps = [n for n in kept if n.startswith("step-")]
        best = os.readlink(place(f"parts_{layout}") / "best")
        check(steps == sorted({"step-00000008", "step-00000012", best}) and len(kept) == len(steps) + 2,
              f"kept: {kept}, best {best}")
    run("waits", "zero4", SHARDED, "--async_checkpoints=false")
    same("written while the run waits", "unbroken_zero4", "waits")

    def statistics():
        """Running ones are those of rank 0."""
        for name, how in (("norm_whole", ()), ("norm_parts", (SHARDED,))):
            run(name, "two", *how, "--stop_after=6", model=normed, code=75)
        a, b = (shards.tensors(place(n) / "last") for n in ("norm_whole", "norm_parts"))
        check(a == b and any("running_mean" in n for n in a), f"running statistics: {sorted(a)}")
        run("norm_whole", "two", "--resume", model=normed)
        run("norm_parts", "two", "--resume", SHARDED, model=normed)
        same("running statistics, gone on", "norm_whole", "norm_parts")

    def scaler():
        """A scaler of the loss, too."""
        for name, how in (("fp16_whole", ()), ("fp16_parts", (SHARDED,))):
            run(name, "zero", *how, "--amp_mode=fp16", "--stop_after=5", code=75)
            run(name, "zero", *how, "--amp_mode=fp16", "--resume")
        same("fp16", "fp16_whole", "fp16_parts")

    for i, kind in enumerate((statistics, scaler)):
        if turn(i):
            kind()

    # in another world, or layout, from either
    for i, (there, here) in enumerate(m for m in (MOVES[::8] if some else MOVES) if not {*m} & {*left_out}):
        for name in ("whole", "parts"):
            source = folder / f"{name}_{there}_stopped"
            if not source.exists():
                saved = place(f"{name}_{there}") / "step-00000005"
                if saved.exists():
                    shutil.copytree(saved, source, symlinks=True)
                else:
                    run_again(run, place, folder, name, there, source)
            text = run(f"{name}_{there}_{here}", here, f"--resume={source}", *((SHARDED,) if i % 2 else ()))
            check("going on from step 5 " in text, f"{there} to {here}: {text[-300:]}")
        same(f"{there} to {here}", f"whole_{there}_{here}", f"parts_{there}_{here}")

    if turn(1):
        fused(folder, run, place, same, some)

    # weights of a folder, and of an index
    source = folder / "parts_two_stopped"
    for i, weights in enumerate((source, source / "model.safetensors.index.json",
                                 folder / "whole_two_stopped/model.safetensors")):
        run(f"weights{i}", "one", f"--init_weights={weights}", "--num_iters=2")
    for i in (0, 1):
        check(points("weights2") == points(f"weights{i}") and shards.tensors(place(f"weights{i}") / "last") ==
              shards.tensors(place("weights2") / "last"), f"begun with weights {i}")
    done = start([dlrun, *VIT, *RUN, f"--init_weights={place('parts_two')}", f"--expdir={folder / 'which'}"])
    check(done.returncode == 3 and "name one of them" in done.stderr,
          f"a folder of several: {done.returncode} {done.stderr[-300:]}")

    # predictions: of a run, of one of its checkpoints, of the files that an index names
    values = [((7 * i) % 11 - 5) / 4 for i in range(3 * 2 * 12 * 20)]
    (folder / "x.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) +
                                   b"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2, 12, 20), }"
                                   .ljust(117) + b"\n" + struct.pack(f"<{len(values)}f", *values))
    for what, parts, whole, inside in (
            ("run", folder / "parts_two", folder / "unbroken_two", "base/2GPU/00"),
            ("checkpoint", folder / "parts_two", folder / "unbroken_two", "base/2GPU/00/checkpoints/step-00000012")):
        made = []
        for path in (parts, whole):
            at, out = folder / "predicted_with", folder / "predicted.h5"
            shutil.copytree(path, at, symlinks=True)
            done = start([dlrun, "predict", str(at / inside), str(folder / "x.npy"), "-o", str(out)])
            check(done.returncode == 0, f"predict, {what}, {path}: {done.returncode} {done.stderr[-300:]}")
            made.append(out.read_bytes() if done.returncode == 0 else b"")
            shutil.rmtree(at)
        check(made[0] == made[1] != b"", f"predict, {what}: other bits")

    done = start([dlrun, "predict", str(source / "model.safetensors.index.json"), str(folder / "x.npy"), "-o",
                  str(folder / "index.h5"),
                  "--model=models/vit.dl", "--data_loader_config=synthetic", *VIT[1:]])
    check(done.returncode == 0, f"predict, index: {done.returncode} {done.stderr[-300:]}")

    # a file that is damaged, cut short, missing, or another save's: the checkpoint before, in all ranks, and the file
    # is named
    newest = place("parts_zero4") / "last"
    names = sorted(p.name for p in newest.iterdir())
    before = place("parts_zero4") / "step-00000008"
    check(len(names) == 4 + 4 + 2 and before.exists(), f"files: {names}")
    for i, name in enumerate(names[:4] if some else names):
        how = ("flip", "cut", "gone", "other")[i % 4]
        path, raw = newest / name, (newest / name).read_bytes()
        if how == "flip":
            path.write_bytes(raw[:-7] + bytes([raw[-7] ^ 4]) + raw[-6:])
        elif how == "cut":
            path.write_bytes(raw[:-1])
        elif how == "gone":
            path.unlink()
        else:
            shutil.copy(before / name, path)
        shutil.rmtree(folder / "fallback", ignore_errors=True)
        shutil.copytree(folder / "parts_zero4", folder / "fallback", symlinks=True)
        layout = ("zero4", "two")[i % 2] if i % 2 == 0 else "zero4"
        text = run("fallback", layout, "--resume", SHARDED)
        check(re.search(rf"checkpoint step-00000012 passed over: .*{re.escape(name)}", text)
              and "going on from step 8 " in text,
              f"{name}, {how}: {text[-500:]}")
        check(result("fallback") == result("unbroken_zero4"), f"{name}, {how}: other bits at the end")
        path.write_bytes(raw)

    # a weight that is not finite, in one rank's part: all end alike, and nothing is saved
    for name, how in (("after", ()), ("at_once", ("--async_checkpoints=false",))):
        done = start([dlrun, "-n", "2", *VIT, *RUN, SHARDED, "--optimizer=adamw", "--lr=3e38", "--weight_decay=100",
                      "--enable_benchy",
                      "--limit_nsamples=4", "--num_iters=1", *how, f"--expdir={folder / 'nan' / name}"])
        said = re.findall(r"rank 0: dlrun: error: the tensor '[^']+' has an infinity", done.stderr)
        check(done.returncode == 7 and len(said) == 1, f"not finite, {name}: {done.returncode} {done.stderr[-500:]}")
        left = [p.name for p in (folder / "nan" / name).rglob("checkpoints/*") if not p.name.endswith(".tmp")]
        check(not left, f"not finite, {name}: {left}")

    # the copy in memory is of the rank's part
    said = [json.loads(start([dlrun, "-n", "2", *VIT, *RUN, "--dry_run", "--json",
                              *more]).stdout)["checkpoint_copy_bytes"]
            for more in ((), (SHARDED,))]
    check(0.48 * said[0] < said[1] < 0.55 * said[0], f"copies of {said} bytes")

    # what does not go together is said
    done = start([dlrun, "-n", "2", *VIT, *RUN, SHARDED, "--torch_checkpoints", f"--expdir={folder / 'torch'}"])
    check(done.returncode == 2 and "torch_checkpoints" in done.stderr,
          f"with PyTorch's: {done.returncode} {done.stderr[-300:]}")
    memory(build, mpirun, folder, env, some)
    apart(mpirun, dlrun, folder, env)
    shutil.rmtree(folder)
    finish()


def fused(folder, run, place, same, some):
    """One layer makes queries, keys and values, of each of which a rank has its heads: a box in a file of its own for
    each. Begun, and stopped, with the weights of one rank; gone on with in other layouts."""
    text = pathlib.Path(VIT[0]).read_text()
    three = re.compile(r"    q = x \|> linear\(E\)\n    k = .*\n    v = .*\n    return attention\(q, k, v,")
    one = ("    u = x |> linear(3*E) @qkv |> rearrange(\"n t (k h d) -> k n t (h d)\", k=3, h=heads) as [K, N, T, E]\n"
           "    return attention(u[K=0], u[K=1], u[K=2],")
    check(three.search(text), "the text of VIT's attention")
    (folder / "fused.dl").write_text(three.sub(one, text))
    model = [str(folder / "fused.dl"), "--yaml_config=models/config/vit.yaml", *VIT[1:]]
    for layout in ("one", "zero_tp") if some else ("one", "tp", "zero_tp"):
        for name, how in (("fused_whole", ()), ("fused_parts", (SHARDED,))):
            run(f"{name}_{layout}", layout, "--stop_after=5", *how, model=model, code=75)
        a, b = (shards.tensors(place(f"{n}_{layout}") / "last") for n in ("fused_whole", "fused_parts"))
        check(a == b and None not in a.values() and any("qkv.weight" in n for n in a),
              f"fused, {layout}: the tensors of rank 0's checkpoint")
        begin = shards.tensors(place("fused_whole_one") / "last")
        for name, (dtype, shape, raw) in a.items():
            x, y = (struct.unpack(f"<{len(t) // 4}f", t) for t in (raw, begin[name][2])) if dtype == "F32" else ((), ())
            check(shape == begin[name][1] and all(abs(p - q) < 1e-3 for p, q in zip(x, y)),
                  f"fused, {layout}: {name} is not one rank's")
        files = [p.name for p in (place(f"fused_parts_{layout}") / "last").glob("model-*")]
        check(len(files) == 1 if layout == "one" else len(files) > 2 * 3 - (layout == "tp"),
              f"fused, {layout}: {sorted(files)}")
    for there, here in (("zero_tp", "tp4"), ("one", "tp"),
                        *(() if some else (("tp", "one"), ("one", "zero_tp"), ("tp", "zero_tp")))):
        for name in ("fused_whole", "fused_parts"):
            source = folder / f"{name}_{there}_stopped"
            if not source.exists():
                shutil.copytree(place(f"{name}_{there}") / "step-00000005", source, symlinks=True)
            told = run(f"{name}_{there}_{here}", here, f"--resume={source}", SHARDED, model=model)
            check("going on from step 5 " in told, f"fused, {there} to {here}: {told[-300:]}")
        same(f"fused, {there} to {here}", f"fused_whole_{there}_{here}", f"fused_parts_{there}_{here}")


def run_again(run, place, folder, name, layout, source):
    """A run that has gone on since has pruned what it was stopped with: it is stopped there once more."""
    again = f"{name}_{layout}_again"
    run(again, layout, "--stop_after=5", *((SHARDED,) if name == "parts" else ()), code=75)
    shutil.copytree(place(again) / "step-00000005", source, symlinks=True)


WRAPPER = """import os, sys, resource, subprocess
status = subprocess.call(sys.argv[2:], close_fds=False)
rank = os.environ.get("OMPI_COMM_WORLD_RANK", os.environ.get("PMI_RANK"))
open(sys.argv[1] + rank, "w").write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
sys.exit(status)
"""


def memory(build, mpirun, folder, env, some):
    """Rank 0 holds a copy of its own part alone, where it had one of all: resident at most, with the optimiser's state
    in shares."""
    large = ["models/vit.dl", "--config", "base", "--img_size=[12,20]", "--n_in_channels=2", "--n_out_channels=2",
             "--embed_dim=768",
             "--depth=2", "--num_heads=4", "--patch_size=4", *RUN, "--num_iters=8"]
    (folder / "wrapper.py").write_text(WRAPPER)
    peaks = {}
    ways = {"whole": (), "parts": (SHARDED,), "neither": ("--async_checkpoints=false", SHARDED)}
    for name, how in (w for w in ways.items() if not some or w[0] != "neither"):
        for r in range(2):
            (folder / f"{name}_rss{r}").unlink(missing_ok=True)
        done = subprocess.run([mpirun, "-n", "2", sys.executable, str(folder / "wrapper.py"),
                               str(folder / f"{name}_rss"),
                               str(pathlib.Path(build) / "cli/dlrun"), *large, "--zero=1", *how,
                               f"--expdir={folder / 'large' / name}"],
                              stdin=subprocess.DEVNULL, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True)
        check(done.returncode == 0, f"{name}: exit {done.returncode}: {done.stderr[-300:]}")
        peaks[name] = [int((folder / f"{name}_rss{r}").read_text()) / 1024 for r in range(2)]
    last = next((folder / "large/parts").rglob("checkpoints")) / "last"
    state = sum(p.stat().st_size for p in last.glob("*.safetensors")) / 2**20
    print(f"{state:.0f} MiB to save; resident at most, ranks 0 and 1, MiB: rank 0 writes {peaks['whole'][0]:.0f}, "
          f"{peaks['whole'][1]:.0f}; "
          f"each its part {peaks['parts'][0]:.0f}, {peaks['parts'][1]:.0f}; without a copy {peaks.get('neither')}")
    check(peaks["whole"][0] - peaks["parts"][0] > 0.4 * state, f"rank 0 needs half of {state:.0f} MiB less: {peaks}")
    check(abs(peaks["parts"][0] - peaks["parts"][1]) < 0.15 * state, f"as much on both: {peaks}")


APART = """import os, sys
rank = os.environ.get("OMPI_COMM_WORLD_RANK", os.environ.get("PMI_RANK"))
os.chdir(os.path.join(sys.argv[1], rank))
os.execv(sys.argv[2], sys.argv[2:])
"""


def apart(mpirun, dlrun, folder, env):
    """Ranks whose run directory is not one (here: relative to folders of their own): an error that names what is not
    there, and an end."""
    (folder / "apart.py").write_text(APART)
    for rank in "01":
        (folder / "apart" / rank).mkdir(parents=True)
    dlrun, vit = str(pathlib.Path(dlrun).resolve()), [str(pathlib.Path(VIT[0]).resolve()), *VIT[1:]]
    for args, words in (((SHARDED,), r"step-00000004\.tmp is not there"),
                        ((SHARDED, "--resume"), "the list of checkpoints in")):
        if "--resume" in args:
            subprocess.run([dlrun, "-n", "2", *vit, *RUN, SHARDED, "--expdir=runs"], env=env, stdin=subprocess.DEVNULL,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True, cwd=folder / "apart/0")
        done = subprocess.run([mpirun, "-n", "2", sys.executable, str(folder / "apart.py"), str(folder / "apart"),
                               dlrun, *vit, *RUN, *args,
                               "--expdir=runs"], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT,
                              text=True, errors="replace")
        said = set(re.findall(rf"rank (\d): dlrun: error: .*{words}", done.stdout))  # what one finds, both say
        check(done.returncode == (3 if "--resume" in args else 4) and said == {"0", "1"},
              f"apart, {args}: {done.returncode}: {done.stdout[-600:]}")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
