"""HDF5's links and virtual data sets, read by our readers and by h5py: random ones, and hostile ones.

check_links.py ARRAY_BLOCKS DLDATA [SEED]   exit status 77: numpy or h5py is missing
"""
import os
import pathlib
import subprocess
import sys
import tempfile

from strict import check, finish

try:
    import h5py
    import numpy as np
    from arrays import Reader, numbers
except ImportError:
    print("SKIP: needs numpy and h5py")
    sys.exit(77)

READER = Reader(os.path.abspath(sys.argv[1]))
DLDATA = os.path.abspath(sys.argv[2])
KINDS = ["f4", "f8", "i2", "u1", ">i4", ">f4", "i8", "f2"]
PACKED = [{}, {}, dict(chunks=True), dict(chunks=True, compression="gzip", shuffle=True)]


def pick(rng, items):
    return items[int(rng.integers(len(items)))]


# Links -------------------------------------------------------------------------------------------------------------

def names_of(f):
    """Every array to which a path leads, through links to groups too, unless a group holds the link to it."""
    found = {}

    def walk(group, prefix, above):
        for name in group:
            try:
                item = group[name]
            except KeyError:
                continue
            path = f"{prefix}{name}"
            if isinstance(item, h5py.Dataset):
                found[path] = item[()]
            elif (item.file.filename, item.name) not in above:
                walk(item, path + "/", above | {(item.file.filename, item.name)})

    walk(f, "", {(f.filename, "/")})
    return found


def check_links(rng, folder):
    """A file with soft and external links to arrays, and to groups of arrays, of files in folders next to it."""
    (folder / "parts").mkdir()
    for k in range(3):
        with h5py.File(folder / f"parts/p{k}.h5", "w") as f:
            for name in ("x", "run/y"):
                f.create_dataset(name, data=numbers(rng, (6, 5), pick(rng, KINDS)), **pick(rng, PACKED))
            f["run/alias"] = h5py.SoftLink("/x")
            f["run/near"] = h5py.SoftLink("y")  # relative to its group
            f["next"] = h5py.ExternalLink(f"p{(k + 1) % 3}.h5", "/run/alias")
    with h5py.File(folder / "main.h5", "w") as f:
        data = f.create_dataset("deep/down/z", data=numbers(rng, (7, 3), "f4"))
        data.attrs["units"] = "K"
        f["a"] = h5py.SoftLink("/deep/down/z")
        f["b"] = h5py.SoftLink("a")
        f["deep/c"] = h5py.SoftLink("down/z")
        f["deep/again"] = h5py.SoftLink("/deep/down/../down/z")  # which is no parent in HDF5
        f["short"] = h5py.SoftLink("/deep/./down")
        for k in range(3):
            f[f"run{k}"] = h5py.ExternalLink(f"parts/p{k}.h5", "/")
        f["one"] = h5py.ExternalLink("parts/p1.h5", "run/near")
        f["other"] = h5py.ExternalLink("parts/p0.h5", "/next")
    with h5py.File(folder / "main.h5") as f:
        arrays = names_of(f)
    check(len(arrays) > 15, list(arrays))
    listed, _ = READER.listed(folder / "main.h5")
    check(sorted(arrays) == sorted(n for n in listed if not listed[n][6]),
          f"{sorted(arrays)} is not {sorted(listed)}")
    check("units=K" in listed["b"][5], listed["b"])
    READER.compare(rng, folder / "main.h5", arrays, 4, whole=True)
    os.chdir(folder)  # a path without a folder
    READER.compare(rng, pathlib.Path("main.h5"), arrays, 1, whole=True)


