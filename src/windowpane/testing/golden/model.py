"""What a golden file says: the query with its surroundings, the steps, and what each step must give.

Expectations know the lines they stand on, so that they can be rewritten in place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal as Choice
from typing import TypeAlias

from windowpane.outcomes import BUFFERED, OUTCOMES
from windowpane.sql.query import Column
from windowpane.testing.golden.rows import GoldenRow

Verb: TypeAlias = Choice["push", "watermark", "clock", "end", "restart", "replay", "change"]
Subject: TypeAlias = Choice["rows", "side", "watermark", "accounting", "counts", "error"]

VERBS: tuple[Verb, ...] = ("push", "watermark", "clock", "end", "restart", "replay", "change")
SUBJECTS: tuple[Subject, ...] = ("rows", "side", "watermark", "accounting", "counts", "error")

ACCOUNTS = ("in", "made", *(outcome.name for outcome in OUTCOMES), BUFFERED.name)
SIDE_FIELDS = (
    "kind", "reason", "event_time", "processing_time", "watermark", "window", "group_key", "original_event",
    "error_detail", "plan_id", "shard", "transform",
)  # fmt: skip


@dataclass(frozen=True)
class Place:
    """Lines of the file, counted from 1: from `first` up to but not including `end`."""

    first: int
    end: int


@dataclass(frozen=True)
class Expected:
    """One expectation. Which of the fields are used depends on the subject."""

    subject: Subject
    place: Place
    header: tuple[str, ...] = ()
    rows: tuple[GoldenRow, ...] = ()
    ordered: bool = False
    numbers: Mapping[str, int] = field(default_factory=dict)
    instant_us: int | None = None
    code: str = ""


@dataclass
class Step:
    """Something done to the query, and what it must give."""

    verb: Verb
    place: Place
    """Of the step itself, without its expectations."""
    stream: str | None = None
    shard: str = "0"
    at_us: int | None = None
    """`at` of a push, the instant of a watermark, the distance of a clock."""
    rows: tuple[GoldenRow, ...] = ()
    sql: str = ""
    """Of a change: the query to go on with."""
    expected: dict[Subject, Expected] = field(default_factory=dict)

    @property
    def end(self) -> int:
        """The line behind the step and its expectations."""
        return max([self.place.end, *(each.place.end for each in self.expected.values())])

    def describe(self) -> str:
        rows = "1 row" if len(self.rows) == 1 else f"{len(self.rows)} rows"
        where = f" to {self.stream}" if self.stream else ""
        return f"push of {rows}{where}" if self.verb == "push" else self.verb


@dataclass(frozen=True)
class StreamDeclaration:
    columns: tuple[Column, ...]
    settings: Mapping[str, object]
    """As in `[streams.NAME]` of pipeline.toml."""


@dataclass
class Golden:
    """A whole file."""

    file: str
    reason: str
    lines: Sequence[str]
    streams: dict[str, StreamDeclaration] = field(default_factory=dict)
    tables: dict[str, Mapping[str, object]] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)
    transform: Mapping[str, object] = field(default_factory=dict)
    transforms: dict[str, Mapping[str, object]] = field(default_factory=dict)
    """Other transforms, which the query can read by name."""
    manual: bool = False
    now_us: int = 0
    cuttable: bool = True
    sql: str = ""
    query_place: Place = Place(0, 0)
    refused: Expected | None = None
    """The error that the query must be refused with."""
    steps: list[Step] = field(default_factory=list)

    def eventtime(self, stream: str) -> tuple[str, str] | None:
        """The column that a stream declares its event time in, and its type; None where it declares none."""
        declared = self.streams[stream].settings.get("eventtime")
        if not isinstance(declared, Mapping) or "column" not in declared:
            return None
        return str(declared["column"]), str(declared.get("type", "timestamp"))
