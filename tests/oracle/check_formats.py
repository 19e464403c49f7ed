"""Files of formats that are not read: each row of runtime/data/foreign_formats.def is named, and its command is run
where what it needs is there.

check_formats.py ARRAY_BLOCKS DLDATA DEF   (the program built from array_blocks.c, dldata, the table); exit status 77:
numpy is missing. What needs a package that is not there is counted and named at the end."""
import ast
import importlib
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

from formats import run_again
from strict import check, finish

try:
    import numpy as np
    from arrays import Reader, write_shards
except ImportError:
    print("SKIP: needs numpy")
    sys.exit(77)

READER, DLDATA, TABLE = Reader(sys.argv[1]), os.path.abspath(sys.argv[2]), pathlib.Path(sys.argv[3]).read_text()
DATA = np.arange(12, dtype="f4").reshape(3, 4)
not_run = []


def has(needs):
    """Whether a module or a program of that name is there."""
    return importlib.util.find_spec(needs.split(".")[0]) is not None or shutil.which(needs) is not None


def use(name):
    return importlib.import_module(name)


def at(place, text, size=600):
    """A file that has nothing but this text at this place."""
    return bytes(place) + text + bytes(max(0, size - place - len(text)))


def numpy_text(path, **how):
    np.savetxt(path, DATA, **how)


def zip_of(names):
    def write(path):
        with zipfile.ZipFile(path, "w") as z:
            for name in names:
                z.writestr(name, "{}")
    return write


def zipped_zarr(version):
    """A store in a zip file, with an array of the name x."""
    def write(path):
        with tempfile.TemporaryDirectory() as folder:
            store = pathlib.Path(folder)
            if version == 3:
                write_shards(store / "x", DATA.copy(), (3, 4), (3, 2), "none", "end", "<", ())
                (store / "zarr.json").write_text('{"zarr_format": 3, "node_type": "group"}')
            else:
                (store / "x").mkdir()
                (store / ".zgroup").write_text('{"zarr_format": 2}')
                (store / "x/.zarray").write_text(json.dumps({
                    "zarr_format": 2, "shape": [3, 4], "chunks": [3, 4], "dtype": "<f4", "order": "C",
                    "compressor": None, "filters": None, "fill_value": 0}))
                (store / "x/0.0").write_bytes(DATA.tobytes())
            with zipfile.ZipFile(path, "w") as z:
                for file in sorted(p for p in store.rglob("*") if p.is_file()):
                    z.write(file, file.relative_to(store))
    return write


def write_tar(path):
    np.save(path.with_name("inside.npy"), DATA)
    with tarfile.open(path, "w") as t:
        t.add(path.with_name("inside.npy"), "inside.npy")


def write_sqlite(path):
    base = sqlite3.connect(path)
    base.execute("CREATE TABLE x (a, b, c, d)")
    base.executemany("INSERT INTO x VALUES (?, ?, ?, ?)", DATA.tolist())
    base.commit(), base.close()


def packed(program):
    """x.npy, packed by a program."""
    def write(path):
        np.save(path.with_name("plain.npy"), DATA)
        subprocess.run(f"{program} < plain.npy > {path.name}", shell=True, check=True, cwd=path.parent)
    return write


def frame():
    return use("pandas").DataFrame(DATA, columns=list("abcd"))


def by_frame(method, **options):
    return lambda path: getattr(frame(), method)(path, **options)


def write_hdf4(path):
    sd = use("pyhdf.SD")
    f = sd.SD(str(path), sd.SDC.WRITE | sd.SDC.CREATE)
    f.create("x", sd.SDC.FLOAT32, DATA.shape)[:] = DATA
    f.end()


def write_dicom(path):
    pydicom = use("pydicom")
    data, meta = pydicom.Dataset(), use("pydicom.dataset").FileMetaDataset()
    meta.TransferSyntaxUID = pydicom.uid.ExplicitVRLittleEndian
    meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID = "1.2.840.10008.5.1.4.1.1.7", "1.2.3"
    data.SOPClassUID, data.SOPInstanceUID = meta.MediaStorageSOPClassUID, "1.2.3"
    data.Rows, data.Columns, data.SamplesPerPixel, data.PhotometricInterpretation = 3, 4, 1, "MONOCHROME2"
    data.BitsAllocated = data.BitsStored = 8
    data.HighBit, data.PixelRepresentation, data.PixelData = 7, 0, BYTES.tobytes()
    data.file_meta = meta
    data.save_as(path, enforce_file_format=True)


