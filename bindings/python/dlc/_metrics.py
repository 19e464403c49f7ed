"""The metrics of a run."""
from __future__ import annotations

import json
import os
import pathlib
from typing import Any, Dict, List

import numpy as np

from ._errors import INPUT, Error

FILES = 4


def read_metrics(run: "str | os.PathLike[str]") -> Dict[str, np.ndarray]:
    """The metrics of a run as columns: {"epoch": array, "Loss/train": array, ...}.

    `run` is a run's directory or a metrics.jsonl. All columns have a row for each point; a value
    that a point lacks is NaN (None in a column of texts). `pandas.DataFrame(dlc.read_metrics(run))`
    makes a table of it. Raises Error where there is no such file or a line is no JSON object.
    """
    path = pathlib.Path(run)
    path = path / "metrics.jsonl" if path.is_dir() else path
    try:
        lines = path.read_text().splitlines()
    except OSError as fault:
        raise Error(FILES, f"'{path}': {fault.strerror}") from None
    points: List[Dict[str, Any]] = []
    for number, line in enumerate(lines, 1):
        try:
            point = json.loads(line)
        except ValueError:
            point = None
        if isinstance(point, dict):
            points.append(point)
        elif line.strip() and number < len(lines):  # the last may be half written
            raise Error(INPUT, f"{path}:{number} is no JSON object")
    names = list(dict.fromkeys(name for point in points for name in point))
    return {name: _column([point.get(name) for point in points]) for name in names}


def _column(values: List[Any]) -> np.ndarray:
    known = [v for v in values if v is not None]
    if any(isinstance(v, bool) or not isinstance(v, (int, float)) for v in known):
        column = np.empty(len(values), dtype=object)
        column[:] = values
        return column
    if len(known) == len(values) and all(isinstance(v, int) for v in values):
        return np.array(values, dtype=np.int64)
    return np.array([np.nan if v is None else v for v in values], dtype=np.float64)
