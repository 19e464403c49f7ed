"""`dlrun FILE.dlp`: training by a plan's file where there is no compiler, no model's file and no cache; what a plan
does not fit is refused, and the command in the message compiles one that does; damaged and altered files.

check_plan_file.py BUILD     from the project's root; needs nothing but Python's own library, and a compiler for `dlc
                             compile`
"""
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "ranks"))
import mpi  # noqa: E402
from checks import ENV, TMP, check, finish, save_npy  # noqa: E402

BUILD = os.path.abspath(sys.argv[1])
DLC, DLRUN = f"{BUILD}/cli/dlc", f"{BUILD}/cli/dlrun"
HERE, NODE = f"{TMP}/login", f"{TMP}/node"  # where it is compiled, and where it runs
BARE = {**ENV, "PATH": f"{BUILD}/cli", "DLR_CACHE_DIR": f"{NODE}/cache"}  # no compiler, no cache
BARE.pop("CC", None)
DATA = "data: {inputs: {x: {file: x.npy, normalize: standardize}}, targets: {t: t.npy}, split: {valid: 0.25}}"
MODEL = """model Net(c=8, rate=0.5):
    input x: f32[N, C=1, W=32]
    target t: f32[N, C=1, W=32]
    y = x |> conv(c, 3, pad=1) @a |> batch_norm() @n |> relu |> conv(1, 3, pad=1) @b
    output y
    loss = mse_loss(y, t) * rate
"""


def run(args, where=NODE, env=BARE):
    r = subprocess.run(args, capture_output=True, text=True, errors="replace", cwd=where, env=env,
                       stdin=subprocess.DEVNULL)
    r.said = ((r.stdout or "") + (r.stderr or "")).strip().split("\n")[-1][-900:]
    return r


def dlrun(*args, **more):
    return run([DLRUN, *args], **more)


def prepare():
    for folder in (HERE, NODE):
        os.makedirs(folder)
        save_npy(f"{folder}/x.npy", (48, 1, 32)), save_npy(f"{folder}/t.npy", (48, 1, 32))
    pathlib.Path(f"{HERE}/net.dl").write_text(MODEL)
    pathlib.Path(f"{HERE}/net.yaml").write_text(
        f"base: {{local_batch_size: 4, num_epochs: 2, start_lr: 1.0e-2, expdir: runs, {DATA}}}\n"
        f"long: {{num_epochs: 9}}\n")
    compile_plan("net.dl", "--yaml_config=net.yaml")


def compile_plan(*args, to="net.dlp"):
    r = run([DLC, "compile", *args, "-o", to], where=HERE, env=ENV)
    check(r.returncode == 0, f"dlc compile {args}: {r.said}")
    if r.returncode == 0:
        shutil.copy(f"{HERE}/{to}", f"{NODE}/{to}")


def losses(folder):
    found = list(pathlib.Path(folder).rglob("metrics.jsonl"))
    return [line for f in found for line in f.read_text().split("\n") if "Loss" in line and "sec" not in line]


def weights(folder):
    return [p.read_bytes() for p in pathlib.Path(folder).rglob("last/model.safetensors")]


def test_trains():
    """Without a compiler: the bits of a run that compiles; nothing is written to a cache."""
    r = dlrun("net.dlp", "--expdir=one")
    check(r.returncode == 0 and "plan of net.dlp" in r.stderr, r.said)
    check(not os.path.exists(f"{NODE}/cache"), "a run of a plan's file writes no cache")
    log = next(pathlib.Path(f"{NODE}/one").rglob("out.log"), None)
    check(log and "model net.dl\n" in log.read_text() and "num_epochs 2\n" in log.read_text(),
          "the log names model and settings")
    r = dlrun("net.dl", "--yaml_config=net.yaml", where=HERE, env=ENV)
    check(r.returncode == 0, r.said)
    check(losses(f"{NODE}/one") and losses(f"{NODE}/one") == losses(f"{HERE}/runs"),
          "the losses of a run that compiles")
    check(weights(f"{NODE}/one") and weights(f"{NODE}/one") == weights(f"{HERE}/runs"), "its weights")
    for name in ("net.dl", "net.yaml"):
        shutil.copy(f"{HERE}/{name}", f"{NODE}/{name}")
    r = dlrun("net.dl", "--yaml_config=net.yaml")
    check(r.returncode == 5, f"there is a compiler after all: {r.returncode} {r.said}")
    for name in ("net.dl", "net.yaml"):
        os.unlink(f"{NODE}/{name}")
    shutil.rmtree(f"{NODE}/cache", ignore_errors=True)