def write_cdf(path):
    cdf = use("cdflib.cdfwrite").CDF(str(path), delete=True)
    cdf.write_var({"Variable": "x", "Data_Type": 44, "Num_Elements": 1, "Rec_Vary": True, "Dim_Sizes": [4],
                   "Dim_Vary": [True]}, var_data=DATA)
    cdf.close()


def write_vti(path):
    image = use("pyvista").ImageData(dimensions=(3, 4, 1))
    image.point_data["x"] = DATA.ravel()
    image.save(path)


def write_vtk(path):
    points = np.stack([DATA.ravel()] * 3, 1).astype("f8")
    use("meshio").Mesh(points, [("line", [[0, 1]])], point_data={"x": DATA.ravel()}).write(path)


def write_root(path):
    with use("uproot").recreate(path) as f:
        f.mktree("t", {"x": "float32"}).extend({"x": DATA.ravel()})


def write_excel(path):
    book = use("xlwt").Workbook()
    sheet = book.add_sheet("s")
    for i, row in enumerate([list("abcd"), *DATA.tolist()]):
        for j, value in enumerate(row):
            sheet.write(i, j, value)
    book.save(str(path))


def write_records(path):
    writer = use("tfrecord").TFRecordWriter(str(path))
    for row in DATA:
        writer.write({"x": (row.tolist(), "float")})
    writer.close()


def write_mrc(path):
    with use("mrcfile").new(path) as f:
        f.set_data(DATA.copy())


def nibabel_save(kind, data):
    return lambda path: getattr(use("nibabel"), kind)(data, np.eye(4)).to_filename(path)


def idl_data(path):
    """A file of scipy's own tests."""
    path.write_bytes((pathlib.Path(use("scipy.io").__file__).parent / "tests/data/array_float32_1d.sav").read_bytes())


def picture(path):
    use("PIL.Image").fromarray(BYTES).save(path)


def coloured(path):
    """A palette, whose colours count."""
    image = use("PIL.Image").fromarray(BYTES % 3, "P")
    image.putpalette([10, 20, 30, 40, 50, 60, 70, 80, 90])
    image.save(path)


def lossy(path):
    use("PIL.Image").fromarray(np.full((8, 8), 77, "u1")).save(path)


BYTES = np.arange(12, dtype="u1").reshape(3, 4)
COLOURS = np.array([[10, 20, 30], [40, 50, 60], [70, 80, 90]], "u1")[BYTES % 3]
BOX = np.arange(24, dtype="f4").reshape(2, 3, 4)
X = {"x": DATA}
FLAT = {"x": DATA.ravel()}

