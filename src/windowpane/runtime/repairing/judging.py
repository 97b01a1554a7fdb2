"""Which side rows a command can take: their rows through the query, and why others are refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core.rows import flags
from windowpane.errors import ConfigError
from windowpane.runtime.asking.asked import Asked
from windowpane.runtime.asking.input_rows import InputRows
from windowpane.runtime.repairing.candidates import Candidate

Reasons = list[str | None]


def evaluated(asked: Asked, given: list[Candidate], reader: InputRows) -> tuple[list[Candidate], pa.RecordBatch]:
    """The original rows of candidates as operators take them, one for each."""
    arrivals = asked.last.arrivals if asked.last else None
    rows = reader.of_dicts([each.row or {} for each in given], arrivals or 0)
    if rows.num_rows != len(given):
        raise ConfigError(
            "REPAIR_EXPLODE", f"transform `{asked.name}` makes several rows of one, which cannot be traced back to "
            "side records", "correct the input instead, and use windowpane backfill",
        )  # fmt: skip
    return given, rows


def judged_input(rows: pa.RecordBatch, reasons: Reasons) -> Reasons:
    """The reasons, before which come those that concern the row itself: WHERE, and errors."""
    if c.KEEP in rows.schema.names:
        reasons = marked(reasons, ~flags(rows, c.KEEP), "WHERE excludes it")
    if c.ERROR in rows.schema.names:
        errors = rows.column(c.ERROR).to_pylist()
        reasons = [why if error is None else f"it still is an error row: {error}"
                   for why, error in zip(reasons, errors, strict=True)]  # fmt: skip
    return reasons


def marked(reasons: Reasons, where: npt.NDArray[np.bool_], reason: str | None) -> Reasons:
    """The reasons, with another one for some rows."""
    for at in np.flatnonzero(where).tolist():
        reasons[at] = reason
    return reasons


def parted(given: Sequence[Candidate], reasons: Reasons) -> tuple[list[Candidate], list[Candidate]]:
    """Candidates without and with a reason to be refused."""
    judged = list(zip(given, reasons, strict=True))
    taken = [each for each, why in judged if why is None]
    return taken, [replace(each, refused=why) for each, why in judged if why is not None]
