"""Types of the fields of plan nodes: input columns, calls, windows, aggregations, side-output routes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from windowpane.core.windows import WindowSpec
from windowpane.core.windows.cut import Cut
from windowpane.outcomes import SideKind
from windowpane.plan.describe import describe_emit, describe_interval
from windowpane.plan.eventtime.timing import LateRule
from windowpane.plan.node import Properties, shown
from windowpane.sql import rename_columns
from windowpane.sql.query import Emit, Expr, Output, StreamJoin
from windowpane.time import format_duration

Role: TypeAlias = Literal[
    "join",
    "key",
    "carried",
    "partition",
    "dedupe",
    "argument",
    "filter",
    "when",
    "open",
    "emit",
    "where",
    "on",
    "joined",
]


@dataclass(frozen=True)
class InputColumn:
    """A column that crosses into the operators. `expr` is an expression over the columns of FROM."""

    name: str
    expr: Expr
    role: Role
    under: Expr | None = None
    """The FILTER of the aggregate whose argument it is: SQL evaluates it only where that holds."""

    def describe(self) -> str:
        return f"{self.name}={self.expr.text}"


@dataclass(frozen=True)
class ColumnUse:
    """A key or carried column: outputs know it as `name`, it crosses as `column`, the user calls it `label`."""

    name: str
    column: str
    label: str
    type: str | None


@dataclass(frozen=True)
class PhysicalCall:
    """An aggregate over input columns. Outputs know its result as `name`."""

    name: str
    function: str
    args: tuple[str, ...]
    arg_types: tuple[str | None, ...]
    params: tuple[object, ...]
    distinct: bool
    filter: str | None
    type: str | None
    text: str

    def describe(self) -> str:
        return f"{self.text} AS {self.name}"


@dataclass(frozen=True)
class WindowPlan:
    """A window with the columns it reads and how late a row may be for it."""

    spec: WindowSpec
    late_rule: LateRule
    allowed_lateness_us: int = 0
    closed_until_us: int | None = None
    """Windows that end here or before were closed by an earlier plan with less allowed lateness, and stay so."""
    cut: Cut | None = None
    """Of a version of a query that another one precedes or follows."""
    partition_by: tuple[str, ...] = ()
    when: str | None = None
    open: str | None = None
    emit: str | None = None

    def columns(self) -> tuple[str, ...]:
        flags = tuple(name for name in (self.when, self.open, self.emit) if name is not None)
        return self.partition_by + flags

    def renamed(self, names: dict[str, str]) -> WindowPlan:
        """The same window with its columns renamed."""
        when, opens, emit = (names.get(flag, flag) if flag else None for flag in (self.when, self.open, self.emit))
        partition_by = tuple(names.get(name, name) for name in self.partition_by)
        return replace(self, partition_by=partition_by, when=when, open=opens, emit=emit)

    def properties(self) -> Properties:
        return shown(
            window=self.spec.describe(), partition_by=self.partition_by,
            when=self.when, open=self.open, emit_when=self.emit,
            allowed_lateness=format_duration(self.allowed_lateness_us) if self.allowed_lateness_us else None,
        )  # fmt: skip


@dataclass(frozen=True)
class Aggregation:
    """Groups of a window: keys, calls, when they are emitted, how many groups a window may have (None: no quota)."""

    keys: tuple[ColumnUse, ...]
    calls: tuple[PhysicalCall, ...]
    emit: Emit
    max_groups: int | None

    def properties(self) -> Properties:
        return shown(
            keys=labels(self.keys), calls=tuple(call.describe() for call in self.calls),
            emit=describe_emit(self.emit), max_groups=self.max_groups,
        )  # fmt: skip


@dataclass(frozen=True)
class JoinFields:
    """A join of streams over columns that cross. `computed` are columns over both sides, made for joined rows."""

    join: StreamJoin
    on: tuple[str, ...]
    """Columns with what ON asks for beside equal keys: they cross, or are computed."""
    where: str | None
    """The column that says whether WHERE keeps a joined row."""
    computed: tuple[InputColumn, ...]

    def renamed(self, names: dict[str, str]) -> JoinFields:
        """The same with its columns renamed."""
        computed = tuple(
            replace(
                column,
                expr=rename_columns(column.expr, names),
                under=rename_columns(column.under, names) if column.under else None,
            )
            for column in self.computed
        )
        on = tuple(names.get(name, name) for name in self.on)
        return replace(self, on=on, where=names.get(self.where, self.where) if self.where else None, computed=computed)

    def properties(self) -> Properties:
        keys = tuple(f"{label} AS {name}" for name, label in zip(self.join.keys, self.join.labels, strict=True))
        computed = tuple(column.describe() for column in self.computed)
        interval = describe_interval(self.join.interval_us) if self.join.interval_us else None
        return shown(kind=self.join.kind, keys=keys, partners=interval, on=self.on, where=self.where, computed=computed)


@dataclass(frozen=True)
class SideRoute:
    """Where one kind of tagged row goes: a sink's name, `metrics_only` or `reinject`."""

    kind: SideKind
    target: str
    include_original: bool
    rate_limit: int | None
    max_reinjections: int | None
    then: str = "metrics_only"

    def describe(self) -> str:
        original = " with original" if self.include_original else ""
        limited = self.rate_limit is not None and self.target != "metrics_only"
        limit = f" at most {self.rate_limit}/s" if limited else ""
        rounds = f" {self.max_reinjections} times then->{self.then}" if self.target == "reinject" else ""
        return f"{self.kind}->{self.target}{rounds}{original}{limit}"


def labels(columns: tuple[ColumnUse, ...]) -> tuple[str, ...]:
    """`auction`, or `_k0=upper(name)` where the column's internal name does not say it."""
    return tuple(f"{column.label} AS {column.column}" for column in columns)


def describe_output(output: Output) -> str:
    return output.name if output.expr.text == output.name else f"{output.expr.text} AS {output.name}"
