"""An open network."""
from __future__ import annotations

import collections
import ctypes
import json
import logging
import operator
import os
import threading
import types
import warnings
import weakref
from typing import (Any, Dict, Iterator, List, Mapping, MutableMapping, NamedTuple, Optional,
                    Sequence, Tuple, Union)

import numpy as np

from . import _arrays, _library
from ._arrays import Place, Tensor
from ._errors import USAGE, Error, Warning, new_status, raise_status

Array = Any  # NumPy's, or whatever has __dlpack__ or __array__, or numbers in lists
Path = Union[str, "os.PathLike[str]"]


class Evaluation(NamedTuple):
    """The means of `Model.evaluate`."""
    loss: float
    metrics: Dict[str, float]


class Parameters(MutableMapping[str, np.ndarray]):
    """Parameters and running statistics by PyTorch's names, in PyTorch's shapes.

    Reading copies; assignment sets. Names and shapes are the model's: none is added or deleted.
    """

    def __init__(self, model: "Model", tensors: Mapping[str, Tensor]) -> None:
        self._model, self._tensors = model, tensors

    def __getitem__(self, name: str) -> np.ndarray:
        t = self._tensors[name]
        array = _arrays.Place(t, samples=False).empty()
        self._model._call(self._model._library.dlc_get, name.encode(), array.ctypes.data,
                          array.nbytes)
        return _arrays.from_memory(t, array)

    def __setitem__(self, name: str, value: Array) -> None:
        if name not in self._tensors:
            raise KeyError(name)
        array = _arrays.Place(self._tensors[name], samples=False).take(value)
        self._model._call(self._model._library.dlc_set, name.encode(), array.ctypes.data,
                          array.nbytes)

    def __delitem__(self, name: str) -> None:
        raise TypeError("a model's parameters cannot be deleted")

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def __repr__(self) -> str:
        return f"<{len(self)} parameters: {', '.join(self._tensors)}>"

    def describe(self, name: str) -> Tensor:
        """Name, type, shape and axes of a parameter, without its numbers."""
        return self._tensors[name]


