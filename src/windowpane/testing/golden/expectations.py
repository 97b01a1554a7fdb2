"""The `expect` sections of golden files."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from windowpane.errors import nearest
from windowpane.testing.golden.model import ACCOUNTS, SIDE_FIELDS, SUBJECTS, Expected
from windowpane.testing.golden.rows import BadLineError, parse_rows
from windowpane.testing.golden.sections import Section
from windowpane.testing.golden.values import parse_instant

_NUMBERED = re.compile(r"(?P<name>[\w.]+) (?P<number>\d+)")
_STAGE = re.compile(r"(window_\d+|window_\d+_joined|joined)\.")
"""What the counts of a window over another one's results begin with."""


def parse_expected(section: Section) -> Expected:
    """What one `expect` section asks for."""
    subject, _, rest = section.rest.partition(" ")
    reader = _READERS.get(subject)
    if reader is None:
        message = f"nothing called `{subject}` can be expected"
        raise BadLineError(section.line.number, message, f"valid: {nearest(subject, SUBJECTS)}")
    if subject not in ("rows", "side"):
        section.alone()
    return reader(section, rest.strip())


def _rows(section: Section, rest: str) -> Expected:
    if rest not in ("", "ordered"):
        hint = "write `expect rows` or `expect rows ordered`"
        raise BadLineError(section.line.number, f"`{section.line.text}` is not known", hint)
    header, rows = parse_rows(section.body)
    return Expected("rows", section.place, tuple(header), tuple(rows), ordered=rest == "ordered")


def _side(section: Section, rest: str) -> Expected:
    if rest:
        raise BadLineError(section.line.number, f"`{section.line.text}` is not known", "write `expect side`")
    header, rows = parse_rows(section.body)
    for name in header:
        if name.partition(".")[0] not in SIDE_FIELDS:
            hint = f"fields are: {nearest(name, SIDE_FIELDS)}; deeper ones like window.start, original_event.k"
            raise BadLineError(section.body[0].number, f"side rows have no field `{name}`", hint)
    return Expected("side", section.place, tuple(header), tuple(rows))


def _watermark(section: Section, rest: str) -> Expected:
    if rest == "none":
        return Expected("watermark", section.place)
    instant = parse_instant(rest)
    if instant is None:
        hint = "write `expect watermark 10s` or `expect watermark none`"
        raise BadLineError(section.line.number, f"`{rest}` is not an instant", hint)
    return Expected("watermark", section.place, instant_us=instant.us)


def _accounting(section: Section, rest: str) -> Expected:
    return Expected("accounting", section.place, numbers=_numbers(section, rest, ACCOUNTS))


def _counts(section: Section, rest: str) -> Expected:
    return Expected("counts", section.place, numbers=_numbers(section, rest, None))


def _numbers(section: Section, rest: str, valid: Sequence[str] | None) -> dict[str, int]:
    numbers = {}
    for part in rest.split(","):
        match = _NUMBERED.fullmatch(part.strip())
        if match is None:
            hint = "write `expect accounting in 3, aggregated 2, late 1`"
            raise BadLineError(section.line.number, f"`{part.strip()}` is not a name with a number", hint)
        if valid is not None and _STAGE.sub("", match["name"]) not in valid:
            message = f"the accounting has no `{match['name']}`"
            raise BadLineError(section.line.number, message, f"valid: {nearest(match['name'], valid)}")
        numbers[match["name"]] = int(match["number"])
    return numbers


def _error(section: Section, rest: str) -> Expected:
    if not re.fullmatch(r"[A-Z][A-Z0-9_]*", rest):
        raise BadLineError(section.line.number, f"`{rest}` is not an error code", "write `expect error UNKNOWN_UNIT`")
    return Expected("error", section.place, code=rest)


_READERS: dict[str, Callable[[Section, str], Expected]] = {
    "rows": _rows,
    "side": _side,
    "watermark": _watermark,
    "accounting": _accounting,
    "counts": _counts,
    "error": _error,
}