def test_settings():
    """What is not part of the programs may be given; a configuration that is given replaces the plan's."""
    r = dlrun("net.dlp", "--expdir=two", "--num_epochs=1", "--start_lr=0.5", "--optimizer_eps=1e-6", "--tune")
    check(r.returncode == 0 and "start_lr': 0.5" in r.stderr, r.said)
    check("tune: the kernels of net.dlp are as they were compiled" in r.stderr, "--tune is not passed over in silence")
    r = dlrun("net.dlp", "--expdir=two", "--resume", "--num_epochs=3")
    check(r.returncode == 0, r.said)
    pathlib.Path(f"{NODE}/own.yaml").write_text(f"base: {{local_batch_size: 4, num_epochs: 3, expdir: runs, {DATA}}}\n")
    for words in (["own.yaml"], ["--yaml_config=own.yaml"]):
        r = dlrun("net.dlp", *words, "--dry_run", "--json")
        found = json.loads(r.stdout)["configuration"] if r.returncode == 0 else {}
        check(found.get("num_epochs") == 3 and found.get("start_lr") == 1e-4 and found.get("model") == "net.dl", r.said)
    r = dlrun("net.dlp", "--dry_run", "--json")
    found = json.loads(r.stdout)["configuration"] if r.returncode == 0 else {}
    check(found.get("num_epochs") == 2 and found.get("start_lr") == 1e-2 and found.get("c") == 8, r.said)


def numbers(path):
    return pathlib.Path(path).read_bytes()


