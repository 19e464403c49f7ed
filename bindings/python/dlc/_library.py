"""`dlc.h` for ctypes, and where its library is."""
from __future__ import annotations

import ctypes
import functools
import os
import pathlib
from ctypes import POINTER, c_char_p, c_double, c_int, c_int64, c_size_t, c_void_p

INPUT, TARGET, OUTPUT, METRIC, PARAMETER = range(5)
LOG_INFO, LOG_WARNING, LOG_DIAGNOSTICS = range(3)
MAX_RANK = 8

Log = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_char_p)


class Status(ctypes.Structure):
    _fields_ = [("code", c_int), ("message", ctypes.c_char * 1024)]


class Options(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t), ("device", c_char_p), ("threads", c_int), ("batch", c_int64),
        ("settings", POINTER(c_char_p)), ("config_file", c_char_p), ("config_name", c_char_p),
        ("train", c_int), ("log", Log), ("log_context", c_void_p), ("mpi_comm", c_void_p),
        ("raw", c_int), ("refuse_nan", c_int), ("mpi_fint", POINTER(c_int)),
        ("plan", c_char_p)]


class Description(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("dtype", c_int), ("rank", c_int),
                ("shape", c_int64 * MAX_RANK), ("axis", c_char_p * MAX_RANK)]


_ARRAYS, _STATUS = POINTER(c_void_p), POINTER(Status)
_FUNCTIONS = {
    "dlc_open": (c_void_p, [c_char_p, POINTER(Options), _STATUS]),
    "dlc_close": (None, [c_void_p]),
    "dlc_count": (c_int, [c_void_p, c_int]),
    "dlc_describe": (c_int, [c_void_p, c_int, c_int, POINTER(Description)]),
    "dlc_memory": (c_int64, [c_void_p]),
    "dlc_predict": (c_int, [c_void_p, c_int64, _ARRAYS, _ARRAYS, _STATUS]),
    "dlc_train_step": (c_int, [c_void_p, c_int64, _ARRAYS, POINTER(c_double), _STATUS]),
    "dlc_evaluate": (c_int, [c_void_p, c_int64, _ARRAYS, POINTER(c_double), POINTER(c_double),
                             _STATUS]),
    "dlc_get": (c_int, [c_void_p, c_char_p, c_void_p, c_size_t, _STATUS]),
    "dlc_set": (c_int, [c_void_p, c_char_p, c_void_p, c_size_t, _STATUS]),
    "dlc_save": (c_int, [c_void_p, c_char_p, _STATUS]),
    "dlc_version": (c_char_p, []),
}


@functools.lru_cache(maxsize=None)
def load() -> ctypes.CDLL:
    """The library: $DLC_LIBRARY, else the wheel's, else that of the system's loader."""
    own = pathlib.Path(__file__).with_name("libdlc.so")
    chosen = os.environ.get("DLC_LIBRARY") or (str(own) if own.exists() else "libdlc.so.0")
    try:
        library = ctypes.CDLL(chosen)
    except OSError as fault:
        raise ImportError(f"the library of dlc does not load: {fault}; set DLC_LIBRARY to the path "
                          "of libdlc.so, or install the wheel of scripts/wheel") from None
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
