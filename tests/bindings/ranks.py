"""Two ranks that train one network together, by dlc.open's mpi_comm: as one rank with all samples.

ranks.py MODEL [LIBMPI]    by mpi4py's communicators; with LIBMPI by that library alone, and handles that are whole
                           numbers. Prints "N passed, M
failed".
"""
import ctypes
import os
import sys

import dlc
import numpy as np

EACH, WIDTH, STEPS = 2, 16, 5
KEPT = {"lr": 0.01, "lr_schedule": "none"}
passed = failed = 0


def check(ok, what):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    if not ok:
        print("failed:", what)


def refuses(comm, part):
    try:
        dlc.open(PATH, mpi_comm=comm)
        check(False, f"not refused: {part}")
    except dlc.Error as error:
        check(error.code == 2 and part in str(error), f"{part}: {error.code} {error}")


class Handles:
    """What the test needs of an MPI without mpi4py, by the handles of its mpif.h."""

    def __init__(self, path):
        self.mpi = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        text = ctypes.create_string_buffer(8192)
        self.mpi.MPI_Get_library_version(text, ctypes.byref(ctypes.c_int()))
        is_open = b"Open MPI" in text.value
        self.world, self.null, self.self = (0, 2, 1) if is_open else (0x44000000, 0x04000000, 0x44000001)
        self.prefix = "OMPI_COMM_WORLD_" if is_open else "PMI_"

    def begin(self):
        self.mpi.MPI_Init(None, None)
        return tuple(int(os.environ[self.prefix + name]) for name in ("RANK", "SIZE"))

    def end(self):
        self.mpi.MPI_Finalize()


class OfMpi4py:
    def begin(self):
        from mpi4py import MPI
        self.world, self.null, self.self = MPI.COMM_WORLD, MPI.COMM_NULL, MPI.COMM_SELF
        return MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size

    def end(self):
        pass


PATH = sys.argv[1]
mpi = Handles(sys.argv[2]) if len(sys.argv) > 2 else OfMpi4py()
if len(sys.argv) > 2:
    refuses(mpi.world, "MPI_Init")
rank, size = mpi.begin()
refuses(mpi.null, "MPI_COMM_NULL")
refuses(123456, "MPI")
try:
    dlc.open(PATH, mpi_comm="world")
    check(False, "a text")
except TypeError:
    check(True, "a text")
u = np.arange(size * EACH * WIDTH, dtype="f4").reshape(size * EACH, 1, WIDTH) % 7
t, mine = u / 2 - 1, slice(rank * EACH, (rank + 1) * EACH)
alone = dlc.open(PATH, train=True, batch=size * EACH, threads=1, settings=KEPT)
net = dlc.open(PATH, train=True, batch=EACH, threads=1, settings=KEPT, mpi_comm=mpi.world)
for _ in range(STEPS):
    want, loss = alone.train_step(u, t), net.train_step(u[mine], t[mine])
    check(abs(loss - want) < 1e-6 * want, f"the loss of one rank: {loss} {want}")
check(np.abs(net.parameters["a.weight"] - alone.parameters["a.weight"]).max() < 1e-5, "the weights of one rank")
check(size == 2 and np.array_equal(net(u), net(u)), "two ranks")
if rank == 0:  # alone: the others do not wait
    check(np.abs(net(u) - alone(u)).max() < 1e-4, "predictions")
net.close()
with dlc.open(PATH, train=True, batch=EACH, threads=1, settings=KEPT, mpi_comm=mpi.self) as own:
    if rank == 0:
        check(own.train_step(u[mine], t[mine]) > 0, "a communicator of one")
mpi.end()
print(f"{passed} passed, {failed} failed")
