"""Files of formats that are not read: each row of runtime/data/foreign_formats.def is named, and its command is run
where what it needs is there.

check_formats.py ARRAY_BLOCKS DLDATA DEF   (the program built from array_blocks.c, dldata, the table); exit status 77:
numpy is missing. What needs a package that is not there is counted and named at the end."""
import importlib.util
import json
import os
import pathlib
import pickle
import re
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
import zipfile

from strict import check, finish

try:
    import numpy as np
    from arrays import Reader
except ImportError:
    print("SKIP: needs numpy")
    sys.exit(77)

READER, DLDATA, TABLE = Reader(sys.argv[1]), os.path.abspath(sys.argv[2]), pathlib.Path(sys.argv[3]).read_text()
DATA = np.arange(12, dtype="f4").reshape(3, 4)
HAS = {name: importlib.util.find_spec(name) is not None
       for name in ("scipy", "torch", "PIL", "safetensors", "pandas", "joblib")}
not_run = []


def at(place, text, size=600):
    """A file that has nothing but this text at this place."""
    return bytes(place) + text + bytes(max(0, size - place - len(text)))


def numpy_text(path, **how):
    np.savetxt(path, DATA, **how)


def write_zip(path, names):
    with zipfile.ZipFile(path, "w") as z:
        for name in names:
            z.writestr(name, "{}")


def write_tar(path):
    with tarfile.open(path, "w") as t:
        t.add(__file__, "x")


def write_sqlite(path):
    base = sqlite3.connect(path)
    base.execute("CREATE TABLE x (a)")
    base.commit(), base.close()


def by_shell(command):
    return lambda path: subprocess.run(command.replace("IN", str(path)), shell=True, check=True)


def packed(program):
    """x.npy, packed by a program."""
    def write(path):
        np.save(path.with_name("plain.npy"), DATA)
        subprocess.run(f"{program} < plain.npy > {path.name}", shell=True, check=True, cwd=path.parent)
    return write


def torch_save(path):
    import torch
    torch.save(torch.from_numpy(DATA.copy()), path)


def scipy_mat(path, form="5"):
    import scipy.io
    scipy.io.savemat(path, {"x": DATA}, format=form)


def scipy_wav(path):
    import scipy.io.wavfile
    scipy.io.wavfile.write(path, 8000, DATA[:, :1])


def pandas_stata(path):
    import pandas
    pandas.DataFrame(DATA, columns=list("abcd")).to_stata(path, write_index=False)


def safetensors_save(path):
    from safetensors.numpy import save_file
    save_file({"x": DATA}, path)


def picture(path):
    from PIL import Image
    Image.fromarray(np.arange(12, dtype="u1").reshape(3, 4)).save(path)


BYTES = np.arange(12, dtype="u1").reshape(3, 4)

