"""The rival's loaders, as systems A and D have them: h5py under torch's DataLoader, a worker process each.

rival_loaders.py crops FILE EDGE WORKERS SECONDS
rival_loaders.py weather FOLDER MEANS STDS CHANNELS HEIGHT WIDTH WORKERS SECONDS
rival_loaders.py arrays FILES NAMES AXES SHAPE WORKERS SECONDS       by the reference reader of the files' format
rival_loaders.py variables|simulations FILE NAMES HEIGHT WIDTH WORKERS SECONDS   by xarray (NetCDF, Zarr), h5py

Batches of four; prints {"samples": N, "seconds": S, "torch": version, "h5py": version}.
"""
import json
import pathlib
import sys
import time

import h5py
import numpy as np
import torch

BATCH, WARM = 4, 4


class Crops(torch.utils.data.Dataset):
    """A crop of both sets, turned by one of the cube's rotations."""

    def __init__(self, path, edge):
        self.path, self.edge, self.file = path, edge, None
        with h5py.File(path) as f:
            self.box = f["Nbody"].shape[1]

    def __len__(self):
        return 1 << 20

    def __getitem__(self, index):
        if self.file is None:  # of each worker's own: h5py does not survive a fork
            self.file = h5py.File(self.path)
        rng = np.random.default_rng(index)
        x, y, z = rng.integers(0, max(self.box - self.edge, 1), 3)
        axes, flips = rng.permutation(3), rng.integers(0, 2, 3)
        out = []
        for name in ("Nbody", "Hydro"):
            crop = self.file[name][:, x:x + self.edge, y:y + self.edge, z:z + self.edge]
            crop = np.transpose(np.flip(crop, [1 + a for a in range(3) if flips[a]]), (0, *(1 + axes)))
            out.append(torch.as_tensor(np.ascontiguousarray(crop)))
        return out


class Weather(torch.utils.data.Dataset):
    """The fields of two times, normalised."""

    def __init__(self, folder, means, stds, channels, height, width):
        self.paths = sorted(str(p) for p in pathlib.Path(folder).glob("*.h5"))
        self.files = [None] * len(self.paths)
        self.means, self.stds = np.load(means)[0].astype("f4"), np.load(stds)[0].astype("f4")
        self.height, self.width = height, width
        with h5py.File(self.paths[0]) as f:
            self.times = f["fields"].shape[0]

    def __len__(self):
        return self.times * len(self.paths)

    def __getitem__(self, index):
        year, local = divmod(index, self.times)
        if self.files[year] is None:
            self.files[year] = h5py.File(self.paths[year])["fields"]
        local = local % (self.times - 1)
        local += local < 1
        return [torch.as_tensor((self.files[year][t, :, :self.height, :self.width] - self.means) / self.stds)
                for t in (local, local + 1)]


class Variables(torch.utils.data.Dataset):
    """Two times of several variables, decoded by xarray, and normalised."""

    def __init__(self, path, names):
        self.path, self.names, self.set = path, names.split(","), None
        with self.open() as s:
            self.times = s.sizes["time"]

    def open(self):
        import xarray
        if self.path.endswith(".grib"):  # its names of variables are not ecCodes'
            made = xarray.open_dataset(self.path, engine="cfgrib", cache=False)
            self.names = list(made.data_vars)
            return made
        return (xarray.open_zarr if self.path.endswith(".zarr") else xarray.open_dataset)(
            self.path, **({"chunks": None} if self.path.endswith(".zarr") else {"cache": False}))

    def __len__(self):
        return self.times - 1

    def __getitem__(self, index):
        if self.set is None:
            self.set = self.open()
        out = []
        for t in (index, index + 1):
            fields = np.stack([self.set[n][t].values for n in self.names]).astype("f4")
            out.append(torch.as_tensor((fields - np.float32(0.5)) / np.float32(2)))
        return out


class Simulations(torch.utils.data.Dataset):
    """Two times of a simulation, from arrays [simulation, time, ...]."""

    def __init__(self, path, names):
        self.path, self.names, self.file = path, names.split(","), None
        with h5py.File(path) as f:
            self.sims, self.times = f[self.names[0]].shape[:2]

    def __len__(self):
        return self.sims * (self.times - 1)

    def __getitem__(self, index):
        if self.file is None:
            self.file = h5py.File(self.path)
        sim, t = divmod(index, self.times - 1)
        return [torch.as_tensor((np.stack([self.file[n][sim, k] for n in self.names]) - np.float32(0.5))
                                / np.float32(2)) for k in (t, t + 1)]


class Arrays(torch.utils.data.Dataset):
    """A sample of arrays in the files of one format, by its reference reader, and normalised. Each worker keeps files
    that this reader takes as a whole."""

    def __init__(self, pattern, names):
        self.paths = [str(p) for p in sorted(pathlib.Path(pattern).parent.glob(pathlib.Path(pattern).name))]
        self.names = [] if names == "-" else names.split(",")
        self.end = self.paths[0].split(".", 1)[1]
        self.whole = None
        self.n = len(self.paths) if self.end.startswith("nii") else self.open()[0]
        self.whole = None

    def open(self):
        """The number of samples, and sample i."""
        path = self.paths[0]
        if self.end == "fits":
            from astropy.io import fits
            data = fits.open(path, memmap=True)[0].data
            return len(data), lambda i: data[i][None]
        if self.end == "tif":
            import tifffile
            pages = tifffile.TiffFile(path).pages
            return len(pages), lambda i: pages[i].asarray()[None]
        if self.end == "mat":
            import scipy.io
            data = scipy.io.loadmat(path)[self.names[0]]
            return data.shape[-1], lambda i: data[..., i][None]
        if self.end == "zarr":
            import zarr
            data = zarr.open(path, mode="r")
            return data.shape[0], lambda i: data[i][None]
        import pandas
        read = pandas.read_csv if self.end == "csv" else pandas.read_parquet
        rows = read(path)[self.names].to_numpy("f4")
        return len(rows), lambda i: rows[i]

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        if self.end.startswith("nii"):
            import nibabel
            x = nibabel.load(self.paths[index]).get_fdata(dtype=np.float32).T[None]
        else:
            if self.whole is None:
                self.whole = self.open()[1]
            x = self.whole(index).astype("f4")
        return [torch.as_tensor((x - np.float32(0.5)) / np.float32(2))]


def batches(loader):
    while True:
        yield from loader


def main():
    kind, *rest = sys.argv[1:]
    workers, seconds = int(rest[-2]), float(rest[-1])
    if kind == "crops":
        data = Crops(rest[0], int(rest[1]))
    elif kind == "weather":
        data = Weather(*rest[:3], *map(int, rest[3:6]))
    elif kind == "arrays":
        data = Arrays(*rest[:2])
    else:
        data = (Variables if kind == "variables" else Simulations)(*rest[:2])
    torch.set_num_threads(1)
    loader = torch.utils.data.DataLoader(data, batch_size=BATCH, num_workers=workers, shuffle=kind != "crops",
                                         drop_last=True,
                                         persistent_workers=workers > 0)
    stream, samples = batches(loader), 0
    for _ in range(WARM):
        next(stream)
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds:
        next(stream)
        samples += BATCH
    print(json.dumps({"samples": samples, "seconds": time.perf_counter() - begin, "torch": torch.__version__,
                      "h5py": h5py.__version__}), flush=True)


main()
