"""Every configuration of every system with its values; the systems' own files as they write them; their directories and
tags.

check_presets.py BUILD     from the project's root; needs nothing but Python's own library
"""
import json
import math
import os
import re
import struct
import subprocess
import sys

from checks import ENV, TMP, check, finish, takes

BUILD = os.path.abspath(sys.argv[1])
DLRUN = f"{BUILD}/cli/dlrun"
ENV = {k: v for k, v in ENV.items() if k not in ("SCRATCH", "SLURM_JOB_ID", "SLURM_JOB_NUM_NODES")}


def run(*args, **env):
    return subprocess.run([DLRUN, *args], capture_output=True, text=True, env={**ENV, **env}, stdin=subprocess.DEVNULL)


def configuration(*args):
    """The object that --dry_run --json prints."""
    r = run(*args, "--dry_run", "--json")
    check(r.returncode == 0, f"{args}: exit {r.returncode}: {r.stderr[-500:]}")
    return json.loads(r.stdout) if r.returncode == 0 else {"configuration": {}}, r.stderr


def check_values(args, want):
    found = configuration(*args)[0]["configuration"]
    wrong = {k: (found.get(k, "missing"), v) for k, v in want.items() if found.get(k, "missing") != v}
    check(not wrong, f"{args}: found, wanted: {wrong}")


def refused(code, pattern, *args):
    r = run(*args)
    check(r.returncode == code and re.search(pattern, r.stderr),
          f"{args}: exit {r.returncode}, wanted {code} and /{pattern}/: {r.stderr[-500:]}")


# Small models, so that only the configuration takes its size from the file: compiling is another test's.
VIT = dict(img_size=[360, 720], n_in_channels=20, n_out_channels=20, embed_dim=384, depth=12, num_heads=8, patch_size=8,
           dropout=0.0,
           dt=1, lr_schedule="cosine", warmup=0, optimizer="adam", adam_beta1=0.9, adam_beta2=0.95, optimizer_eps=1e-8,
           weight_decay=0,
           recipe="weather", record="samples", resume=False, torch_checkpoints=False, run_num="00",
           run_dir="{expdir}/{config}/{ranks}GPU/{run_num}")
PLAIN = dict(data_loader_config="pytorch", num_data_workers=0, amp_mode="none", enable_jit=False, enable_fused=False)
OPT = dict(data_loader_config="dali", num_data_workers=8, amp_mode="fp16", enable_jit=True, enable_fused=True)
MP = dict(OPT, embed_dim=1024, enable_jit=False)


def vit(batch, lr, iters=30000, samples=None, valid=None, **more):
    return dict(VIT, global_batch_size=batch, batch_size=batch, lr=lr, start_lr=lr, num_iters=iters,
                limit_nsamples=samples, limit_nsamples_val=valid, **more)


WEATHER = {
    "base": vit(16, 5e-4, **PLAIN),
    "short": vit(16, 5e-4, 128, 512, 128, **PLAIN),
    "short_opt": vit(16, 5e-4, 128, 512, 128, **OPT),
    "opt": vit(16, 5e-4, **OPT),
    **{f"bs{n}_opt": vit(n, lr, **OPT)
       for n, lr in ((16, 5e-4), (32, 7.07e-4), (64, 1e-3), (128, 1.41e-3), (256, 2e-3), (512, 2.83e-3), (1024, 4e-3),
              (2048, 5.66e-3))},
    "mp": vit(64, 1e-3, **MP),
    "mp_bs16": vit(16, 5e-4, **MP),
    "mp_bs32": vit(32, 7.07e-4, **MP),
    "mp_patch4": {**vit(64, 1e-3, **MP), "patch_size": 4},
}

UNET = dict(conv_init="normal", conv_scale=0.02, conv_bias=0.0, lambda_rho=0, full_scale=True, N_out_channels=5,
            base_batch_size=64,
            data_size=64, num_data_workers=2, lr_schedule="warmup_cosine", scaling="sqrt", start_lr=2e-4, end_lr=0.0,
            warmup_steps=128,
            optimizer="adam", adam_beta1=0.9, adam_beta2=0.999, recipe="volumes", record="iters", resume=False,
            torch_checkpoints=False, run_num="00",
            enable_benchy=False, use_cache=None, run_dir="{expdir}/{name}/{ranks}GPU/{run_num}")