# row's name, file's name, how it is written (bytes or a function of the path), what the command must leave (None: it is
# not run, since what it needs is large or from elsewhere), and what it needs
ROWS = [
    ("HDF4", "a.hdf", at(0, b"\x0e\x03\x13\x01"), None, None),
    ("NIfTI", "b.hdr", at(344, b"ni1\0"), None, None),
    ("FITS (gzip)", "b.fits.gz", at(0, b"\x1f\x8b\x08"), None, None),
    ("FreeSurfer (gzip)", "b.mgz", at(0, b"\x1f\x8b\x08"), None, None),
    ("FreeSurfer", "b.mgh", at(3, b"\1"), None, None), ("Analyze", "c.hdr", at(0, b"\x5c\1\0\0"), None, None),
    ("NASA CDF", "b.cdf", at(0, b"\xcd\xf3\0\1"), None, None),
    ("Stata", "b.dta", lambda path: pandas_stata(path) if HAS["pandas"] else path.write_bytes(at(0, b"\x72")),
     ("npy", DATA), "pandas"),
    ("SAS", "b.sas7bdat", at(0, b"\0\0"), None, None),
    ("text of 16 bits a letter", "b.csv", "a,b\n1,2\n".encode("utf-16"), None, None),
    ("MATLAB 4", "b.mat", (lambda path: scipy_mat(path, "4")) if HAS["scipy"] else at(1, b"\4"), ("npz", DATA),
     "scipy"),
    ("DICOM", "a.dcm", at(128, b"DICM"), None, None), ("NRRD", "a.nrrd", at(0, b"NRRD0004"), None, None),
    ("MetaImage", "a.mha", b"ObjectType = Image\nNDims = 3\n", None, None),
    ("MRC", "a.mrc", at(208, b"MAP "), None, None),
    ("VTK", "a.vtk", b"# vtk DataFile Version 3.0\n", None, None),
    ("VTK (XML)", "a.vti", b"<?xml version='1.0'?>", None, None),
    ("ROOT", "a.root", at(0, b"root"), None, None), ("IDL", "a.sav", at(0, b"SR\0\4"), None, None),
    ("Arrow", "a.arrow", at(0, b"ARROW1"), None, None),
    ("Feather", "a.feather", at(0, b"FEA1"), None, None), ("ORC", "a.orc", at(0, b"ORC"), None, None),
    ("SQLite", "a.db", write_sqlite, None, None), ("Excel", "a.xls", at(0, b"\xd0\xcf\x11\xe0"), None, None),
    ("text", "a.txt", numpy_text, ("npy", DATA), "numpy"),
    ("JSON", "a.json", json.dumps(DATA.tolist()).encode(), ("npy", DATA), "numpy"),
    ("safetensors", "a.safetensors", safetensors_save if HAS["safetensors"] else at(8, b'{"x"'), ("npz", DATA),
     "safetensors"),
    ("pickle", "a.pkl", pickle.dumps(DATA), ("npy", DATA), "numpy"),
    ("joblib", "a.joblib", b"\x80\4", None, None), ("PyTorch", "old.pt", b"\x80\2\x8a\n", None, None),
    ("TFRecord", "a.tfrecord", bytes(40), None, None),
    ("raw numbers", "a.raw", DATA.tobytes(), ("npy", DATA), "numpy"),
    ("PyTorch", "a.pt", torch_save if HAS["torch"] else lambda path: write_zip(path, ["a/data.pkl"]), ("npy", DATA),
     "torch"),
    ("Excel", "a.xlsx", lambda path: write_zip(path, ["[Content_Types].xml", "xl/workbook.xml"]), None, None),
    ("zipped Zarr", "a.zarr.zip", lambda path: write_zip(path, [".zgroup", "x/0.0"]), None, None),
    ("zipped Zarr", "b.zip", lambda path: write_zip(path, ["x/.zarray", "x/0.0"]), None, None),
    ("zipped Zarr", "c.zip", lambda path: write_zip(path, ["zarr.json"]), None, None),
    ("PNG", "a.png", picture if HAS["PIL"] else at(0, b"\x89PNG\r\n"), ("npy", BYTES), "PIL"),
    ("JPEG", "a.jpg", at(0, b"\xff\xd8\xff"), None, None), ("GIF", "a.gif", at(0, b"GIF89a"), None, None),
    ("BMP", "a.bmp", picture if HAS["PIL"] else at(0, b"BM"), ("npy", BYTES), "PIL"),
    ("JPEG 2000", "a.jp2", at(4, b"jP  "), None, None),
    ("WAV", "a.wav", scipy_wav if HAS["scipy"] else at(8, b"WAVE"), ("npy", DATA[:, :1]), "scipy"),
    ("gzip", "a.npy.gz", packed("gzip"), ("", DATA), "gzip"),
    ("bzip2", "a.npy.bz2", packed("bzip2"), ("", DATA), "bzip2"),
    ("xz", "a.npy.xz", packed("xz"), ("", DATA), "xz"), ("zstd", "a.npy.zst", at(0, b"\x28\xb5\x2f\xfd"), None, None),
    ("tar", "a.tar", write_tar, None, None),
    ("Git LFS pointer (the data were not fetched)", "a.h5",
     b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", None, None),
    ("HTML (a page that was fetched in place of the data?)", "b.h5", b"<!DOCTYPE html><html>", None, None),
    ("HTML (a page that was fetched in place of the data?)", "c.h5", b"<html><body>404", None, None),
]


def write(folder, file, how):
    path = folder / file
    try:
        how(path) if callable(how) else path.write_bytes(how)
    except (OSError, subprocess.CalledProcessError):  # its packer is not there
        return None
    return path


def run_command(folder, message, file, wanted, needs):
    """The command as the message has it, with the file's name for IN; what it leaves next to the truth."""
    ending, data = wanted
    if not (HAS.get(needs) or needs == "numpy" or shutil.which(needs)):
        not_run.append(file)
        return
    command = re.search(r'Convert it: (python3 -c ".*?"|[^,(]*?)( \(|,|$)', message).group(1)
    command = command.replace("python3", sys.executable).replace("SHAPE", str(data.shape))
    for out in folder.glob("OUT*"):
        out.unlink()
    done = subprocess.run(re.sub(r"\bIN\b", file, command), shell=True, cwd=folder, stderr=subprocess.PIPE, text=True)
    check(done.returncode == 0, f"{command}: {done.stderr}")
    out = folder / (f"OUT.{ending}" if ending else "OUT")
    name = "x" if ending in ("nc", "npz") else ""
    kind = "u8" if data.dtype == np.uint8 else "f32"
    got = READER.ask(out, [(name, kind, [0, 0], list(data.shape), [1, 1])])[0]
    check(not isinstance(got, str) and np.array_equal(got, data), f"{command}: {got}")


def check_row(folder, name, file, how, wanted, needs):
    path = write(folder, file, how)
    if path is None:
        not_run.append(file)
        return
    message = READER.ask(path, [("x", "f32", [0], [1], [1])])[0]
    check(isinstance(message, str) and message.startswith("error 3 ") and file in message and
          f"is of the format {name}, which is not read. Convert it: " in message, f"{file}: {message}")
    if wanted:
        run_command(folder, message, file, wanted, needs)
    if name == "JPEG":  # which dldata shows
        return
    seen = subprocess.run([DLDATA, "inspect", str(path)], capture_output=True, text=True, cwd=folder)
    check(seen.returncode == 3 and f"is of the format {name}," in seen.stderr, f"dldata inspect {file}: {seen.stderr}")


def check_ours(folder):
    """What is read is read whatever it is called, and after a user block that is another format's."""
    np.save(folder / "ours.npy", DATA)
    for name in ("a.tif", "b.csv", "c.mat"):
        (folder / name).write_bytes((folder / "ours.npy").read_bytes())
        got = READER.ask(folder / name, [("", "f32", [0, 0], [3, 4], [1, 1])])[0]
        check(np.array_equal(got, DATA), f"{name}: {got}")
    np.savez(folder / "none.npz")
    got = READER.ask(folder / "none.npz", [("x", "f32", [0], [1], [1])])[0]
    check("a damaged zip file: it is empty" in got, got)
    try:
        import h5py
    except ImportError:
        return
    for block in (b"MATLAB 5.0 MAT-file", b"II*\0", b"CDF\1"):
        with h5py.File(folder / "block.mat", "w", userblock_size=1024) as f:
            f["x"] = DATA
        with open(folder / "block.mat", "r+b") as f:
            f.write(block)
        got = READER.ask(folder / "block.mat", [("x", "f32", [0, 0], [3, 4], [1, 1])])[0]
        check(np.array_equal(got, DATA), f"{block}: {got}")


def main():
    names = set(re.findall(r'^(?:FORMAT|ZIP)\("([^"]*)"', TABLE, re.M))
    check(names == {row[0] for row in ROWS},
          f"rows of the table that are not checked, or the reverse: {names ^ {r[0] for r in ROWS}}")
    with tempfile.TemporaryDirectory() as folder:
        for row in ROWS:
            check_row(pathlib.Path(folder), *row)
        check_ours(pathlib.Path(folder))
    if not_run:
        print(f"commands not run, for what they need is not there: {', '.join(not_run)}")
    finish()


main()