def check_hostile_links(folder):
    """Each is refused by name with what is wrong, and the array next to it is read."""
    (folder / "in").mkdir()
    with h5py.File(folder / "secret.h5", "w") as f:
        f["x"] = np.arange(3.0)
    (folder / "in/text.h5").write_text("no HDF5")
    os.mkfifo(folder / "in/pipe.h5")
    with h5py.File(folder / "in/ring.h5", "w") as f:
        f["back"] = h5py.ExternalLink("links.h5", "/ring")
    path = folder / "in/links.h5"
    with h5py.File(path, "w") as f:
        f["good"] = np.arange(4.0)
        f["self"] = h5py.SoftLink("/self")
        f["here"] = h5py.SoftLink("here")
        f["tick"], f["tock"] = h5py.SoftLink("/tock"), h5py.SoftLink("/tick")
        f["grows"] = h5py.SoftLink("/grows/more")
        f["gone"] = h5py.SoftLink("/nothing")
        f["inside"] = h5py.SoftLink("/good/inside")
        f["ring"] = h5py.ExternalLink("ring.h5", "/back")
        f["up"] = h5py.ExternalLink("../secret.h5", "/x")
        f["sly"] = h5py.ExternalLink("none/../../secret.h5", "/x")
        f["far"] = h5py.ExternalLink(str(folder / "secret.h5"), "/x")
        f["lost"] = h5py.ExternalLink("lost.h5", "/x")
        f["text"] = h5py.ExternalLink("text.h5", "/x")
        f["pipe"] = h5py.ExternalLink("pipe.h5", "/x")
        f["folder"] = h5py.ExternalLink(".", "/x")
        f["missing"] = h5py.ExternalLink("ring.h5", "/x")
        f["group/loop"] = h5py.SoftLink("/group")
        f["long"] = h5py.SoftLink("/" + "n" * 1010)
    says = {"self": "leads back to itself", "here": "leads back to itself", "tick": "leads back to itself",
            "tock": "leads back to itself", "grows": "more than", "gone": "'nothing', which is not there",
            "inside": "'good/inside', which is not there", "ring": "leads back to itself",
            "up": "'../secret.h5', which lies out of the folder", "sly": "lies out of the folder",
            "far": "lies out of the folder", "lost": "'lost.h5', which is not there", "text": "is no HDF5 file",
            "pipe": "is no file", "folder": "is no file", "missing": "'ring.h5:x', which is not there",
            "group/loop": "a group that holds it", "long": "path of more than"}
    listed, _ = READER.listed(path)
    check(sorted(listed) == sorted([*says, "good"]), sorted(listed))
    for name, what in says.items():
        check(what in listed[name][6], f"{name}: {listed[name][6]}")
        got = READER.ask(path, [(name, "f32", [0], [1], [1])])[0]
        check(isinstance(got, str) and "links.h5" in got and f"'{name}'" in got and what in got, got)
    check(np.array_equal(READER.ask(path, [("good", "f64", [0], [4], [1])])[0], np.arange(4.0)), "the array next to it")
    shown = subprocess.run([DLDATA, "inspect", str(path)], stdout=subprocess.PIPE, text=True)
    check(shown.returncode == 0 and "lies out of the folder" in shown.stdout and "good  f64" in shown.stdout, shown)


def check_many(folder):
    """Links that fan out: a group of links to a group of links, and so on."""
    with h5py.File(folder / "fan.h5", "w") as f:
        f["x"] = np.zeros(2)
        for level in range(12):
            for k in range(10):
                f[f"g{level}/to{k}"] = h5py.SoftLink(f"/g{level + 1}" if level < 11 else "/x")
    listed, _ = READER.listed(folder / "fan.h5")
    check("x" in listed and len(listed) <= 256, len(listed))


# Virtual data sets -------------------------------------------------------------------------------------------------

def write_sources(rng, folder, n, shape, kind):
    kept = []
    for k in range(n):
        data = numbers(rng, shape, kind).astype(kind)
        with h5py.File(folder / f"s{k}.h5", "w") as f:
            f.create_dataset("group/x", data=data, **pick(rng, PACKED))
            f["link"] = h5py.SoftLink("/group/x")
        kept.append(data)
    return kept