def unet(batch, epochs, opt, samples=(65536, 8192)):
    return dict(UNET, global_batch_size=batch, num_epochs=epochs, Nsamples=samples[0], Nsamples_val=samples[1],
                enable_amp=opt, enable_apex=opt,
                enable_jit=opt, data_loader_config="dali-lowmem" if opt else "lowmem")


VOLUMES = {
    "base": unet(64, 10, False),
    "short": unet(64, 4, False, (4096, 512)),
    "short_opt": unet(64, 4, True, (4096, 512)),
    "bs64_opt": unet(64, 10, True),
    "bs256_opt": unet(256, 20, True),
    "bs512_test": unet(512, 10, True),
    "bs512_opt": unet(512, 40, True),
    "bs2048_opt": unet(2048, 160, True),
    "bs8192_opt": unet(8192, 320, True),
}

CNN = dict(in_chan=1, out_chan=1, depth=5, hidden=64, data_size=128, lr=1e-3, valid_batch_size=32, log_to_screen=True,
           save_checkpoint=True,
           num_data_workers=1, train_path=None, val_path=None, Nsamples=128, Nsamples_val=128,
           data_loader_config="synthetic", optimizer="adam",
           resume=True, run_num="0", record="tracked", torch_checkpoints=True,
           synthetic_noise="uniform", synthetic_redraw=True)
MINIMAL = dict(CNN, recipe="minimal", scheduler="cosine", max_epochs=25, max_cosine_lr_epochs=25, root_dir="outputs",
               run_dir="{expdir}/{config}/{run_num}")
TRACKED = dict(CNN, recipe="tracked", scheduler="none", max_epochs=50, max_cosine_lr_epochs=10, loss_func="mse", seed=0,
               patience=10, momentum=0,
               log_norms=True, entity="nersc", project="test", root_dir=".",
               run_dir="{expdir}/expts/{config}/{run_num}")

KERAS = dict(recipe="keras", record="history", batch_size_of="rank", lr_scaling="linear", optimizer_defaults="keras",
             adam_beta2=0.999, run_dir="{expdir}", resume=False,
             torch_checkpoints=False, synthetic_noise="normal", synthetic_redraw=False)
FILES = {
    "hello": dict(KERAS, model="models/cnn_classifier.dl", input_shape=[64, 64, 3], n_classes=1, dropout=0,
                  data="dummy", n_train=1024, n_valid=1024,
                  optimizer="adam", lr=1e-3, batch_size=32, n_epochs=1, lr_warmup_epochs=0, lr_schedule="none",
                  momentum=0),
    "cifar10_cnn": dict(KERAS, model="models/cnn_classifier.dl", input_shape=[32, 32, 3], n_classes=10, dropout=0.1,
                        data="cifar10", optimizer="adam",
                        lr=1e-3, batch_size=64, n_epochs=24, lr_warmup_epochs=5, lr_schedule="none"),
    "cifar10_resnet": dict(KERAS, model="models/resnet.dl", input_shape=[32, 32, 3], n_classes=10, small=True,
                           depths=[2, 2, 2, 2], strides=[2, 2, 2, 2],
                           expand=1, data="cifar10", optimizer="adam", lr=1e-4, batch_size=64, n_epochs=32,
                           lr_warmup_epochs=5, lr_schedule="none",
                           intra_threads=32, threads=32),
    "imagenet_resnet": dict(KERAS, model="models/resnet.dl", input_shape=[224, 224, 3], n_classes=100, small=False,
                            depths=[3, 4, 6, 3], expand=4,
                            data="imagenet", optimizer="sgd", lr=0.0125, momentum=0.9, batch_size=32, n_epochs=100,
                            lr_warmup_epochs=5,
                            lr_schedule=[{"start_epoch": 5, "end_epoch": 30, "multiplier": 1.0},
                                         {"start_epoch": 30, "end_epoch": 60, "multiplier": 0.1},
                                         {"start_epoch": 60, "end_epoch": 80, "multiplier": 0.01},
                                         {"start_epoch": 80, "multiplier": 0.001}]),
}


