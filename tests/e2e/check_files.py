"""What the programs read, write and print, where that is not an ordinary file: own inputs as outputs, links, FIFOs,
devices, directories, full disks, closed or broken standard streams, few descriptors.

check_files.py BUILD [NAME...]     from the project's root; needs nothing but Python's own library, and device nodes
                                   root
"""
import itertools
import json
import os
import resource
import shutil
import socket
import stat
import struct
import subprocess
import sys

from checks import ENV, TMP, check, finish

ENV["DLR_CACHE_DIR"] = os.path.join(TMP, "cache")  # its own: what it finds there it makes odd

BUILD = os.path.abspath(sys.argv[1])
DLC, DLRUN, DLDATA, PLOT = (f"{BUILD}/{p}" for p in ("cli/dlc", "cli/dlrun", "cli/dldata", "tools/plot_curves"))
SMALL = ["--data_size=16", "--local_batch_size=2"]
DOCUMENTED = {0, 2, 3, 4, 5, 6, 7, 75}
ENV["CC"] = f"{BUILD}/tests/compile_once cc"


def run(args, **more):
    more = {"capture_output": True, "stdin": subprocess.DEVNULL, "env": ENV, **more}
    r = subprocess.run(args, text=True, errors="replace", cwd=TMP, **more)
    r.said = ((r.stdout or "") + (r.stderr or ""))[-300:]
    return r


def path(name):
    return f"{TMP}/{name}"


def read(name):
    with open(path(name), "rb") as f:
        return f.read()


def write(name, data):
    with open(path(name), "wb") as f:
        f.write(data)


