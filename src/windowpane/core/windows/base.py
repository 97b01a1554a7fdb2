"""What a window kind is: one frozen value that answers what SQL, the planner and the operators ask about its windows.

A new kind is a subclass in this package and an item in the list of `__init__.py`. See `aligned.py` for kinds whose
windows follow from time alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar, Literal, TypeAlias, cast

from windowpane.core.windows.spans import CalendarSpan
from windowpane.time import format_duration

Folding: TypeAlias = Literal["accumulators", "ranges", "never"]
"""How rows can be aggregated before their window is complete: into accumulators, over ranges of kept rows, not at all.
"""
PartValue: TypeAlias = int | CalendarSpan | str
"""Microseconds, days or months, or the name of a time zone."""


@dataclass(frozen=True)
class Part:
    """A part of a window's definition. SQL calls it `name`, the spec keeps it in the attribute `field`."""

    name: str
    field: str
    example: str
    """How the clause may spell it: `10 SECONDS`."""
    label: str = ""
    """What EXPLAIN puts in front of it, where the number alone would not do."""
    zero: bool = False
    signed: bool = False
    in_function: bool = True
    """Whether the function form takes it too; its arguments have the order of the parts."""
    takes: Literal["duration", "calendar", "zone"] = "duration"
    """A duration, a duration that may be in days or months of the calendar, or the name of a time zone."""


class BadWindow(Exception):  # noqa: N818, it is no fault of the program
    """The parts of a window do not fit together. `part` is the name of the one to change."""

    def __init__(self, part: str, code: str, message: str, hint: str) -> None:
        super().__init__(message)
        self.part, self.code, self.message, self.hint = part, code, message, hint


class WindowSpec:
    """Base of the window kinds. Subclasses are frozen dataclasses; their fields are the numbers of the query."""

    kind: ClassVar[str]
    """`tumbling`: EXPLAIN, the WINDOW clause and the function `tumblingwindow` are named after it."""
    parts: ClassVar[tuple[Part, ...]] = ()
    """What defines it. A kind without parts has no WINDOW clause, only its function."""
    ordered: ClassVar[bool] = True
    """Rows are released by (event time, arrival) and judged one by one: a row at or behind the watermark is late."""
    per_group: ClassVar[bool] = False
    """A group's windows hold that group's rows alone, so that shards can divide the groups among themselves."""
    shared_bounds: ClassVar[bool] = False
    """All groups have the same windows."""
    ends_by_time: ClassVar[bool] = False
    """Passing time completes a window. In processing time it needs micro-batches without input."""
    triggered: ClassVar[bool] = False
    """Rows trigger windows: OVER (WHEN …) chooses them, `trigger_time` names their instant."""
    partitioned: ClassVar[bool] = True
    """OVER (PARTITION BY …) is allowed."""
    folding: ClassVar[Folding] = "never"

    @classmethod
    def required(cls) -> tuple[str, ...]:
        """Parts that a query must give."""
        return tuple(part.name for part in cls.parts if cls._default(part) is MISSING)

    @classmethod
    def build(cls, values: Mapping[str, PartValue]) -> WindowSpec:
        """The window with these parts, by their names. BadWindow if they do not fit together."""
        return cls(**{part.field: _fixed(part, values[part.name]) for part in cls.parts if part.name in values})

    @classmethod
    def _default(cls, part: Part) -> Any:
        """None for a part that only other forms of the kind have."""
        return next((each.default for each in fields(cast(Any, cls)) if each.name == part.field), None)

    @classmethod
    def clause_form(cls) -> str:
        """How the WINDOW clause is written: `SESSION (GAP 30 SECONDS)`, optional parts in brackets."""
        shown = [f"{part.name} {part.example}" for part in cls.parts]
        return f"{cls.kind.upper()} ({_bracketed(shown, len(cls.required()))})"

    @classmethod
    def function_form(cls) -> str:
        """How the function is called: `slidingwindow('ss', lookback[, lookahead])`."""
        shown = ["'ss'", *(part.name.lower() for part in cls.parts if part.in_function)]
        return f"{cls.kind}window({_bracketed(shown, 1 + len(cls.required()))})"

    def given(self) -> dict[Part, str]:
        """The parts that differ from their defaults, and how they are written."""
        found = {part: getattr(self, part.field, None) for part in self.parts}
        return {
            part: format_duration(value) if isinstance(value, int) else str(value)
            for part, value in found.items()
            if value != self._default(part)
        }

    def clause(self) -> str:
        """The canonical spelling: `TUMBLING (SIZE '10s')`."""
        shown = ", ".join(f"{part.name} '{text}'" for part, text in self.given().items())
        return f"{self.kind.upper()} ({shown})"

    def arguments(self) -> tuple[int, ...]:
        """For a kind without a clause, the numbers that its function takes."""
        return ()

    def describe(self) -> str:
        """For EXPLAIN: `hopping(1m, slide 5s)`."""
        shown = [f"{part.label} {text}".strip() for part, text in self.given().items()]
        return f"{self.kind}({', '.join(shown)})"

    def words(self) -> str:
        """For `windowpane check`."""
        raise NotImplementedError

    def emitted(self) -> str | None:
        """For `windowpane check`: when a window comes out, None where EMIT decides."""
        return "when the window is complete"

    def looks_ahead(self) -> bool:
        """For a triggered kind: whether a window ends after its trigger, so that its result has to wait."""
        return False

    def overlapping(self) -> bool:
        """Whether an instant may lie in several windows, which may then share panes. Only aligned kinds can."""
        return False

    def pane(self) -> str | None:
        """For EXPLAIN: the width of the panes that overlapping windows share."""
        return None

    def why_unshared(self) -> str | None:
        """Why windows are better kept one by one than as panes, None where panes are better."""
        return None

    def zone_rules(self) -> dict[str, str]:
        """Time zones that its windows follow, each with a digest of its rules."""
        return {}

    def slack_us(self) -> int:
        """How far behind the watermark a row may be and still find a window open, allowed lateness aside."""
        return 0

    def results_behind_us(self, allowed_lateness_us: int) -> int:
        """How far a query over the results is behind the watermark, so that no result to come is late there.

        The time of a result is the last microsecond of its window, or its trigger's time.
        """
        return allowed_lateness_us + 1


KINDS: dict[str, type[WindowSpec]] = {}
"""Every window kind by its name."""


def register(kind: type[WindowSpec]) -> None:
    """Make a kind known: its WINDOW clause and its function are then part of the language."""
    KINDS[kind.kind] = kind


def _fixed(part: Part, value: PartValue) -> PartValue:
    """The value for a window whose durations are fixed."""
    if not isinstance(value, CalendarSpan):
        return value
    if value.fixed_us is None:
        raise BadWindow(
            part.name, "BAD_INTERVAL", f"`{value}` has no fixed length", "use days or smaller units: 30 DAYS"
        )
    return value.fixed_us


def _bracketed(shown: list[str], required: int) -> str:
    """Items joined by commas, each one after the first `required` in brackets."""
    return ", ".join(shown[:required]) + "".join(f"[, {each}]" for each in shown[required:])