def names_of(path):
    with open(path) as f:
        return set(re.findall(r"^(\w+):", f.read(), re.M))


def test_values():
    """models/config: all configurations of systems A to E, value by value, and none that the tables here lack."""
    for model, table, more in ("vit", WEATHER, {"tiny"}), ("unet", VOLUMES, {"tiny"}):
        check(names_of(f"models/config/{model}.yaml") == set(table) | more,
              f"{model}: {names_of(f'models/config/{model}.yaml')}")
        for name, want in table.items():
            check_values([f"models/{model}.dl", f"--config={name}", "--local_batch_size=1"], want)
    regressor = "models/cnn_regressor.dl"
    multigpu = [regressor, "--yaml_config=models/config/multigpu.yaml"]
    check_values([*multigpu, "--config=default"], dict(MINIMAL, batch_size=32))
    check_values(multigpu, dict(MINIMAL, batch_size=32))
    check_values([*multigpu, "--config=test"], dict(MINIMAL, batch_size=16))
    check_values([regressor, "--config=test"], dict(TRACKED, batch_size=32))
    check_values([regressor, "--config=test2"], dict(TRACKED, batch_size=16))
    for optimizer, momentum in ("sgd", 0.9), ("rmsprop", 0):  # system C's script has momentum for its SGD alone
        check_values([regressor, "--config=test2", f"--optimizer={optimizer}"],
                     dict(TRACKED, batch_size=16, optimizer=optimizer, momentum=momentum))
    for name, want in FILES.items():
        check_values([f"models/config/{name}.yaml"], want)


def test_json():
    """What else the object holds; its figures are those of the text; a batch of this run next to the one that was asked
    for."""
    both = ["--config=bs32_opt", "--local_batch_size=2"]
    found, _ = configuration("models/vit.dl", *both)
    check(found["configuration"]["global_batch_size"] == 32 and found["batch"] == 2 and found["global_batch"] == 2,
          f"{found['batch']}")
    text = run("models/vit.dl", *both, "--dry_run").stdout
    check(f"parameters  {found['parameters']}\n" in text
          and f"{found['peak_bytes'] / 2**20:.1f} MiB with {found['threads']} threads" in text
          and f"kernels     {found['kernels']} " in text, f"{text} {found['parameters']} {found['peak_bytes']}")
    check(found["parameters"] == 23832960, f"{found['parameters']}")
    refused(2, r"--json goes with --dry_run", "models/vit.dl", *both, "--json")


THEIRS = "tests/data/theirs"  # the systems' own files, keys and values as they write them


def test_whole_files():
    """Every configuration of every system's own file, unchanged and at its own size: resolved, value by value, with its
    peak, whatever that is."""
    for file, model, table, paths in (
        ("a", "unet", VOLUMES,
         dict(expdir="/logs", box_size=[1024, 512], train_path="/data/downsamp_2048crop_train.h5",
              val_path="/data/downsamp_1024crop_valid.h5",
                                    train_path_npy_data="/data/downsamp_2048crop_train_data.npy",
              val_path_npy_label="/data/downsamp_1024crop_valid_label.npy")),
        ("d", "vit", WEATHER,
         dict(expdir="/logs", train_data_path="/data/train", valid_data_path="/data/valid", inf_data_path="/data/test",
              wireup_info="env",
                                   time_means_path="/data/stats/time_means.npy",
              global_means_path="/data/stats/global_means.npy", wireup_store="tcp")),
    ):
        check(names_of(f"{THEIRS}/{file}.yaml") == set(table), f"{file}: {names_of(f'{THEIRS}/{file}.yaml')}")
        for number, (name, want) in enumerate(table.items()):
            if takes(number):
                check_values([f"models/{model}.dl", f"--yaml_config={THEIRS}/{file}.yaml", f"--config={name}"],
                             {**want, **paths})
    for file, name, want in (("b", "default", dict(MINIMAL, batch_size=32)),
                             ("b", "test", dict(MINIMAL, batch_size=16)),
                             ("c", "test", dict(TRACKED, batch_size=32, log_to_wandb=True)),
                             ("c", "test2", dict(TRACKED, batch_size=16, log_to_wandb=True))):
        check_values(["models/cnn_regressor.dl", f"--yaml_config={THEIRS}/{file}.yaml", f"--config={name}"], want)
    job = "-N${SLURM_JOB_NUM_NODES}-${SLURM_JOB_ID}"
    for name, output in (("hello", "hello-world"), ("cifar10_cnn", "cifar-cnn" + job),
                         ("cifar10_resnet", "cifar10-resnet" + job), ("imagenet_resnet", "imagenet-resnet" + job)):
        check_values([f"{THEIRS}/{name}.yaml"], dict(FILES[name], output_dir="$SCRATCH/isc19-dl-tutorial/" + output))