# row's name, file's name, how it is written (a function of the path; or bytes, which no program could read), what the
# command must leave (its ending and the array or arrays; None: it is not run), and what writer and command need
ROWS = [
    ("HDF4", "a.hdf", write_hdf4, ("npz", X), "pyhdf"),
    ("NIfTI", "b.hdr", nibabel_save("Nifti1Pair", BOX), ("npy", BOX), "nibabel"),
    ("FITS (gzip)", "b.fits.gz", lambda path: use("astropy.io.fits").PrimaryHDU(DATA).writeto(path), ("npy", DATA),
     "astropy"),
    ("FreeSurfer (gzip)", "b.mgz", nibabel_save("MGHImage", BOX), ("npy", BOX), "nibabel"),
    ("FreeSurfer", "b.mgh", nibabel_save("MGHImage", BOX), ("npy", BOX), "nibabel"),
    ("Analyze", "c.hdr", nibabel_save("AnalyzeImage", BOX), ("npy", BOX), "nibabel"),
    ("NASA CDF", "b.cdf", write_cdf, ("npz", X), "cdflib"),
    ("Stata", "b.dta", by_frame("to_stata", write_index=False), ("npy", DATA), "pandas"),
    ("SAS", "b.sas7bdat", at(0, b"\0\0"), None, "pandas"),
    ("text of 16 bits a letter", "b.csv", "a,b\n1,2\n".encode("utf-16"),
     ("csv", {"a": np.ones(1), "b": np.full(1, 2.0)}), "iconv"),
    ("MATLAB 4", "b.mat", lambda path: use("scipy.io").savemat(path, X, format="4"), ("npz", X), "scipy"),
    ("DICOM", "a.dcm", write_dicom, ("npy", BYTES), "pydicom"),
    ("NRRD", "a.nrrd", lambda path: use("nrrd").write(str(path), DATA), ("npy", DATA), "nrrd"),
    ("MetaImage", "a.mha", lambda path: use("SimpleITK").WriteImage(use("SimpleITK").GetImageFromArray(BOX), str(path)),
     ("npy", BOX), "SimpleITK"),
    ("MRC", "a.mrc", write_mrc, ("npy", DATA), "mrcfile"),
    ("VTK", "a.vtk", write_vtk, ("npz", FLAT), "meshio"),
    ("VTK (XML)", "a.vti", write_vti, ("npz", FLAT), "pyvista"),
    ("ROOT", "a.root", write_root, ("npz", FLAT), "uproot"),
    ("IDL", "a.sav", idl_data, ("npz", {"array1d": np.zeros(123)}), "scipy"),
    ("Arrow", "a.arrow", by_frame("to_feather"), ("npy", DATA), "pyarrow"),
    ("Feather", "a.feather", lambda path: use("pyarrow.feather").write_feather(frame(), path, version=1), ("npy", DATA),
     "pyarrow"),
    ("ORC", "a.orc", by_frame("to_orc"), ("npy", DATA), "pyarrow"),
    ("SQLite", "a.db", write_sqlite, ("npy", DATA), "pandas"),
    ("Excel", "a.xls", write_excel, ("npy", DATA), "xlwt"),
    ("text", "a.txt", numpy_text, ("npy", DATA), "numpy"),
    ("JSON", "a.json", json.dumps(DATA.tolist()).encode(), ("npy", DATA), "numpy"),
    ("safetensors", "a.safetensors", lambda path: use("safetensors.numpy").save_file(X, path), ("npz", X),
     "safetensors"),
    ("pickle", "a.pkl", pickle.dumps(DATA), ("npy", DATA), "numpy"),
    ("joblib", "a.joblib", lambda path: use("joblib").dump(DATA, path), ("npy", DATA), "joblib"),
    ("PyTorch", "old.pt", lambda path: use("torch").save(use("torch").from_numpy(DATA.copy()), path,
                                                         _use_new_zipfile_serialization=False),
     ("npy", DATA), "torch"),
    ("TFRecord", "a.tfrecord", write_records, ("npz", X), "tfrecord"),
    ("raw numbers", "a.raw", DATA.tobytes(), ("npy", DATA), "numpy"),
    ("PyTorch", "a.pt", lambda path: use("torch").save(use("torch").from_numpy(DATA.copy()), path), ("npy", DATA),
     "torch"),
    ("Excel", "a.xlsx", by_frame("to_excel", index=False), ("npy", DATA), "openpyxl"),
    ("zipped Zarr", "a.zarr.zip", zip_of([".zgroup", "x/0.0"]), None, "unzip"),
    ("zipped Zarr", "b.zip", zipped_zarr(2), ("zarr", X), "unzip"),
    ("zipped Zarr", "c.zip", zipped_zarr(3), ("zarr", X), "unzip"),
    ("PNG", "a.png", picture, ("npy", BYTES), "PIL"), ("PNG", "b.png", coloured, ("npy", COLOURS), "PIL"),
    ("JPEG", "a.jpg", lossy, ("npy", np.full((8, 8), 77, "u1")), "PIL"),
    ("GIF", "a.gif", coloured, ("npy", COLOURS), "PIL"), ("BMP", "a.bmp", picture, ("npy", BYTES), "PIL"),
    ("JPEG 2000", "a.jp2", lossy, ("npy", np.full((8, 8), 77, "u1")), "PIL"),
    ("WAV", "a.wav", lambda path: use("scipy.io.wavfile").write(path, 8000, DATA[:, :1]), ("npy", DATA[:, :1]),
     "scipy"),
    ("gzip", "a.npy.gz", packed("gzip"), ("", DATA), "gzip"),
    ("bzip2", "a.npy.bz2", packed("bzip2"), ("", DATA), "bzip2"),
    ("xz", "a.npy.xz", packed("xz"), ("", DATA), "xz"), ("zstd", "a.npy.zst", packed("zstd -q"), ("", DATA), "zstd"),
    ("tar", "a.tar", write_tar, ("/inside.npy", DATA), "tar"),
    ("Git LFS pointer (the data were not fetched)", "a.h5",
     b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", None, "git-lfs"),
    ("HTML (a page that was fetched in place of the data?)", "b.h5", b"<!DOCTYPE html><html>", ("", DATA), "curl"),
    ("HTML (a page that was fetched in place of the data?)", "c.h5", b"<html><body>404", ("", DATA), "curl"),
]


def stand_in(name, file):
    """A file that is recognized, where no program can write one."""
    pattern = r'^FORMAT\("([^"]*)", (\d+), ((?:"[^"]*"\s*)+), "([^"]*)"'
    for row, place, text, endings in re.findall(pattern, TABLE, re.M):
        if row == name and (not endings or file.split(".", 1)[1] in endings.split()):
            return at(int(place), b"".join(ast.literal_eval("b" + t) for t in re.findall(r'"[^"]*"', text)))
    return zip_of({"PyTorch": ["a/data.pkl"], "Excel": ["[Content_Types].xml"], "zipped Zarr": [".zgroup"]}[name])


def write(folder, name, file, how, needs):
    """The path, and whether it is whole."""
    path = folder / file
    whole = not callable(how) or needs == "numpy" or has(needs)
    how = how if whole else stand_in(name, file)
    how(path) if callable(how) else path.write_bytes(how)
    return path, whole


def is_real(command):
    """Whether the modules and functions of a command of Python are there, where it is not run."""
    code = re.search(r'python3 -c "(.*)"', command)
    for module, name in re.findall(r"\b(pandas)\.(\w+)\(", code.group(1)) if code else ():
        check(not has(module) or callable(getattr(use(module), name, None)), f"{command}: {module} has no {name}")


def run_command(folder, command, file, wanted):
    """The command as the message has it, with the file's name for IN; what it leaves next to the truth."""
    ending, data = wanted
    arrays = data if isinstance(data, dict) else {"": data}
    np.save(folder / "fetched.npy", DATA)
    command = command.replace("python3", sys.executable).replace("SHAPE", str(DATA.shape)).replace("TABLE", "x")
    command = command.replace("URL", f"file://{folder}/fetched.npy")
    for out in folder.glob("OUT*"):
        shutil.rmtree(out) if out.is_dir() else out.unlink()
    done = subprocess.run(re.sub(r"\bIN\b", file, command), shell=True, cwd=folder, text=True, capture_output=True)
    check(done.returncode == 0, f"{command}: {done.stderr[-600:]}")
    out = folder / ("OUT" + ("." if ending and ending[0] != "/" else "") + ending)
    for name, data in arrays.items():
        kind = "u8" if data.dtype == np.uint8 else "f32"
        got = READER.ask(out, [(name, kind, [0] * data.ndim, list(data.shape), [1] * data.ndim)])[0]
        check(not isinstance(got, str) and np.array_equal(got, data), f"{command}: {name} {got}")


def check_row(folder, name, file, how, wanted, needs):
    path, whole = write(folder, name, file, how, needs)
    message = READER.ask(path, [("x", "f32", [0], [1], [1])])[0]
    check(isinstance(message, str) and message.startswith("error 3 ") and file in message and
          f"is of the format {name}, which is not read. Convert it: " in message, f"{file}: {message}")
    command = re.search(r'Convert it: (python3 -c ".*?"|[^,(]*?)( \(|,|$)', message)
    if command and wanted and whole and (needs == "numpy" or has(needs)):
        run_command(folder, command.group(1), file, wanted)
    elif command:
        is_real(command.group(1))
        not_run.append(file)
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
    run_again(check)
    if not_run:
        print(f"commands not run, for what they need is not there: {', '.join(not_run)}")
    finish()


main()