class Model:
    """A network that is open on a device. `dlc.open` makes it.

    `inputs`, `targets`, `outputs` and `metrics` describe what it takes and gives, by name and in
    order. `parameters` reads and sets its weights. Threads may share a model: calls wait for each
    other. Models of their own run at the same time.
    """
    inputs: Mapping[str, Tensor]
    targets: Mapping[str, Tensor]
    outputs: Mapping[str, Tensor]
    metrics: Mapping[str, Tensor]
    parameters: Parameters

    def __init__(self, handle: int, path: str) -> None:
        self._library, self._handle, self._path = _library.load(), handle, path
        self._lock = threading.Lock()
        self._close = weakref.finalize(self, self._library.dlc_close, handle)
        self.inputs, self.targets, self.outputs, self.metrics, parameters = (
            types.MappingProxyType(self._describe(role)) for role in range(5))
        self.parameters = Parameters(self, parameters)
        inputs, targets, self._out = (
            [_arrays.Place(t) for t in role.values()]
            for role in (self.inputs, self.targets, self.outputs))
        self._given = inputs, inputs + targets
        # A call's arguments, of which one at a time is under way: made once, as a call should cost
        # microseconds.
        self._from = _arrays.Pointers(len(self._given[1]))
        self._to = _arrays.Pointers(len(self._out))
        self._status, self._status_pointer = new_status()
        self._results = collections.namedtuple("Outputs", self.outputs, rename=True)

    def _describe(self, role: int) -> Dict[str, Tensor]:
        found, d = {}, _library.Description()
        for i in range(self._library.dlc_count(self._handle, role)):
            self._library.dlc_describe(self._handle, role, i, ctypes.byref(d))
            t = _arrays.describe(d)
            found[t.name] = t
        return found

    def _call(self, function: Any, *arguments: Any, arrays: Sequence[Optional[np.ndarray]] = (),
              results: Sequence[np.ndarray] = ()) -> None:
        """Calls a function of the library; `arrays` and `results` are what _from and _to refer to
        meanwhile."""
        with self._lock:
            if not self._close.alive:
                raise Error(USAGE, "the model is closed")
            self._from.set(arrays)
            self._to.set(results)
            if not function(self._handle, *arguments, self._status_pointer):
                raise_status(self._status)

    # ---- what it is ----

    @property
    def batch(self) -> int:
        """The samples that one run of the network takes: a training step takes exactly these."""
        return next(iter(self.inputs.values())).shape[0]

    @property
    def memory(self) -> int:
        """Bytes of the network's memory on its device."""
        with self._lock:
            return self._library.dlc_memory(self._handle) if self._close.alive else 0

    def __repr__(self) -> str:
        takes, gives = (", ".join(map(str, t.values())) for t in (self.inputs, self.outputs))
        closed = "" if self._close.alive else ", closed"
        return f"<dlc.Model {self._path}: {takes} -> {gives}{closed}>"

    # ---- what it does ----

    def predict(self, *inputs: Optional[Array], out: Any = None, **named: Array) -> Any:
        """Predicts samples. Inputs are given by position or by name, the sample axis first; one
        that only the loss reads may be left out. The result is an array, or a named tuple of
        arrays where the model has several outputs. `out` (an array, or a sequence of one for each
        output, of the right type and shape) receives the results without new arrays."""
        places = self._given[0]
        arrays = _take("predict", places, inputs, named, optional=True)
        samples = _samples(places, arrays)
        results = self._outputs(samples, out)
        self._call(self._library.dlc_predict, samples, self._from.array, self._to.array,
                   arrays=arrays, results=results)
        if out is not None:
            return out
        given = [_arrays.from_memory(t, a) for t, a in zip(self.outputs.values(), results)]
        return given[0] if len(given) == 1 else self._results(*given)

    __call__ = predict

    def train_step(self, *arrays: Array, **named: Array) -> float:
        """One step of the optimiser on a batch: inputs, then targets. The loss before the step."""
        loss = ctypes.c_double()
        taken = _take("train_step", self._given[1], arrays, named)
        self._call(self._library.dlc_train_step, _samples(self._given[1], taken), self._from.array,
                   ctypes.byref(loss), arrays=taken)
        return loss.value

    def evaluate(self, *arrays: Array, **named: Array) -> Evaluation:
        """Mean loss and metrics of a multiple of the batch: inputs, then targets."""
        loss, metrics = ctypes.c_double(), (ctypes.c_double * max(len(self.metrics), 1))()
        taken = _take("evaluate", self._given[1], arrays, named)
        self._call(self._library.dlc_evaluate, _samples(self._given[1], taken), self._from.array,
                   ctypes.byref(loss), metrics, arrays=taken)
        return Evaluation(loss.value, dict(zip(self.metrics, metrics)))

    def save(self, directory: Path) -> None:
        """Writes a checkpoint into a run's directory, which `dlc.open`, `dlrun predict` and
        `dlrun --resume` take. The model must be open for training."""
        self._call(self._library.dlc_save, os.fsencode(directory))

    def close(self) -> None:
        """Frees the network. Later calls raise Error; closing twice is fine."""
        with self._lock:
            self._close()

    def __enter__(self) -> "Model":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def _outputs(self, samples: int, out: Any) -> Sequence[np.ndarray]:
        if out is None:
            return [place.empty(samples) for place in self._out]
        arrays = [out] if isinstance(out, np.ndarray) else list(out)
        if len(arrays) != len(self._out):
            raise Error(USAGE, f"predict: {len(arrays)} arrays in out, and the model has "
                               f"{len(self._out)} outputs")
        for place, a in zip(self._out, arrays):
            if not (isinstance(a, np.ndarray) and place.fits(a) and len(a) == samples
                    and a.flags.writeable):
                raise Error(USAGE, f"predict: out of '{place.name}' must be a writeable dense "
                                   f"array of {place.dtype} of the shape "
                                   f"{(samples, *place.fixed)}")
        return arrays


# ---- arrays ----

def _take(call: str, places: List[Place], given: Sequence[Optional[Array]],
          named: Mapping[str, Array], optional: bool = False) -> List[Optional[np.ndarray]]:
    """The caller's arrays in the order of the places. None: one that is left out."""
    if named or len(given) != len(places):
        given = _arranged(call, [p.name for p in places], given, named)
    lacking = [p.name for p, v in zip(places, given) if v is None]
    if lacking and (not optional or len(lacking) == len(places)):
        raise Error(USAGE, f"{call}: '{lacking[0]}' is not given")
    return [None if v is None else p.take(v) for p, v in zip(places, given)]