def test_theirs():
    """Their files as they are: keys without a meaning here are named once, variables that are not set stay; the command
    line beats them."""
    e = f"{THEIRS}/cifar10_resnet.yaml"
    check_values([f"--yaml_config={THEIRS}/c.yaml", "--config=test2"],
                 dict(TRACKED, batch_size=16, model="models/cnn_regressor.dl", log_to_wandb=True))
    _, err = configuration(e)
    check(err.count("without a meaning here, and passed over: description\n") == 1, f"{err}")
    check(err.count("the environment variable SCRATCH is not set") == 1 and err.count("warning") == 2, f"{err}")
    refused(3, r"cifar10_resnet\.yaml:2:13: error: .*the run writes to \$SCRATCH/isc19.*SCRATCH is not set", e,
            "--data_loader_config=synthetic", "--n_epochs=1")
    refused(2, r"data_dir is not set: a folder of CIFAR-10's binary files", e, f"--output_dir={TMP}/no")
    check(not os.path.exists(f"{TMP}/no"), "what is refused leaves nothing")
    line = [e, "--optimizer=name=SGD,lr=0.25,lr_scaling=none,lr_warmup_epochs=2", "--batch_size", "8", "--n_epochs",
            "3", "-d", "-v", "--show-config"]
    check_values(line,
                 dict(optimizer="sgd", lr=0.25, lr_scaling="none", lr_warmup_epochs=2, batch_size=8, n_epochs=3,
                      model="models/resnet.dl"))
    hello = ["models/config/hello.yaml", "--dropout", "0.25"]
    check_values(hello, dict(dropout=0.25, model="models/cnn_classifier.dl"))
    check_values(["models/resnet.dl", "models/config/hello.yaml", "--n_classes=7", "--small=true",
                  "--depths=[1,1,1,1]"], dict(model="models/resnet.dl", small=True, n_classes=7))


SMALL = ["--hidden=4", "--depth=3", "--data_size=8", "--batch_size=4", "--Nsamples=16", "--Nsamples_val=8"]


def points(*args, at):
    r = run(*args)
    check(r.returncode == 0, f"{args}: exit {r.returncode}: {r.stderr[-600:]}")
    try:
        with open(f"{TMP}/{at}/metrics.jsonl") as f:
            return [json.loads(line) for line in f], r.stderr
    except OSError as e:
        check(False, f"{args}: {e}")
        return [], r.stderr