def test_predicts():
    """Without a compiler and the model's file: the numbers and metrics of a prediction that compiles, by a run, a
    checkpoint, a file."""
    there, away = f"{HERE}/runs/net-base/1GPU/00", f"{NODE}/one/net-base/1GPU/00"
    wanted = ["--metrics", "--target=t.npy", "--json"]
    r = dlrun("predict", there, "x.npy", "-o", "y.npy", *wanted, where=HERE, env=ENV)
    check(r.returncode == 0, r.said)
    want = json.loads(r.stdout) if r.returncode == 0 else {}
    last = f"{away}/checkpoints/last"
    for weights in (away, f"{away}/checkpoints/best"):
        r = dlrun("predict", "net.dlp", "x.npy", "-o", "y.npy", f"--weights={weights}", *wanted)
        got = json.loads(r.stdout) if r.returncode == 0 else r.said
        check(r.returncode == 0 and all(got.get(k) == want.get(k) for k in ("rmse", "mae", "loss", "samples", "batch"))
              and "loss" in want and want["batch"] == 4, f"{weights}: {got}")
        check(numbers(f"{NODE}/y.npy") == numbers(f"{HERE}/y.npy"),
              f"{weights}: the bits of a prediction that compiles")
    for weights in (last, f"{last}/model.safetensors"):  # the latter has neither model nor record: they are the plan's
        r = dlrun("predict", "net.dlp", "x.npy", "-o", os.path.basename(weights) + ".npy", f"--weights={weights}")
        check(r.returncode == 0 and "warning" not in r.stderr, f"{weights}: {r.stderr[-400:]}")
    check(numbers(f"{NODE}/last.npy") == numbers(f"{NODE}/model.safetensors.npy"),
          "a file of weights, with the plan's model and configuration")
    for words, batch in (("0:3", 4), ("0:2", 1), ("0:1", 1)):  # the plan's batch where half of it is filled
        r = dlrun("predict", "net.dlp", "x.npy", "-o", "few.npy", f"--weights={away}", f"--samples={words}", "--json")
        check(r.returncode == 0 and json.loads(r.stdout)["batch"] == batch, f"{words}: {r.said}")
    r = dlrun("predict", "net.dlp", "x.npy", "-o", "one.npy", f"--weights={away}", "--local_batch_size=1", "--json")
    check(r.returncode == 0 and json.loads(r.stdout)["batch"] == 1, r.said)
    r = dlrun("test", "net.dlp", "x=x.npy", "t=t.npy", f"--weights={away}", "--json")
    check(r.returncode == 0 and json.loads(r.stdout)["loss"] == want["loss"], f"dlrun test: {r.said} {want}")
    save_npy(f"{NODE}/long.npy", (2, 1, 80))
    r = dlrun("predict", "net.dlp", "long.npy", "-o", "long_y.npy", f"--weights={away}")
    check(r.returncode == 0 and "exactly; an output along W" in r.stdout
          and "net.dlp has programs of the model's own size alone" in r.stdout, r.said)
    check(not os.path.exists(f"{NODE}/cache") and not os.path.exists(f"{NODE}/net.dl"),
          "no compiler, no cache, no model's file")
    for args, code, words in [
            (["net.dlp", "x.npy", "-o", "no.npy"], 2,
             "which weights? net.dlp is a plan, which has none: --weights=RUN"),
            ([away, "x.npy", "-o", "no.npy", f"--weights={away}"], 2, "--weights goes with a plan's file"),
            (["net.dlp", "long.npy", "-o", "no.npy", f"--weights={away}", "--tiles=whole"], 3,
             "programs of the model's own size alone"),
            (["net.dlp", "x.npy", "-o", "no.npy", f"--weights={away}", "--device=cpu:generic"], 3,
             "and device is cpu:generic"),
            (["net.dlp", "x.npy", "-o", "no.npy", "--weights=absent"], 4, "absent"),
            (["net.dlp", "x.npy", "-o", "no.npy", f"--weights={away}", "--c=4"], 3, "c 8 (here 4)"),
            (["net.dlp", "x.npy", "-o", "no.npy", f"--weights={away}", "--amp_mode=bf16"], 3,
             "amp_mode none (here bf16); compile one for this run: ")]:
        r = dlrun("predict", *args)
        check(r.returncode == code and words in r.said, f"{args}: {r.returncode} {r.said}")
        check(not os.path.exists(f"{NODE}/no.npy"), f"{args}: nothing is left")
    command = command_of(r.said)
    made = run(["sh", "-c", command[1].replace("-o net.dlp", "-o low.dlp")], where=HERE,
               env={**ENV, "PATH": f"{BUILD}/cli:{ENV['PATH']}"})
    check(made.returncode == 0, f"{command[1]}: {made.said}")
    shutil.copy(f"{HERE}/low.dlp", f"{NODE}/low.dlp")
    r = dlrun("predict", "low.dlp", "x.npy", "-o", "low.npy", f"--weights={away}", "--amp_mode=bf16")
    check(r.returncode == 0, f"the remedy: {r.said}")
    r = dlrun("net.dlp", "--expdir=rates", "--optimizer_eps=1e-6", "--num_epochs=1", "--start_lr=0.1")
    r = dlrun("predict", "net.dlp", "x.npy", "-o", "other.npy", "--weights=rates/net-base/1GPU/00")
    check(r.returncode == 0, f"another run of the same network: {r.said}")