def save_file(name, tensors):
    """Safetensors of f32: {name: shape}, all one half."""
    header, at = {}, 0
    for key, shape in tensors.items():
        n = 4
        for d in shape:
            n *= d
        header[key] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + n]}
        at += n
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    write(name, struct.pack("<Q", len(text)) + text + struct.pack("<f", 0.5) * (at // 4))


def leftovers():
    return [os.path.join(d, f)
            for d, dirs, files in os.walk(TMP) for f in dirs + files if f.startswith(".dlc-") or ".tmp" in f]


def replay(*more):
    return [DLRUN, "m.dl", *SMALL, "--replay=b.safetensors", "--expdir=runs", *more]


def train(*more):
    return [DLRUN, "m.dl", *SMALL, "--data_loader_config=synthetic", "--Nsamples=4", "--Nsamples_val=2",
            "--num_epochs=1",
            "--expdir=runs", *more]


def on_data(*more):
    return [DLRUN, "m.dl", *SMALL, "--data_loader_config=lowmem", "--Nsamples=4", "--Nsamples_val=2", "--num_epochs=1",
            "--train_path=d.h5", "--val_path=v.h5", "--expdir=runs", *more]


def prepare():
    shutil.copy("tests/data/small.dl", path("m.dl"))
    write("c.yaml", b"base:\n  seed: 3\n")
    save_file("b.safetensors", {"x.0": [2, 4, 16, 16, 16], "t.0": [2, 5, 16, 16, 16]})
    write("metrics.jsonl", b'{"iteration": 0, "Loss/train": 1.0}\n{"iteration": 1, "Loss/train": 0.5}\n')
    for name, seed in (("d.h5", "0"), ("v.h5", "1")):
        r = run([DLDATA, "nbody", "--size=32", "--steps=5", f"--seed={seed}", "-o", name])
        check(r.returncode == 0, f"{name}: {r.said}")
    check(run(train()).returncode == 0, "the small model trains")
    shutil.copy(path("runs/m-base/1GPU/00/checkpoints/last/model.safetensors"), path("w.safetensors"))
    r = run([DLC, "compile", "m.dl", *SMALL, "--dump-dir=passes", "-o", "p.dlp"])  # the cache has what later runs need
    check(r.returncode == 0, r.said)


# name: (command, its inputs, what the option that names the output begins with)
COMMANDS = {
    "compile": ([DLC, "compile", "m.dl", "--yaml_config=c.yaml", *SMALL], ["m.dl", "c.yaml"], "--output="),
    "inspect": ([DLDATA, "inspect", "d.h5"], ["d.h5"], "--output="),
    "nbody": ([DLDATA, "nbody", "--size=16", "--steps=5", "--force"], [], "--output="),
    "replay": (replay("--yaml_config=c.yaml", "--init_weights=w.safetensors"),
               ["m.dl", "c.yaml", "b.safetensors", "w.safetensors"], "--save_grads="),
    "train": (on_data(), ["d.h5", "v.h5"], "--save_grads="),
    "plot": ([PLOT, "metrics.jsonl"], ["metrics.jsonl"], ""),
}


def test_own_inputs():
    """No command replaces what it reads, under whatever name it is given as output."""
    for name, (command, inputs, option) in COMMANDS.items():
        for source in inputs:
            before = read(source)
            os.makedirs(path("names"))
            os.link(path(source), path("names/hard"))
            os.symlink(f"../{source}", path("names/soft"))
            os.symlink("soft", path("names/twice"))
            for spelt in (source, f"names/../{source}", path(source), "names/hard", "names/soft", "names/twice"):
                r = run([*command, option + spelt])
                check(r.returncode == 2 and "reads" in r.stderr and spelt in r.stderr,
                      f"{name} to {spelt}: {r.returncode} {r.said}")
                check(read(source) == before, f"{name} to {spelt} spared {source}")
            shutil.rmtree(path("names"))
    os.makedirs(path("dumps"))
    os.link(path("m.dl"), path("dumps/00-model.dlir"))
    before = read("m.dl")
    r = run([DLC, "compile", "m.dl", *SMALL, "--dump-dir=dumps"])
    check(r.returncode == 2 and read("m.dl") == before, f"--dump-dir over the model: {r.returncode} {r.said}")
    for file in ("out.log", "metrics.jsonl", "hyperparams.yaml", "prediction.png"):  # what a run writes by itself
        os.makedirs(path("own/m-base/1GPU/00"))
        os.link(path("m.dl"), path(f"own/m-base/1GPU/00/{file}"))
        r = run(train("--expdir=own"))
        check(read("m.dl") == before and r.returncode in (0, 2), f"a run over {file}: {r.returncode} {r.said}")
        shutil.rmtree(path("own"))


def test_special_targets():
    """Devices and FIFOs are written into, links followed, directories and read-only files refused."""
    for name, (command, _, option) in COMMANDS.items():
        os.symlink("real", path("link"))
        r = run([*command, option + "link"])
        check(r.returncode == 0 and os.path.islink(path("link")) and os.path.getsize(path("real")) > 0,
              f"{name} to a dangling link: {r.said}")
        os.chmod(path("real"), 0o640)
        r = run([*command, option + "link"])
        mode = stat.S_IMODE(os.stat(path("real")).st_mode)
        check(r.returncode == 0 and os.path.islink(path("link")) and mode == 0o640,
              f"{name} to a link: {mode:o} {r.said}")
        whole = read("real")
        os.unlink(path("link")), os.unlink(path("real"))

        os.mkdir(path("folder"))
        for spelt in ("folder", "folder/", "."):
            r = run([*command, option + spelt])
            check(r.returncode == 4 and "directory" in r.stderr, f"{name} to {spelt}: {r.returncode} {r.said}")
        os.rmdir(path("folder"))

        os.symlink("loop", path("loop"))
        r = run([*command, option + "loop"])
        check(r.returncode == 4 and os.path.islink(path("loop")),
              f"{name} to a link to itself: {r.returncode} {r.said}")
        os.unlink(path("loop"))

        os.mkfifo(path("fifo"))
        r = run([*command, option + "fifo"])
        check(r.returncode == 4 and "nobody reads" in r.stderr,
              f"{name} to a FIFO without a reader: {r.returncode} {r.said}")
        with open(path("got"), "wb") as got:
            fd = os.open(path("fifo"), os.O_RDONLY | os.O_NONBLOCK)
            os.set_blocking(fd, True)
            keep = os.open(path("fifo"), os.O_WRONLY)  # so that the reader waits for the first byte
            reader = subprocess.Popen(["cat"], stdin=fd, stdout=got, close_fds=True)
            os.close(fd)
            r = run([*command, option + "fifo"])
            os.close(keep)
            reader.wait()
        check(r.returncode == 0 and stat.S_ISFIFO(os.stat(path("fifo")).st_mode),
              f"{name} to a FIFO: {r.returncode} {r.said}")
        check(len(read("got")) == len(whole), f"{name}: {len(read('got'))} of {len(whole)} bytes came through the FIFO")
        os.unlink(path("fifo"))

        for device, number, code in (("null", 3, 0), ("full", 7, 4)):
            try:  # nodes of our own: the system's shall not be at stake
                os.mknod(path(device + "_node"), stat.S_IFCHR | 0o666, os.makedev(1, number))
            except PermissionError:
                break
            r = run([*command, option + device + "_node"])
            check(r.returncode == code and stat.S_ISCHR(os.stat(path(device + "_node")).st_mode),
                  f"{name} to /dev/{device}: {r.returncode} {r.said}")
            os.unlink(path(device + "_node"))
        check(not leftovers(), f"{name} left {leftovers()}")
    r = run([DLC, "compile", "m.dl", *SMALL, "--dump=kernel", "-o", "dumped.dlp"])
    check(r.returncode == 0 and read("dumped.dlp") == read("p.dlp"), f"-o next to --dump: {r.said}")
    r = run([DLC, "compile", "m.dl", *SMALL, "--dump=ast", "-o", "none.dlp"])
    check(r.returncode == 2 and not os.path.exists(path("none.dlp")), f"-o next to --dump=ast: {r.said}")
    r = run([DLC, "compile", "m.dl", *SMALL, "-o", ""])
    check(r.returncode == 2 and "empty" in r.stderr, r.said)


def test_no_space():
    """A limit on files' sizes (a signal by default) is an error of writing, and leaves nothing."""
    def limited(kib):
        return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (kib << 10, kib << 10))

    for name, kib in (("compile", 4), ("inspect", 1), ("nbody", 64), ("replay", 4), ("plot", 1)):
        command, _, option = COMMANDS[name]
        write("old", b"old")
        r = run([*command, option + "old"], preexec_fn=limited(kib))
        check(r.returncode == 4 and "File too large" in r.stderr, f"{name}: {r.returncode} {r.said}")
        check(read("old") == b"old" and not leftovers(), f"{name} left {leftovers()}")
    r = run(train("--num_epochs=100", "--expdir=big"), preexec_fn=limited(16))
    check(r.returncode == 4 and "File too large" in r.stderr, f"training: {r.returncode} {r.said}")


# A command line with one input's place, and the words in front of it.
READERS = {
    "check": [DLC, "check", "FILE"],
    "model": [DLC, "compile", "FILE", *SMALL],
    "verify": [DLC, "verify", "FILE", *SMALL],
    "bench": [DLC, "bench", "FILE", *SMALL],
    "opt": [DLC, "opt", "--passes=", "FILE"],
    "yaml": [DLRUN, "m.dl", *SMALL, "--dry_run", "--yaml_config=FILE"],
    "train model": [DLRUN, "FILE", *SMALL, "--dry_run"],
    "replay": replay("--replay=FILE"),
    "weights": replay("--init_weights=FILE"),
    "train_path": on_data("--train_path=FILE"),
    "val_path": on_data("--val_path=FILE"),
    "inspect": [DLDATA, "inspect", "FILE", "-o", "picture.png"],
    "plot": [PLOT, "FILE", "picture.png"],
}


def test_special_inputs():
    """What is no regular file is refused by name, at once."""
    os.mkfifo(path("in.fifo"))
    os.mkdir(path("in.dir"))
    os.symlink("in.fifo", path("in.link"))
    listener = socket.socket(socket.AF_UNIX)
    os.chdir(TMP)  # a socket's path is short
    listener.bind("in.socket")
    for (name, command), (file, kind) in itertools.product(READERS.items(), (
            ("in.fifo", "a FIFO"), ("in.link", "a FIFO"), ("in.dir", "a directory"), ("in.socket", "a socket"),
            ("/dev/zero", "a device"))):
        r = run([a.replace("FILE", file) for a in command])
        check(r.returncode == 3 and kind in r.stderr and file in r.stderr,
              f"{name} from {file}: {r.returncode} {r.said}")
    for name, command in READERS.items():
        r = run([a.replace("FILE", "") for a in command])
        check(r.returncode == 2 and "cannot open :" not in r.stderr, f"{name} without a name: {r.returncode} {r.said}")
    check(not os.path.exists(path("picture.png")), "nothing is drawn")
    listener.close()

    with open(path("large"), "wb") as f:
        f.truncate((16 << 20) + 1)
    for name in ("check", "opt", "yaml"):
        r = run([a.replace("FILE", "large") for a in READERS[name]])
        check(r.returncode == 3 and "16 MiB" in r.stderr, f"{name} of a large file: {r.returncode} {r.said}")


def test_cache():
    """FIFOs in the cache stop nobody."""
    os.makedirs(path("odd"), 0o700)
    for file in os.listdir(path("cache")):
        os.mkfifo(path(f"odd/{file}"))
    for args in ([DLC, "compile", "m.dl", *SMALL], train("--expdir=odd_runs")):
        r = run(args, env={**ENV, "DLR_CACHE_DIR": path("odd")})
        check(r.returncode in DOCUMENTED and (r.returncode == 0 or "odd/" in r.stderr),
              f"{args[0][-6:]}: {r.returncode} {r.said}")


def test_pipes():
    """What a shell pipes in is read to its end."""
    for args, data in (([DLC, "check", "/dev/stdin"], read("m.dl")),
                       ([DLC, "opt", "--passes=", "/dev/stdin"], read("passes/00-model.dlir"))):
        r = subprocess.run(args, input=data, capture_output=True, env=ENV, cwd=TMP)
        check(r.returncode == 0 and r.stdout, f"{args[1]}: {r.returncode} {r.stderr}")


PRINTERS = [[DLC, "--help"], [DLC, "--version"], [DLC, "help"], [DLC, "compile", "--help"], [DLC, "opt", "--help"],
            [DLC, "check", "--help"],
            [DLC, "check", "m.dl"], [DLC, "explain", "DL-E0231"], [DLC, "compile", "m.dl", *SMALL],
            [DLC, "verify", "m.dl", *SMALL],
            [DLC, "opt", "--passes=", "passes/00-model.dlir"], [DLC, "compile", "m.dl", *SMALL, "--json"],
            *([DLC, "compile", "m.dl", *SMALL, f"--dump={what}"]
              for what in ("ast", "ir", "kernel", "source", "plan", "memory")),
            [DLC, "compile", "m.dl", *SMALL, "--dump-after=fuse"], [DLRUN, "--help"], [DLRUN, "--version"],
            train("--dry_run"), replay(),
            [DLDATA, "--help"], [DLDATA, "--version"], [DLDATA, "inspect", "--help"], [DLDATA, "nbody", "--help"],
            [DLDATA, "inspect", "d.h5", "-o", "d.png"], [DLDATA, "nbody", "--size=16", "--steps=5", "-o", "n.h5"]]


def test_standard_output():
    """Output that a full device or a reader who left did not take is status 4, with a line that says so."""
    for args in PRINTERS:
        with open("/dev/full", "w") as full:
            r = run(args, capture_output=False, stdout=full, stderr=subprocess.PIPE)
        check(r.returncode == 4 and "standard output" in r.stderr,
              f"{args[0][-6:]} {args[1:]} > full: {r.returncode} {r.stderr}")
        ends = os.pipe()
        os.close(ends[0])
        r = run(args, capture_output=False, stdout=ends[1], stderr=subprocess.PIPE, restore_signals=True)
        os.close(ends[1])
        check(r.returncode == 4 and "standard output" in r.stderr,
              f"{args[0][-6:]} {args[1:]} | none: {r.returncode} {r.stderr}")


def test_closed_streams():
    """Closed standard streams cost what goes there, and nothing else."""
    def without(fds):
        return lambda: [os.close(fd) for fd in fds]

    before = read("d.h5"), read("m.dl")
    for n in (1, 2, 3):
        for fds in itertools.combinations((0, 1, 2), n):
            for args in (on_data(), [DLDATA, "inspect", "d.h5", "-o", "closed.png"],
                         [DLC, "compile", "m.dl", *SMALL, "-o", "closed.dlp"],
                         [DLC, "check", "m.dl"],
                         [DLDATA, "nbody", "--size=16", "--steps=5", "-o", "closed.h5", "--force"]):
                r = run(args, preexec_fn=without(fds))
                check(r.returncode == 0, f"{args[0][-6:]} {args[1]} without {fds}: {r.returncode}")
    check((read("d.h5"), read("m.dl")) == before, "inputs are as they were")
    check(read("closed.dlp") == read("p.dlp"), "a plan written without streams is as it was")


def test_descriptors():
    """However few files may be open: a documented end that blames no file."""
    for n in range(3, 17):
        for args in (on_data(), train(), [DLDATA, "inspect", "d.h5", "-o", "few.png"],
                     [DLC, "compile", "m.dl", *SMALL, "-o", "few.dlp"],
                     [DLDATA, "nbody", "--size=16", "--steps=5", "-o", "few.h5", "--force"], [DLC, "check", "m.dl"]):
            # A program that starts at all: the loader itself needs one.
            r = run(args, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (n, n)))
            if "error while loading shared libraries" in r.stderr:
                continue
            check(r.returncode in (0, 5), f"{args[0][-6:]} {args[1]} with {n}: {r.returncode} {r.said}")
            check("damaged" not in r.stderr, f"{args[0][-6:]} {args[1]} with {n}: {r.said}")
            check(r.returncode == 0 or "ulimit -n" in r.stderr,
                  f"{args[0][-6:]} {args[1]} with {n} names the cause: {r.said}")


def test_reader_gone():
    """A training whose terminal or pager is gone goes on: its log and checkpoint are what it is for."""
    ends = os.pipe()
    os.close(ends[0])
    r = run(train("--num_epochs=3", "--expdir=gone"), capture_output=False, stdout=ends[1], stderr=ends[1])
    os.close(ends[1])
    check(r.returncode == 0, f"exit {r.returncode}")
    check(b"DONE" in read("gone/m-base/1GPU/00/out.log"), "out.log has the end")
    check(os.path.exists(path("gone/m-base/1GPU/00/checkpoints/last/model.safetensors")), "there is a checkpoint")


def main():
    tests = {k[5:]: v for k, v in globals().items() if k.startswith("test_")}
    prepare()
    for name in sys.argv[2:] or tests:
        tests[name]()
    finish()


main()
