"""Runs one scenario in the harness and in the oracle, step by step, and says where they part."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.oracle.aggregates import Near, comparable
from tests.oracle.oracle import Expected, Oracle
from tests.oracle.spec import Plain, Query, Sliding, Values, settings_of, sql_of
from windowpane.testing import Harness, Step
from windowpane.time import from_datetime

Result = tuple[Any, list[Any]]


@dataclass(frozen=True)
class Move:
    """One micro-batch. `at` is the processing time of a push or a clock, the target of a watermark."""

    kind: Literal["push", "watermark", "clock", "end"]
    at: int = 0
    rows: tuple[tuple[tuple[str, Any], ...], ...] = ()
    shard: str = "s/0"
    """Of which stream, and which of its shards."""
    restore: bool = False
    """Put the query down after this step, and take it up again from its snapshot."""

    @property
    def events(self) -> list[Values]:
        return [dict(row) for row in self.rows]


def push(rows: Sequence[Values], *, at: int = 0, shard: str = "s/0", restore: bool = False) -> Move:
    """A micro-batch of rows; what a row does not name is NULL."""
    whole = [dict.fromkeys(("id", "ts", "k", "n", "x", "a", "f", "d", "b")) | row for row in rows]
    return Move("push", at, tuple(tuple(row.items()) for row in whole), shard, restore)


@dataclass(frozen=True)
class Scenario:
    query: Query
    moves: tuple[Move, ...]

    def __repr__(self) -> str:
        """Readable in a failure, and enough to write the example down."""
        moves = "".join(f"\n  {move!r}," for move in self.moves)
        return f"{sql_of(self.query)}\nScenario({self.query!r}, ({moves}\n))"


@dataclass
class Run:
    """A harness with a query in it, and all that came out."""

    query: Query
    harness: Harness = field(init=False)
    steps: list[Step] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.harness = Harness(sql_of(self.query), **settings_of(self.query))

    def move(self, move: Move, *, restore: bool = False) -> Step:
        step = self._step(move)
        self.steps.append(step)
        if restore or move.restore:
            self.harness = self.harness.again(self.harness.snapshot())
        return step

    def _step(self, move: Move) -> Step:
        match move.kind:
            case "push":
                stream, _, shard = move.shard.partition("/")
                return self.harness.push(move.events, stream, shard, at=move.at)
            case "watermark":
                return self.harness.advance_watermark(move.at)
            case "clock":
                return self.harness.advance_clock((move.at - from_datetime(self.harness.clock)) / 1_000_000)
            case "end":
                return self.harness.end()

    def results(self) -> list[Result]:
        return [result for step in self.steps for result in results_of(step, self.query)]


def expect(oracle: Oracle, move: Move) -> Expected:
    match move.kind:
        case "push":
            return oracle.push(move.events, move.shard, move.at)
        case "watermark":
            return oracle.advance_watermark(move.at)
        case "clock":
            return oracle.advance_clock(move.at)
        case "end":
            return oracle.end()


def check_scenario(scenario: Scenario, *, restore: bool = False) -> Run:
    """Every step gives what the oracle says: results, side rows, watermark and accounting."""
    run, oracle = Run(scenario.query), Oracle(scenario.query)
    for number, move in enumerate(scenario.moves):
        expected, step = expect(oracle, move), run.move(move, restore=restore and move.kind != "end")
        where = f"step {number} ({move.kind}) of {scenario!r}"
        assert _us_or_none(step.watermark) == expected.watermark, where
        assert step.accounting.as_dict() == expected.accounting, where
        assert_same_side(step, expected, where)
        assert_same_results(results_of(step, scenario.query), expected.results, where)
    assert_identities_are_unique(run)
    return run


def _us_or_none(when: dt.datetime | None) -> int | None:
    return None if when is None else from_datetime(when)


def results_of(step: Step, query: Query) -> list[Result]:
    """Results as (identity, values), without the window's id."""
    return [(_identity(row, query), _values(row, query)) for row in step.rows]


def _identity(row: Values, query: Query) -> Any:
    if isinstance(query.window, Plain):
        return ()
    trigger = _us(row["trigger_time"]) if isinstance(query.window, Sliding) else None
    keys = tuple(comparable(row[name]) for name in query.keys)
    return (_us(row["window_start"]), _us(row["window_end"]), trigger, row["emit_epoch"], row["is_final"], keys)


def _us(value: Any) -> int:
    assert isinstance(value, dt.datetime)
    return from_datetime(value)


def _values(row: Values, query: Query) -> list[Any]:
    return [row["id"]] if query.asks_for_rows else [row[name] for name in query.names]


def assert_same_results(found: Sequence[Result], wanted: Sequence[Result], where: str) -> None:
    """The same results, in any order."""
    found, wanted = sorted(found, key=_sort_key), sorted(wanted, key=_sort_key)
    assert [identity for identity, _ in found] == [identity for identity, _ in wanted], where
    for (identity, left), (_, right) in zip(found, wanted, strict=True):
        assert all(map(same, left, right)), f"{identity}: {left} is not {right}\n{where}"


def _sort_key(result: Result) -> tuple[str, str]:
    """Results with one identity are told apart by their first value, which is never a rounded one."""
    identity, values = result
    return repr(identity), repr(values[:1]) if values and not isinstance(values[0], float | Near) else ""


def same(found: Any, wanted: Any) -> bool:
    """Equal; a float within the ulps it may be off."""
    if isinstance(wanted, Near):
        if found is None or not math.isfinite(wanted.value):
            return bool(comparable(found) == comparable(wanted.value))
        return bool(abs(found - wanted.value) <= wanted.tolerance)
    if isinstance(wanted, list) and isinstance(found, list):
        return [comparable(each) for each in found] == [comparable(each) for each in wanted]
    return type(found) is type(wanted) and bool(comparable(found) == comparable(wanted))


def assert_same_side(step: Step, expected: Expected, where: str) -> None:
    found = Counter(_side_key(record) for record in step.side)
    wanted = Counter(
        (row.kind, row.reason, _text(row.original), row.bounds if row.kind != "evicted" else None)
        for row in expected.side
    )
    assert found == wanted, f"side rows {found - wanted} instead of {wanted - found}\n{where}"


def _side_key(record: dict[str, Any]) -> Any:
    window = record["window"]
    bounds = None
    if window is not None and record["kind"] != "evicted":
        bounds = tuple(from_datetime(dt.datetime.fromisoformat(window[edge])) for edge in ("start", "end"))
    return record["kind"], record["reason"], _text(record["original_event"]), bounds


def _text(event: Values | None) -> str:
    shown = event and {name: _as_json(value) for name, value in event.items()}
    return json.dumps(shown, default=str, sort_keys=True)


def _as_json(value: Any) -> Any:
    """JSON has no NaN and no infinities: side records have their names."""
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def assert_identities_are_unique(run: Run) -> None:
    """(window_id, group key, emit_epoch) identifies an emission: a sink that has it keeps one copy."""
    if isinstance(run.query.window, Plain):
        return
    names = ("window_id", *run.query.keys, "emit_epoch")
    seen = Counter(tuple(comparable(row[name]) for name in names) for step in run.steps for row in step.rows)
    twice = {identity: count for identity, count in seen.items() if count > 1}
    assert not twice, f"emissions that a sink would take for one: {twice} in {sql_of(run.query)}"
