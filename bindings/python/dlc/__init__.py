"""dlc: trained networks in Python programs.

    import dlc

    with dlc.open("runs/base/1GPU/00") as net:
        y = net(x)

The package is pure Python over the library `libdlc` (see `dlc.h`) and needs NumPy alone. The
functions are `open` and `read_metrics`; `Model` says what an open network can do.
"""
from ._arrays import Tensor
from ._errors import Error, Warning
from ._library import load as _load
from ._metrics import read_metrics
from ._model import Evaluation, Model, Parameters, open

__version__: str = _load().dlc_version().decode()
__all__ = ["Error", "Evaluation", "Model", "Parameters", "Tensor", "Warning", "open", "read_metrics"]