def test_keeps():
    """keep_kernels: source and plan in the run's directory, which predicts and trains on where there is no compiler."""
    r = dlrun("net.dl", "--yaml_config=net.yaml", "--expdir=kept", "--num_epochs=1", "--keep_kernels", where=HERE,
              env=ENV)
    check(r.returncode == 0, r.said)
    shutil.copytree(f"{HERE}/kept/net-base/1GPU/00", f"{NODE}/whole", symlinks=True)
    names = sorted(os.listdir(f"{NODE}/whole/kernels"))
    check(len(names) == 2 and names[0].endswith(".c") and names[1].endswith(".dlp") and names[0].startswith("cpu-"),
          f"{names}")
    check("void " in pathlib.Path(f"{NODE}/whole/kernels/{names[0]}").read_text(), "the kernels' source")
    r = dlrun("predict", "kept/net-base/1GPU/00", "x.npy", "-o", "kept.npy", where=HERE, env=ENV)
    check(r.returncode == 0, r.said)
    for path in ("whole", "whole/checkpoints/best"):
        r = dlrun("predict", path, "x.npy", "-o", "kept.npy", "--metrics", "--target=t.npy")
        check(r.returncode == 0 and "\n  loss " in r.stdout
              and numbers(f"{NODE}/kept.npy") == numbers(f"{HERE}/kept.npy"), f"{path}: {r.said}")
    r = dlrun("predict", "whole", "long.npy", "-o", "kept_long.npy")
    check(r.returncode == 0 and "exactly" in r.stdout, f"larger samples in pieces: {r.said}")
    r = dlrun("predict", "one/net-base/1GPU/00", "x.npy", "-o", "no.npy")
    check(r.returncode == 5, f"a run that kept none: {r.returncode} {r.said}")
    r = dlrun("predict", "whole", "x.npy", "-o", "no.npy", "--amp_mode=bf16")
    check(r.returncode == 3 and "amp_mode none (here bf16)" in r.said, f"{r.returncode} {r.said}")
    r = dlrun(f"whole/kernels/{names[1]}", "--resume=whole", "--num_epochs=2", "--expdir=on", "--keep_kernels=false")
    check(r.returncode == 0 and "going on from step" in r.stderr, f"trains on: {r.said}")
    r = dlrun("net.dlp", "--expdir=given", "--num_epochs=1", "--keep_kernels")
    check(r.returncode == 0 and numbers(f"{NODE}/given/net-base/1GPU/00/kernels/{names[1]}"),
          f"of a plan's file, too: {r.said}")
    r = dlrun("net.dl", "--yaml_config=net.yaml", "--expdir=kept", "--num_epochs=1", where=HERE, env=ENV)
    moved = f"{HERE}/kept/net-base/1GPU"
    check(r.returncode == 0 and os.path.isdir(f"{moved}/00.1/kernels") and not os.path.exists(f"{moved}/00/kernels"),
          "a new run there moves them along")
    r = dlrun("net.dlp", "--keep_kernels", "--zero=1")
    check(r.returncode in (2, 3) and "keep_kernels: with zero each rank has kernels of its own" in r.said,
          f"{r.returncode} {r.said}")
    shutil.rmtree(f"{NODE}/cache", ignore_errors=True)


# What a run of net.dlp differs in, and how the message says it.
DIFFERENT = [
    (["--local_batch_size=2"], r"local_batch_size 4 \(here 2\);"),
    (["--global_batch_size=6"], r"local_batch_size 4 \(here 6\);"),
    (["--c=4"], r"c 8 \(here 4\);"),
    (["--rate=0.25", "--c=9"], r"c 8 \(here 9\), rate 0.5 \(here 0.25\);"),
    (["--amp_mode=bf16"], r"amp_mode none \(here bf16\);"),
    (["--enable_amp"], r"amp_mode none \(here enable_amp true\);"),
    (["--optimizer=sgd", "--momentum=0.9", "--nesterov"],
     r"optimizer adam \(here sgd\), momentum 0 \(here 0.9\), nesterov false"),
    (["--lr_schedule=none"], r"lr_schedule warmup_cosine \(here none\);"),
    (["--scheduler=reducelr"], r"lr_schedule warmup_cosine \(here scheduler reducelr\);"),
    (["--lr_schedule=none", "--lr_warmup_epochs=1"], r"lr_schedule warmup_cosine \(here lr_warmup_epochs 1\);"),
    (["--lr_schedule=[{start_epoch: 0, end_epoch: 1, multiplier: 0.5}]"], r"lr_schedule warmup_cosine \(here \[\{"),
    (["--weight_decay=0.1", "--decay_norm_and_bias=false", "--clip_grad_norm=1", "--log_norms", "--optimizer=adagrad"],
     "and more;"),
    (["--save_grads=it's.npz"], r"save_grads null \(here it's.npz\);"),
    (["--device=cpu:generic"], r"compiled for cpu:\w+, and device is cpu:generic;"),
]