def test_directories():
    """Where each system keeps a run."""
    regressor = ["models/cnn_regressor.dl", *SMALL, "--max_epochs=1"]
    points(*regressor, "--config=test", f"--root_dir={TMP}/c", at="c/expts/test/0")
    points(*regressor, "--yaml_config=models/config/multigpu.yaml", f"--root_dir={TMP}/b", "--run_num=7",
           at="b/default/7")
    _, err = points("models/config/hello.yaml", "--input_shape=[16,16,3]", "--batch_size=4", "--n_train=8",
                    "--n_valid=4", f"--output_dir={TMP}/e/f/",
                    "-d", "--verbose", "--show-config", at="e/f")
    check(re.search(r"Command line config: \S*dlrun models/config/hello\.yaml --input_shape", err)
          and "Epoch 1/1" in err, f"{err[-500:]}")
    points(*regressor, "--config=test", "--preset=volumes", f"--expdir={TMP}/a", "--data_loader_config=synthetic",
           at="a/test/1GPU/00")
    points(*regressor, "--config=test", f"--expdir={TMP}/own", "--run_dir={expdir}/{run_num}-{config}", at="own/0-test")
    points(*regressor, "--config=test", f"--expdir={TMP}/g", "--run_dir={expdir}/{model}/{name}",
           at="g/cnn_regressor/cnn_regressor-test")
    tars = ["ckpt.tar", "ckpt_best.tar"]  # what is in them is oracle_checkpoints.py's
    for at, want in ("c/expts/test/0", tars), ("b/default/7", tars), ("e/f", []), ("a/test/1GPU/00",
                                                                                   []), ("own/0-test", tars):
        found = sorted(n for n in os.listdir(f"{TMP}/{at}/checkpoints") if n.endswith(".tar"))
        check(found == want, f"{at}: {found}")
    refused(2,
            r"run_dir: \{expdri\}/x is none of \{expdir\}, \{name\}, \{model\}, \{config\}, \{ranks\} and \{run_num\}",
            *regressor, "--run_dir=/tmp/{expdri}/x")
    refused(2, r"run_dir: \{expdir is none of", *regressor, "--run_dir=/tmp/{expdir")