def _arranged(call: str, names: List[str], given: Sequence[Optional[Array]],
              named: Mapping[str, Array]) -> List[Optional[Array]]:
    """Arrays by position and by name, in the order of the names."""
    if len(given) > len(names):
        raise Error(USAGE, f"{call}: {len(given)} arrays, and the model takes {len(names)}: "
                           f"{', '.join(names)}")
    values = dict(zip(names, given))
    for name, value in named.items():
        if name not in names:
            raise Error(USAGE, f"{call}: there is no '{name}': {', '.join(names)}")
        if name in values:
            raise Error(USAGE, f"{call}: '{name}' is given by position and by name")
        values[name] = value
    return [values.get(name) for name in names]


def _samples(places: List[Place], arrays: List[Optional[np.ndarray]]) -> int:
    first = None
    for place, a in zip(places, arrays):
        if a is None:
            continue
        if first is None:
            first, samples = place, len(a)
        elif len(a) != samples:
            raise Error(USAGE, f"'{first.name}' has {samples} samples, and '{place.name}' {len(a)}")
    return 0 if first is None else samples


def _setting(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return json.dumps(value.item() if isinstance(value, np.generic) else value)


def _encoded(value: Optional[Path]) -> Optional[bytes]:
    return None if value is None else os.fsencode(value)


def open(path: Path, *, device: Optional[str] = None, threads: int = 0, batch: int = 0,
         settings: Optional[Mapping[str, Any]] = None, config_file: Optional[Path] = None,
         config_name: Optional[str] = None, train: bool = False, raw: bool = False,
         refuse_nan: bool = False, mpi_comm: Any = None, plan: Optional[Path] = None) -> Model:
    """Opens a run's directory, a checkpoint of it, or a model file (.dl, with fresh weights).

    device: "cpu", "cuda:0" or "auto", the default.
    threads: of a CPU; 0: as many as the process may use.
    batch: the samples that one run of the network takes; 0: the configuration's.
    settings: keys of the configuration and the model's arguments, as {"lr": 0.01}.
    config_file, config_name: of a model file, its configuration.
    train: `train_step`, `evaluate` and `save` are there, too.
    raw: arrays are normalised already, as the network itself takes and gives them.
    refuse_nan: an input that is not finite is an Error.
    mpi_comm: a communicator of mpi4py, or Fortran's handle as an int: its ranks train together,
        each on samples of its own. Opening, `train_step`, `evaluate`, `save` and `close` are then
        collective; `predict` is this rank's alone.
    plan: a plan's file, whose programs predict one sample, or the plan's batch; nothing is compiled.

    Raises Error; what is worth a warning goes to `warnings` as a dlc.Warning.
    """
    library = _library.load()
    told: List[Tuple[int, str]] = []
    log = _library.Log(lambda _, level, text: told.append((level, text.decode(errors="replace"))))
    words = [f"{key}={_setting(value)}".encode() for key, value in (settings or {}).items()]
    options = _library.Options(
        size=ctypes.sizeof(_library.Options), device=_encoded(device), threads=threads,
        batch=batch, settings=(ctypes.c_char_p * (len(words) + 1))(*words, None),
        config_file=_encoded(config_file), config_name=_encoded(config_name), train=bool(train),
        log=log, raw=bool(raw), refuse_nan=bool(refuse_nan), plan=_encoded(plan))
    if mpi_comm is not None:
        fint = mpi_comm.py2f() if hasattr(mpi_comm, "py2f") else operator.index(mpi_comm)
        options.mpi_fint = ctypes.pointer(ctypes.c_int(fint))
    status, pointer = new_status()
    handle = library.dlc_open(_encoded(path), ctypes.byref(options), pointer)
    _pass_on(told, failed=not handle)
    diagnostics = "".join(text for level, text in told if level == _library.LOG_DIAGNOSTICS)
    if not handle:
        raise_status(status, diagnostics)
    return Model(handle, os.fspath(path))


def _pass_on(told: List[Tuple[int, str]], failed: bool) -> None:
    """Warnings to `warnings`; the rest, but for an Error's diagnostics, to `logging`."""
    for level, text in told:
        text = text.rstrip("\n")
        if level == _library.LOG_INFO:
            logging.getLogger("dlc").info(text)
        elif level == _library.LOG_WARNING or not failed:
            warnings.warn(text, Warning, stacklevel=3)
