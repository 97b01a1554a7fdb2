"""What a step gave against what it must give, and the differences as aligned tables to read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from windowpane.errors import WindowpaneError
from windowpane.testing.golden.model import Expected, Golden, Place, Step, Subject
from windowpane.testing.golden.rows import GoldenRow, lay_out
from windowpane.testing.golden.run import Got, Run
from windowpane.testing.golden.values import Literal, matches, render, render_instant

_NOWHERE = Place(0, 0)
_SAME, _MISSING, _EXTRA = "  ", "- ", "+ "
DEFAULT_SIDE = ("kind", "reason", "event_time")
"""The fields of side rows that are shown where a file names none."""


@dataclass(frozen=True)
class Difference:
    """One expectation that does not hold. `step` counts from 0; None is the query itself."""

    step: int | None
    subject: Subject
    line: int
    title: str
    lines: tuple[str, ...]
    """`- ` what was expected and is missing, `+ ` what came instead."""


def compare(golden: Golden, run: Run) -> list[Difference]:
    """All differences, in the order of the file; none when it holds."""
    wanted = golden.refused.code if golden.refused else None
    if run.refused is not None or wanted is not None:
        lines = _error_lines(wanted, run.refused)
        line = golden.query_place.first
        return [Difference(None, "error", line=line, title="query", lines=lines)] if lines else []
    found: list[Difference] = []
    for index, (step, got) in enumerate(zip(golden.steps, run.steps, strict=True)):
        judged = _replayed(run.steps[index - 1], got) if step.verb == "replay" else compare_step(step, got)
        found += [
            Difference(index, subject, line=step.place.first, title=f"{step.describe()}: {subject}", lines=lines)
            for subject, lines in judged.items()
        ]
    return found


def compare_step(step: Step, got: Got) -> dict[Subject, tuple[str, ...]]:
    """For each expectation that does not hold, the lines that say so. Rows that no one expects are differences."""
    if got.error is not None or "error" in step.expected:
        lines = _error_lines(step.expected["error"].code if "error" in step.expected else None, got.error)
        return {"error": lines} if lines else {}
    judged: dict[Subject, tuple[str, ...]] = {
        "rows": _row_lines(step.expected.get("rows", Expected("rows", _NOWHERE)), got.rows),
        "side": _side_lines(step.expected.get("side", Expected("side", _NOWHERE)), got.side),
    }
    for subject, judge in _GIVEN.items():
        if subject in step.expected:
            judged[subject] = judge(step.expected[subject], got)
    return {subject: lines for subject, lines in judged.items() if lines}


def _error_lines(wanted: str | None, got: WindowpaneError | None) -> tuple[str, ...]:
    if got is not None and got.code == wanted:
        return ()
    missing = [] if wanted is None else [f"- error {wanted}"]
    return (*missing, *(f"+ {line}" for line in (got.render().splitlines() if got else ["no error"])))


def _row_lines(expected: Expected, got: Sequence[Mapping[str, object]]) -> tuple[str, ...]:
    header = list(dict.fromkeys([*expected.header, *(name for row in got for name in row)]))
    return _table_lines(expected, header, [{name: (name in row, row.get(name)) for name in header} for row in got])


def _side_lines(expected: Expected, got: Sequence[Mapping[str, object]]) -> tuple[str, ...]:
    header = list(expected.header or DEFAULT_SIDE)
    return _table_lines(expected, header, [{name: (True, field_of(row, name)) for name in header} for row in got])


def field_of(record: Mapping[str, object], path: str) -> object:
    """`window.start` of a side record; None for a missing field."""
    value: object = record
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


Present = Mapping[str, tuple[bool, object]]
"""A row that came: for each column whether the row has it, and its value."""


def _table_lines(expected: Expected, header: Sequence[str], got: Sequence[Present]) -> tuple[str, ...]:
    pairs = _pair_in_order(expected.rows, got) if expected.ordered else _pair(expected.rows, got)
    taken = {position for position in pairs if position is not None}
    if None not in pairs and len(taken) == len(got):
        return ()
    shown = [
        (_MISSING if at is None else _SAME, _written(row, header)) for row, at in zip(expected.rows, pairs, strict=True)
    ]
    shown += [(_EXTRA, _came(row, header)) for position, row in enumerate(got) if position not in taken]
    marks, cells = [mark for mark, _ in shown], [row for _, row in shown]
    return tuple(lay_out(header, cells, marks))


def _pair(wanted: Sequence[GoldenRow], got: Sequence[Present]) -> list[int | None]:
    """For each expected row a row that came, each used once."""
    free = list(range(len(got)))
    pairs: list[int | None] = []
    for row in wanted:
        found = next((position for position in free if _holds(row, got[position])), None)
        if found is not None:
            free.remove(found)
        pairs.append(found)
    return pairs


def _pair_in_order(wanted: Sequence[GoldenRow], got: Sequence[Present]) -> list[int | None]:
    return [at if at < len(got) and _holds(row, got[at]) else None for at, row in enumerate(wanted)]


def _holds(row: GoldenRow, got: Present) -> bool:
    return all(
        (name in row) is present and (not present or matches(row[name], value))
        for name, (present, value) in got.items()
    )


def _written(row: GoldenRow, header: Sequence[str]) -> list[str]:
    return [_spelling(row[name]) if name in row else "" for name in header]


def _spelling(literal: Literal) -> str:
    return "'" + literal.text.replace("'", "''") + "'" if literal.quoted else literal.text


def _came(row: Present, header: Sequence[str]) -> list[str]:
    return [render(row[name][1]) if row[name][0] else "" for name in header]


def _watermark_lines(expected: Expected, got: Got) -> tuple[str, ...]:
    if expected.instant_us == got.watermark_us:
        return ()
    return (f"- {render_watermark(expected.instant_us)}", f"+ {render_watermark(got.watermark_us)}")


def render_watermark(us: int | None) -> str:
    return "none" if us is None else render_instant(us)


def _accounting_lines(expected: Expected, got: Got) -> tuple[str, ...]:
    """What is not named must be 0."""
    return _number_lines({name: expected.numbers.get(name, 0) for name in got.accounting}, got.accounting)


def _counts_lines(expected: Expected, got: Got) -> tuple[str, ...]:
    return _number_lines(expected.numbers, {name: got.counts.get(name, 0) for name in expected.numbers})


def _number_lines(wanted: Mapping[str, int], got: Mapping[str, int]) -> tuple[str, ...]:
    differing = [name for name in wanted if wanted[name] != got[name]]
    return tuple(line for name in differing for line in (f"- {name} {wanted[name]}", f"+ {name} {got[name]}"))


_GIVEN: dict[Subject, Callable[[Expected, Got], tuple[str, ...]]] = {
    "watermark": _watermark_lines,
    "accounting": _accounting_lines,
    "counts": _counts_lines,
}


def _replayed(first: Got, again: Got) -> dict[Subject, tuple[str, ...]]:
    """A step that runs once more from where it started must give the same, down to the identities."""
    judged: dict[Subject, tuple[str, ...]] = {
        "rows": _changed(first.rows, again.rows),
        "side": _changed(first.side, again.side),
        "watermark": _changed([{"watermark": first.watermark_us}], [{"watermark": again.watermark_us}]),
        "accounting": _changed([first.accounting], [again.accounting]),
    }
    return {subject: lines for subject, lines in judged.items() if lines}


def _changed(first: Sequence[Mapping[str, object]], again: Sequence[Mapping[str, object]]) -> tuple[str, ...]:
    before, after = ([render(dict(row)) for row in rows] for rows in (first, again))
    return () if before == after else (*(f"- {row}" for row in before), *(f"+ {row}" for row in after))