def test_records():
    """Names of recorded values and words of the log: B's and C's, which go on by themselves, E's, D's and A's."""
    regressor = ["models/cnn_regressor.dl", *SMALL, "--config=test", "--lr=0.1"]
    tags = {"train_loss", "val_loss", "learning_rate", "time_per_epoch", "data_wait_time", "best_val_loss",
            "best_epoch", "grad", "wt_norm"}
    whole, err = points(*regressor, "--max_epochs=6", f"--root_dir={TMP}/whole", at="whole/expts/test/0")
    check([p["iteration"] for p in whole] == [4 * e for e in range(1, 7)], f"no point of the untrained model: {whole}")
    check(all(set(p) == tags | {"epoch", "iteration"} for p in whole), f"{whole[:1]}")
    log = (r"Starting training loop\.\.\.\n.* - root - INFO - Time taken for epoch 1 is \d+\.\d+ sec; with "
           r"\d+\.\d+/\d+\.\d+ in tr/val\n"
           r".* - root - INFO - Loss = \d+\.\d+, Val loss = \d+\.\d+\n")
    check(re.search(log.replace(r"\n.* - root", r"\n(?:.*Avg .*\n)*.* - root", 1), err), f"{err[-900:]}")
    for p in whole:
        losses = [q["val_loss"] for q in whole[:p["epoch"]]]
        check(p["best_val_loss"] == min(losses)
              and p["best_epoch"] == max(i for i, l in enumerate(losses) if l == min(losses)), f"{p} of {losses}")
    with open(f"{TMP}/whole/expts/test/0/checkpoints/last/model.safetensors", "rb") as f:
        n = struct.unpack("<Q", f.read(8))[0]
        f.seek(8 + n)
        raw = f.read()
    norm = math.sqrt(sum(w * w for w in struct.unpack(f"<{len(raw) // 4}f", raw)))
    check(abs(whole[-1]["wt_norm"] / norm - 1) < 1e-5,
          f"wt_norm is that of the weights at the end: {whole[-1]['wt_norm']}, {norm}")
    for epochs in 2, 6:  # cut in two: the same bits, best loss and best epoch among them
        cut, err = points(*regressor, f"--max_epochs={epochs}", f"--root_dir={TMP}/cut", at="cut/expts/test/0")
    check("going on from step" in err and "epoch 3" in err, f"{err[-600:]}")
    fixed = tags - {"time_per_epoch", "data_wait_time"}
    check(all(0 <= p["data_wait_time"] <= p["time_per_epoch"] for p in whole),
          f"the loop waits for its data within the epoch: {whole}")
    check([{k: p[k] for k in fixed} for p in cut] == [{k: p[k] for k in fixed} for p in whole], f"{cut}\n{whole}")
    anew, err = points(*regressor, "--max_epochs=2", f"--root_dir={TMP}/cut", "--resume=false", at="cut/expts/test/0")
    check(len(anew) == 2 and "resuming" not in err and os.path.exists(f"{TMP}/cut/expts/test/0.1/metrics.jsonl"),
          "--resume=false begins anew")

    hello = ["models/config/hello.yaml", "--n_classes=3", "--input_shape=[16,16,3]", "--batch_size=4", "--n_train=16",
             "--n_valid=8", f"--output_dir={TMP}/hello"]
    points(*hello, "--n_epochs=2", at="hello")
    found, err = points(*hello, "--n_epochs=3", "--resume", at="hello")  # what it says at the end is of all epochs
    check([p["iteration"] for p in found] == [4, 8, 12]
          and all("accuracy/valid" in p and "Loss/train" in p for p in found), f"{found}")
    best, mean = max(p["accuracy/valid"] for p in found), sum(p["time_per_epoch"] for p in found) / 3
    stamp = r"\n\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} INFO "
    for line in (r"Initialized rank 0 out of 1", r"Epoch 3/3",
                 r" - \d+\.\d+s - loss: \d+\.\d+ - acc: \d\.\d+ - val_loss: \d+\.\d+ - val_acc: " +
                 f"{found[-1]['accuracy/valid']:.6f}", f"Best validation accuracy: {best:.3f}",
                 f"Average time per epoch: {mean:.3f} s", "All done!"):
        check(re.search(stamp + line + r"\n", err), f"no line '{line}' in {err[-900:]}")

    vit = ["models/vit.dl", "--data_loader_config=synthetic", "--img_size=[8,12]", "--n_in_channels=3",
           "--n_out_channels=3", "--patch_size=4",
           "--embed_dim=8", "--depth=1", "--num_heads=2", "--global_batch_size=4", "--num_iters=2",
           "--limit_nsamples=8", "--limit_nsamples_val=4"]
    common = {"epoch", "iteration", "Loss/train", "Loss/valid", "Learning Rate", "Avg iters per sec", "Data wait time",
              "RMSE(u10m)/train", "RMSE(u10m)/valid"}
    found, _ = points(*vit, f"--expdir={TMP}/d", at="d/base/1GPU/00")
    check(found[1]["Learning Rate"] == 0, f"system D's scheduler has stepped when the rate is logged: {found[1]}")
    check(len(found) == 2 and found[0]["iteration"] == 0 and set(found[1]) == common | {"Avg samples per sec"},
          f"{found}")
    with open(f"{TMP}/d/base/1GPU/00/out.log") as f:
        memory = re.findall(r"INFO - Scaffolding memory high watermark: (\d+\.\d+) GB\.\n|INFO -  Memory usage after "
                            r"forward pass: (\d+\.\d+) GB\.\n", f.read())
    most, now = float(memory[0][0] or 0), float(memory[-1][1] or 0)  # of this process: some ten megabytes
    check(len(memory) == 2 and 0.004 < most < 0.5 and 0.004 < now < 0.5, f"the memory lines of system D: {memory}")
    check(abs(found[1]["Avg samples per sec"] / found[1]["Avg iters per sec"] - 4) < 1e-9, f"{found[1]}")
    found, _ = points(*vit, f"--expdir={TMP}/a2", "--log_format=iters", at="a2/base/1GPU/00")
    check(set(found[1]) == common, f"{found[1]}")
    check(abs(found[1]["Learning Rate"] - 2.5e-4) < 1e-15,
          f"system A's rate is that of the step that was made: {found[1]}")


for test in test_values, test_json, test_whole_files, test_theirs, test_directories, test_records:
    test()
finish()