def command_of(said):
    return re.search(r"compile one for (?:this run|it): (.*)$", said)


def test_remedies():
    """Each difference is refused in a sentence that says it; the command in it compiles a plan that this run takes."""
    for args, pattern in DIFFERENT:
        before = sorted(os.listdir(NODE))
        r = dlrun("net.dlp", *args)
        check(r.returncode == 3 and re.search(pattern, r.said), f"{args}: {r.returncode} {r.said}")
        check(sorted(os.listdir(NODE)) == before, f"{args}: a refused run leaves nothing")
        command = command_of(r.said)
        if not check(command, f"{args}: no command: {r.said}"):
            continue
        shutil.copy(f"{HERE}/net.dlp", f"{HERE}/kept.dlp")
        made = run(["sh", "-c", command[1]], where=HERE, env={**ENV, "PATH": f"{BUILD}/cli:{ENV['PATH']}"})
        check(made.returncode == 0, f"{command[1]}: {made.said}")
        shutil.copy(f"{HERE}/net.dlp", f"{NODE}/net.dlp")
        r = dlrun("net.dlp", *args, "--dry_run")
        check(r.returncode == 0, f"{args}, after {command[1]}: {r.said}")
        os.replace(f"{HERE}/kept.dlp", f"{HERE}/net.dlp")
        shutil.copy(f"{HERE}/net.dlp", f"{NODE}/net.dlp")
    r = dlrun("net.dlp", env={**BARE, "DLC_SKIP": "fuse"})
    check(r.returncode == 3 and ": DLC_SKIP=fuse dlc compile net.dl --yaml_config=net.yaml -o net.dlp" in r.said,
          r.said)


def test_refused():
    """Other files and other commands: a status and a sentence."""
    shutil.copy(f"{HERE}/net.dl", f"{NODE}/other.dl")
    for args, code, words in [
            (["net.dlp", "other.dl"], 2, "one model at a time: net.dlp has its own, and other.dl is named"),
            (["net.dlp", "--model=other.dl"], 2, "one model at a time"),
            (["net.dlp", "net.dlp"], 2, "net.dlp is a plan"),
            (["--model=net.dlp"], 2, "net.dlp is a plan"),
            (["net.dlp", "--config=long"], 2, "net.dlp has no configuration 'long'; it has base"),
            (["net.dlp", "--q=3"], 2, "unknown option '--q'"),
            (["absent.dlp"], 4, "cannot open absent.dlp"),
            (["net.dlp", "--save_weights=net.dlp"], 2, "net.dlp")]:
        r = dlrun(*args)
        check(r.returncode == code and words in r.said, f"{args}: {r.returncode} {r.said}")
    for args in (["compile", "net.dlp"], ["bench", "net.dlp"]):
        r = run([DLC, *args])
        check(r.returncode == 2 and "net.dlp is a plan" in r.said, f"{args}: {r.returncode} {r.said}")
    check(not os.path.exists(f"{NODE}/cache"), "what is refused leaves no cache")
    r = dlrun("net.dlp", "--help")
    check(r.returncode == 0 and re.search(r"Keys of the model net.dl .*\n +c +int +8\n", r.stdout), r.said)
    r = run([DLRUN, "other.dl", "--dry_run", "--local_batch_size=4"], env={**ENV, "DLR_CACHE_DIR": f"{TMP}/cached"})
    for name in os.listdir(f"{TMP}/cached"):
        if name.endswith(".dlp"):
            r = dlrun(f"{TMP}/cached/{name}")
            check(r.returncode == 3 and "a plan without its model" in r.said, r.said)
    os.chmod(f"{NODE}/net.dlp", 0o664)
    r = dlrun("net.dlp")
    check(r.returncode == 6 and "chmod go-w" in r.said, r.said)
    os.chmod(f"{NODE}/net.dlp", 0o644)