def check_virtual(rng, folder, trial):
    """Sources stacked along a new axis, joined along one of theirs, interleaved, cut out, and with gaps."""
    folder = folder / f"v{trial}"
    folder.mkdir()
    kind, n = pick(rng, KINDS), int(rng.integers(1, 5))
    shape = tuple(int(k) for k in rng.integers(1, 7, int(rng.integers(1, 4))))
    write_sources(rng, folder, n, shape, kind)
    name = "link" if trial % 5 == 0 else "group/x"
    sources = [h5py.VirtualSource(f"s{k}.h5", name, shape) for k in range(n)]
    stacked = h5py.VirtualLayout((n,) + shape, kind)
    joined = h5py.VirtualLayout((n * shape[0],) + shape[1:], kind)
    woven = h5py.VirtualLayout(shape[:-1] + (n * shape[-1],), kind)
    gaps = h5py.VirtualLayout((2 * n + 1,) + shape, kind)
    cut = h5py.VirtualLayout((n,) + shape[1:], kind)
    step = h5py.VirtualLayout((-(-shape[0] // 2) * n,) + shape[1:], kind)
    for k, source in enumerate(sources):
        stacked[k] = source
        joined[k * shape[0]:(k + 1) * shape[0]] = source
        woven[..., k::n] = source
        gaps[2 * k + 1] = source
        cut[k] = source[int(rng.integers(shape[0]))]
        size = -(-shape[0] // 2)
        step[k * size:(k + 1) * size] = source[::2]
    own = h5py.VirtualLayout(shape, kind)
    with h5py.File(folder / "all.h5", "w", libver="latest") as f:
        f["here"] = numbers(rng, shape, kind).astype(kind)
        own[...] = h5py.VirtualSource(f["here"])
        for key, layout in (("stacked", stacked), ("joined", joined), ("woven", woven), ("cut", cut), ("own", own),
                            ("step", step)):
            f.create_virtual_dataset(key, layout)
        f.create_virtual_dataset("gaps", gaps, fillvalue=7)
    os.chdir(folder)  # libhdf5 1.10 looks for the sources here
    with h5py.File("all.h5") as f:
        arrays = {key: f[key][()] for key in f}
    check((arrays["gaps"][0] == 7).all(), "gaps have the fill value")
    READER.compare(rng, folder / "all.h5", arrays, 6, whole=True)
    READER.compare(rng, folder / "all.h5", arrays, 2, cache=0)
    listed, _ = READER.listed(folder / "all.h5")
    check(listed["stacked"][3] == "virtual" and not listed["stacked"][6], listed["stacked"])


def check_unlimited(rng, folder):
    """Virtual sets without an end: as long as their source, or two sources woven into each other."""
    endless = h5py.h5s.UNLIMITED
    data = rng.normal(size=(2, 9, 4)).astype("f4")
    with h5py.File(folder / "grows.h5", "w", libver="latest") as f:
        sources = []
        for k in range(2):
            f.create_dataset(f"x{k}", data=data[k], maxshape=(None, 4), chunks=(2, 4))
            sources.append(h5py.VirtualSource(f[f"x{k}"]))
        one, two = (h5py.VirtualLayout((n, 4), "f4", maxshape=(None, 4)) for n in (9, 18))
        one[:endless] = sources[0][:endless]
        for k in range(2):
            two[k:endless:2] = sources[k][:endless]
        f.create_virtual_dataset("one", one)
        f.create_virtual_dataset("two", two)
    os.chdir(folder)
    with h5py.File("grows.h5") as f:
        arrays = {key: f[key][()] for key in f}
    check(np.array_equal(arrays["two"][1::2], data[1]), "h5py reads what was woven")
    READER.compare(rng, folder / "grows.h5", arrays, 6, whole=True)


def check_hostile_virtual(folder):
    """Sources that are not there, too small, of another type, out of the folder, virtual themselves, that overlap."""
    (folder / "w").mkdir()
    with h5py.File(folder / "out.h5", "w") as f:
        f["x"] = np.arange(4.0)
    path = folder / "w/v.h5"
    with h5py.File(folder / "w/s.h5", "w") as f:
        f["x"], f["small"], f["whole"] = np.arange(4.0), np.arange(3.0), np.arange(4)
        f["loop"] = h5py.SoftLink("/loop")

    def layout(*parts, shape=(4,), part=None):
        made = h5py.VirtualLayout(shape, "f8")
        for at, file, name in parts:
            source = h5py.VirtualSource(file, name, (4,))
            made[at] = source if part is None else source[part]
        return made

    cases = {
        "lost": (layout((slice(0, 4), "lost.h5", "x")), "'lost.h5', a file, is not there"),
        "nowhere": (layout((slice(0, 4), "s.h5", "y")), "which is not there"),
        "loop": (layout((slice(0, 4), "s.h5", "loop")), "leads back to itself"),
        "small": (layout((slice(0, 4), "s.h5", "small")), "another shape than its source has"),
        "part": (layout((slice(1, 4), "s.h5", "small"), part=slice(1, 4)), "more than its source has: 'small'"),
        "type": (layout((slice(0, 4), "s.h5", "whole")), "another type of numbers: 'whole'"),
        "up": (layout((slice(0, 4), "../out.h5", "x")), "'../out.h5' lies out of the folder"),
        "far": (layout((slice(0, 4), str(folder / "out.h5"), "x")), "lies out of the folder"),
        "overlap": (layout((slice(0, 4), "s.h5", "x"), (slice(3, 7), "s.h5", "x"), shape=(7,)), "parts that overlap"),
        "woven": (layout((slice(0, 8, 2), "s.h5", "x"), (slice(4, 8), "s.h5", "x"), shape=(8,)), "parts that overlap"),
        "pattern": (layout((slice(0, h5py.h5s.UNLIMITED, 4), "s%b.h5", "x"), part=slice(0, 1)), "are a pattern"),
        "itself": (layout((slice(0, 4), "v.h5", "itself")), "of virtual data sets"),
    }
    with h5py.File(path, "w", libver="latest") as f:
        f["good"] = np.arange(4.0)
        for name, (made, _) in cases.items():
            f.create_virtual_dataset(name, made)
    listed, _ = READER.listed(path)
    for name, (_, says) in cases.items():
        check(says in listed[name][6], f"{name}: {listed[name][6]}")
        got = READER.ask(path, [(name, "f64", [0], [1], [1])])[0]
        check(isinstance(got, str) and "v.h5" in got and f"'{name}'" in got and says in got, got)
    check(np.array_equal(READER.ask(path, [("good", "f64", [0], [4], [1])])[0], np.arange(4.0)), "the array next to it")
    with h5py.File(folder / "w/s.h5", "r+") as f:  # which the file of the set does not show
        f["x"][1] = np.nan
    with h5py.File(path, "r+", libver="latest") as f:
        f.create_virtual_dataset("fine", layout((slice(0, 4), "s.h5", "x")))
    got = READER.ask(path, [("fine", "f64", [0], [4], [1]), ("fine", "i32", [0], [4], [1])])
    check(np.array_equal(got[0], [0, np.nan, 2, 3], equal_nan=True), got)
    check(isinstance(got[1], str) and "no whole number" in got[1], got)


def main():
    rng = np.random.default_rng(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder).resolve()
        check_links(rng, folder)
        check_hostile_links(folder)
        check_many(folder)
        for trial in range(12):
            check_virtual(rng, folder, trial)
        check_unlimited(rng, folder)
        check_hostile_virtual(folder)
        os.chdir("/")
    finish()


main()
