"""Rewrites the expectations of a golden file to what the query gives, for review. All else in the file stays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from windowpane.testing.golden.comparison import DEFAULT_SIDE, Difference, compare, field_of, render_watermark
from windowpane.testing.golden.model import Expected, Golden, Place, Step, Subject
from windowpane.testing.golden.rows import lay_out
from windowpane.testing.golden.run import Got, Run
from windowpane.testing.golden.values import render

MARGIN = "  "


@dataclass(frozen=True)
class _Edit:
    """Lines to put in the place of others; a place of no lines is an insertion before `first`."""

    place: Place
    lines: tuple[str, ...]


def completed(golden: Golden, run: Run) -> str:
    """The file's text with every expectation that does not hold rewritten."""
    edits = [_edit(golden, run, difference) for difference in compare(golden, run)]
    lines = list(golden.lines)
    # From the end, so that the places of what comes before stay right; insertions at one place keep their order.
    for _, edit in sorted(enumerate(edits), key=lambda each: (each[1].place.first, each[0]), reverse=True):
        first, end = edit.place.first - 1, edit.place.end - 1
        lines[first:end] = _with_comments(edit.lines, lines[first:end])
    return "\n".join(lines) + "\n"


def _with_comments(new: Sequence[str], old: Sequence[str]) -> list[str]:
    comments = [line for line in old if line.lstrip().startswith("#")]
    return [*new[:1], *comments, *new[1:]]


def _edit(golden: Golden, run: Run, difference: Difference) -> _Edit:
    if difference.step is None:
        error = [] if run.refused is None else [f"expect error {run.refused.code}"]
        end = golden.query_place.end
        return _Edit(golden.refused.place if golden.refused else Place(end, end), tuple(error))
    step, got = golden.steps[difference.step], run.steps[difference.step]
    return _Edit(_place(step, difference.subject), tuple(_lines(step, got, difference.subject)))


def _place(step: Step, subject: Subject) -> Place:
    if subject in step.expected:
        return step.expected[subject].place
    return Place(step.end, step.end)


def _lines(step: Step, got: Got, subject: Subject) -> list[str]:
    """What the section must say; none when nothing is to be expected."""
    expected = step.expected.get(subject)
    match subject:
        case "error":
            return [] if got.error is None else [f"expect error {got.error.code}"]
        case "rows":
            return _rows(got, ordered=expected is not None and expected.ordered)
        case "side":
            return _side(got, expected)
        case "watermark":
            return [f"expect watermark {render_watermark(got.watermark_us)}"]
        case "accounting":
            return [f"expect accounting {_numbers({name: count for name, count in got.accounting.items() if count})}"]
        case "counts":
            names = expected.numbers if expected else got.counts
            return [f"expect counts {_numbers({name: got.counts.get(name, 0) for name in names})}"]


def _rows(got: Got, *, ordered: bool) -> list[str]:
    if not got.rows:
        return []
    header = list(got.rows[0])
    cells = [[render(row[name]) for name in header] for row in got.rows]
    return [f"expect rows{' ordered' if ordered else ''}", *(MARGIN + line for line in lay_out(header, cells))]


def _side(got: Got, expected: Expected | None) -> list[str]:
    if not got.side:
        return []
    header = list(expected.header if expected and expected.header else DEFAULT_SIDE)
    cells = [[render(field_of(record, name)) for name in header] for record in got.side]
    return ["expect side", *(MARGIN + line for line in lay_out(header, cells))]


def _numbers(numbers: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in numbers.items()) or "in 0"
