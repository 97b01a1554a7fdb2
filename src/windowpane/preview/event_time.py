"""Finds the event time of sampled rows: by names, formats, and how far rows are out of order."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windowpane.evaluation.iso8601 import parse_iso8601
from windowpane.evaluation.unix_times import ParsedTimes, parse_timestamps, parse_unix

_SECOND_US = 1_000_000
_FIRST_US, _LAST_US = 946_684_800 * _SECOND_US, 4_102_444_800 * _SECOND_US
"""The years 2000 to 2099: a number that is a time in one unit is none in the others."""
_MOSTLY = 0.95
"""The part of the values that must be times."""
_BEYOND, _STRAYS = 0.001, 0.03
"""The part of the rows that may be further out of order than the suggested lag, and the part that may be so if a lag
for them would have to be ten times as long."""
LAGS = tuple(
    _SECOND_US * seconds
    for seconds in (0, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400)
)
_BEST = re.compile(r"event|occur|happen")
_TIME = re.compile(r"(^|_)(ts|time|timestamp|datetime|date|dt|at|when|epoch)(_|$)|time|stamp|_(s|ms|us|millis|micros)$")
_PLAIN = re.compile(r"ts|time|timestamp|datetime|date_time")
_OTHER = re.compile(r"receiv|ingest|process|updat|modif|expir|birth|until|end|due|valid|delet|insert|load|stored|arriv")
_CREATED = re.compile(r"creat|start|open")


@dataclass(frozen=True)
class EventTime:
    """The column with the event time of a stream, and what the sample says about it."""

    column: str
    type: str
    """A name of the registry of event-time types."""
    readable: float
    """The part of the rows that have a readable time."""
    out_of_order: int
    """How many rows are older than a row before them."""
    most_us: int
    """How far a row is behind the newest row before it, at most."""
    lag_us: int
    """The suggested lag of the watermark."""
    beyond: int
    """How many rows are further behind than the suggested lag."""
    first_us: int
    last_us: int
    others: tuple[str, ...] = ()
    """Further columns that hold times, the next best first."""

    @property
    def spread_us(self) -> int:
        return self.last_us - self.first_us


@dataclass(frozen=True)
class _Candidate:
    name: str
    type: str
    times: tuple[npt.NDArray[np.int64], ...]
    """Of each source partition, in order."""
    readable: float

    @property
    def rank(self) -> tuple[float, ...]:
        """The smaller the better: the name, then the disorder, then the share of rows that have a time."""
        steady = len(np.unique(np.concatenate(self.times))) > 1
        return (0 if steady else 1, -_name_score(self.name), -self.readable, _disorder(self.times).mean())


def find_event_time(parts: Sequence[pa.Table], columns: Sequence[str]) -> EventTime | None:
    """The most likely event time among some columns; None if none of them holds times. `parts`: a table of the rows of
    each source partition, in order.
    """
    found = [candidate for name in columns if (candidate := _candidate(name, parts)) is not None]
    if not found:
        return None
    best, *others = sorted(found, key=lambda each: each.rank)
    return _described(best, tuple(each.name for each in others))


def _candidate(name: str, parts: Sequence[pa.Table]) -> _Candidate | None:
    columns = [rows.column(name).combine_chunks() for rows in parts]
    if not columns:
        return None
    count = sum(map(len, columns))
    for kind, parse in _readers(columns[0].type, name):
        parsed = [parse(column)[0] for column in columns]
        times = tuple(np.asarray(each.drop_null()) for each in parsed)
        there = sum(len(column) - column.null_count for column in columns)
        within = sum(int(((each >= _FIRST_US) & (each < _LAST_US)).sum()) for each in times)
        if there and within >= _MOSTLY * there and within >= count / 2:
            plausible = tuple(each[(each >= _FIRST_US) & (each < _LAST_US)] for each in times)
            return _Candidate(name, kind, tuple(each for each in plausible if len(each)), within / count)
    return None


def _readers(kind: pa.DataType, name: str) -> list[tuple[str, Callable[[pa.Array], ParsedTimes]]]:
    """Event-time types that may fit a column. A number of seconds could be anything, unless it is called a time."""
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return [("timestamp", parse_timestamps)]
    unix: list[tuple[str, Callable[[pa.Array], ParsedTimes]]] = [
        (f"unixtimestamp_{unit}", partial(parse_unix, unit_us=unit_us))
        for unit, unit_us in (("ms", 1_000), ("us", 1), ("s", _SECOND_US))
        if unit != "s" or _name_score(name) > 0
    ]
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return list(unix)
    if pa.types.is_string(kind):
        return [("iso8601", parse_iso8601), *(unix if _name_score(name) > 0 else [])]
    return []


def _name_score(name: str) -> int:
    """How much a name sounds like an event time; 0 if it does not sound like a time at all."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().strip("@")
    if not (_TIME.search(words) or _BEST.search(words)):
        return 0
    if _OTHER.search(words):
        return 1
    return 3 + 3 * bool(_BEST.search(words)) + 2 * bool(_PLAIN.fullmatch(words)) + bool(_CREATED.search(words))


def _disorder(parts: Sequence[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    """How far each row is behind the newest row before it of its partition."""
    return np.concatenate([np.maximum.accumulate(times) - times for times in parts])


def _covering(behind: npt.NDArray[np.int64], part: float) -> int:
    """The shortest lag that all rows but a part keep to."""
    allowed = int(part * len(behind))
    return next((lag for lag in LAGS if int((behind > lag).sum()) <= allowed), LAGS[-1])


def _described(found: _Candidate, others: tuple[str, ...]) -> EventTime:
    behind, times = _disorder(found.times), np.concatenate(found.times)
    all_us, most_us = (_covering(behind, part) for part in (_BEYOND, _STRAYS))
    lag_us = most_us if 10 * most_us <= all_us else all_us
    return EventTime(
        column=found.name,
        type=found.type,
        readable=found.readable,
        out_of_order=int((behind > 0).sum()),
        most_us=int(behind.max()),
        lag_us=lag_us,
        beyond=int((behind > lag_us).sum()),
        first_us=int(times.min()),
        last_us=int(times.max()),
        others=others,
    )