def dl_hash(data):
    """dl_hash of ir/base/hash.c, seed 0."""
    h, mask = 0xcbf29ce484222325, 2**64 - 1
    for b in data:
        h = (h ^ b) * 0x100000001b3 & mask
    for factor in (0xff51afd7ed558ccd, 0xc4ceb9fe1a85ec53):
        h = (h ^ h >> 33) * factor & mask
    return h ^ h >> 33


def altered(name, old, new):
    """The plan with bytes replaced by as many others, and a checksum that fits."""
    file = bytearray(pathlib.Path(f"{HERE}/net.dlp").read_bytes())
    assert len(old) == len(new) and old in file, old
    file[:] = file.replace(old, new)
    file[24:32] = struct.pack("<Q", dl_hash(file[32:]))
    pathlib.Path(f"{NODE}/{name}").write_bytes(file)


def test_damaged():
    whole = pathlib.Path(f"{HERE}/net.dlp").read_bytes()
    for i, cut in enumerate((0, 7, 40, 300, len(whole) // 2, len(whole) - 1)):
        pathlib.Path(f"{NODE}/cut.dlp").write_bytes(whole[:cut])
        r = dlrun("cut.dlp")
        check(r.returncode == 3 and re.search("cut.dlp is (damaged: it is cut short|not a plan)", r.said),
              f"{cut}: {r.returncode} {r.said}")
    for at in (8, 33, 200, 900, len(whole) // 3, len(whole) - 9):
        file = bytearray(whole)
        file[at] ^= 0x55
        pathlib.Path(f"{NODE}/cut.dlp").write_bytes(file)
        r = dlrun("cut.dlp")
        want = "is a plan of version" if at == 8 else "cut.dlp is damaged: its checksum"
        check(r.returncode == 3 and want in r.said, f"{at}: {r.returncode} {r.said}")
    text = b"conv(c, 3, pad=1) @a"
    for name, old, new, code, words in [
            ("model", text, b"conv(c, 1, pad=0) @a", 3, "builds other graphs of this model"),
            ("fault", text, b"conv(c, 3, pad=1  @a", 3, ""),
            ("configuration", b"num_epochs: 2", b"num_epochz: 2", 3, "net.dlp:"),
            ("batch", b"local_batch_size: 4", b"local_batch_size: 5", 3, "local_batch_size 4 (here 5)"),
            ("target", re.search(rb"cpu:[a-z]", whole)[0], b"cpx:a", 5,
             "this program has no such target; compile one for it: dlc")]:
        altered("altered.dlp", old, new)
        r = dlrun("altered.dlp")
        check(r.returncode == code and words.replace("net.dlp", "altered.dlp") in r.said,
              f"{name}: {r.returncode} {r.said}")


def test_target():
    """A plan for a lesser CPU runs on this one, as it is."""
    compile_plan("net.dl", "--yaml_config=net.yaml", "--target=cpu:generic", to="generic.dlp")
    r = dlrun("generic.dlp", "--expdir=generic")
    check(r.returncode == 0 and "cpu:generic; plan of generic.dlp" in r.stderr, r.said)
    r = dlrun("generic.dlp", "--device=cuda:emulated")
    check(r.returncode == 3 and "compiled for cpu:generic, and device is cuda:emulated" in r.said, r.said)
    if "DLR_CUDA_EMULATOR" not in ENV:
        return
    compile_plan("net.dl", "--yaml_config=net.yaml", "--target=cuda:sm_90a:emulated", to="cuda.dlp")
    r = dlrun("cuda.dlp", "--expdir=cuda")
    check(r.returncode == 0 and "cuda:sm_90a:emulated; plan of cuda.dlp" in r.stderr, r.said)
    r = dlrun("cuda.dlp", "--device=cpu")
    check(r.returncode == 3 and "--target=cpu -o cuda.dlp" in r.said, r.said)


def test_names():
    """A configuration that names its model by a preset's name, and sets arguments by it; a batch that the model
    fixes."""
    yaml = "preset: keras\nmodel: cnn\nlocal_batch_size: 2\nnum_epochs: 1\n"
    pathlib.Path(f"{HERE}/named.yaml").write_text(yaml), pathlib.Path(f"{NODE}/named.yaml").write_text(yaml)
    compile_plan("named.yaml", to="named.dlp")
    for words in ([], ["named.yaml"]):
        r = dlrun("named.dlp", *words, "--dry_run", "--json")
        found = json.loads(r.stdout)["configuration"] if r.returncode == 0 else {}
        check(found.get("dropout") == 0 and found.get("preset") == "keras", f"{words}: {r.said}")
    pathlib.Path(f"{HERE}/fixed.dl").write_text(MODEL.replace("N, C", "N=6, C"))
    compile_plan("fixed.dl", to="fixed.dlp")
    r = dlrun("fixed.dlp", "--dry_run", "--json")
    check(r.returncode == 0 and json.loads(r.stdout)["batch"] == 6, r.said)
    last = "--weights=one/net-base/1GPU/00/checkpoints/last/model.safetensors"
    r = dlrun("predict", "fixed.dlp", "x.npy", "-o", "fixed.npy", last, "--metrics", "--target=t.npy", "--json")
    check(r.returncode == 0 and json.loads(r.stdout)["batch"] == 6 and "loss" in json.loads(r.stdout),
          f"{r.returncode} {r.said}")
    meets = MODEL.replace("N, C", "N=6, C").replace("    output", "    y = y - mean(y, over=N)\n    output")
    pathlib.Path(f"{HERE}/meets.dl").write_text(meets)
    compile_plan("meets.dl", to="meets.dlp")
    r = dlrun("predict", "meets.dlp", "x.npy", "-o", "no.npy", last)
    check(r.returncode == 3 and "N=6" in r.stderr, f"{r.returncode} {r.stderr[-400:]}")


def test_ranks():
    """Ranks that are data-parallel share a plan; others hold parts of their own."""
    mpirun = mpi.find(BUILD, "openmpi") or mpi.find(BUILD, "mpich")
    if not mpirun:
        print("no MPI: plans of several ranks are not run")
        return
    compile_plan("net.dl", "--yaml_config=net.yaml", "--ranks=2", to="two.dlp")
    env = {**mpi.environment(), **{k: v for k, v in BARE.items() if k.startswith("DLR")}}

    def ranks(*args):
        return run([mpirun, "-n", "2", DLRUN, *args], env=env)

    r = ranks("two.dlp", "--expdir=ranks")
    check(r.returncode == 0 and "plan of two.dlp" in r.stderr, r.stderr[-900:])
    r = ranks("net.dlp", "--expdir=ranks")
    check(r.returncode == 3 and "ranks 1 (here 2)" in r.stderr
          and "--yaml_config=net.yaml --ranks=2 -o net.dlp" in r.stderr, r.stderr[-900:])
    r = dlrun("two.dlp")
    check(r.returncode == 3 and "ranks 2 (here 1)" in r.said and "--ranks=2 --ranks=1 -o two.dlp" in r.said, r.said)
    r = ranks("net.dlp", "--zero=1")
    check(r.returncode == 3 and "with zero each rank runs programs of its own" in r.stderr, r.stderr[-900:])
    check(not os.path.exists(f"{NODE}/cache"), "no rank compiles")


prepare()
test_trains()
test_predicts()
test_keeps()
test_settings()
test_remedies()
test_refused()
test_damaged()
test_target()
test_names()
test_ranks()
finish()
