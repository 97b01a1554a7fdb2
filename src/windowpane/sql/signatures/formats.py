"""Patterns of dates and times (`yyyy-MM-dd HH:mm:ss`), to write and to read, letter by letter as Spark knows them."""

from __future__ import annotations

import re

from windowpane.sql.signatures.model import written_text
from windowpane.sql.signatures.parts import MICROS, clock_part, date_part

_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
           "November", "December")  # fmt: skip
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_TOKEN = re.compile(r"([A-Za-z])\1*|'((?:[^']|'')*)'|[^A-Za-z'\[\]{}#]", re.DOTALL)
Token = tuple[str, int]
"""A letter and how often it is written; or a text and 0."""


def tokens(pattern: str) -> list[Token] | None:
    """The parts of a pattern; None where it has one that is not known here."""
    found: list[Token] = []
    at = 0
    while at < len(pattern):
        match = _TOKEN.match(pattern, at)
        if match is None:
            return None
        at = match.end()
        if match[1]:
            found.append((match[1], len(match[0])))
        elif match[2] is None:
            found.append((match[0], 0))
        else:
            found.append((match[2].replace("''", "'") or "'", 0))
    return found or None


def _padded(text: str, width: int) -> str:
    """A number that has no more digits than `width`."""
    return f"lpad(CAST({text} AS VARCHAR), {width}, '0')"


def _chosen(text: str, names: tuple[str, ...], length: int | None = None) -> str:
    listed = ", ".join(f"'{name[:length]}'" for name in names)
    return f"list_extract([{listed}], {text})"


def _year(kind: str, width: int) -> str | None:
    year = date_part("year", kind)
    if width == 4:
        return signed_year(year)
    return {1: f"CAST({year} AS VARCHAR)", 2: _padded(f"abs({year}) % 100", 2)}.get(width)


def signed_year(year: str) -> str:
    """Four digits or more, with a sign where it has more, or is before the year 0."""
    size = f"CAST(abs({year}) AS VARCHAR)"
    sign = f"CASE WHEN {year} < 0 THEN '-' WHEN {year} > 9999 THEN '+' ELSE '' END"
    return f"({sign} || lpad({size}, CAST(greatest(4, len({size})) AS INTEGER), '0'))"


def _shown(token: Token, kind: str) -> str | None:
    """The DuckDB text of one part of a pattern."""
    letter, count = token
    if count == 0:
        return written_text(letter)
    if letter == "y":
        return _year(kind, count)
    if letter in "MdD" and count <= 2:
        number = date_part({"M": "month", "d": "day", "D": "dayofyear"}[letter], kind)
        plain = f"CAST({number} AS VARCHAR)"
        return plain if count == 1 else _padded(number, 2) if letter != "D" else None
    if letter == "D" and count == 3:
        return _padded(date_part("dayofyear", kind), 3)
    if letter == "M" and count <= 4:
        return _chosen(date_part("month", kind), _MONTHS, 3 if count == 3 else None)
    if letter == "E" and count <= 4:
        return _chosen(f"{date_part('weekday', kind)} + 1", _DAYS, 3 if count <= 3 else None)
    if letter == "Q" and count <= 2:
        return _padded(date_part("quarter", kind), count)
    return _clock(letter, count, kind)


def _clock(letter: str, count: int, kind: str) -> str | None:
    hour = "0" if kind == "DATE" else clock_part("hour")
    numbers = {"H": hour, "h": f"(({hour} + 11) % 12 + 1)", "k": f"(({hour} + 23) % 24 + 1)",
               "m": "0" if kind == "DATE" else clock_part("minute"),
               "s": "0" if kind == "DATE" else clock_part("second")}  # fmt: skip
    if letter in numbers and count <= 2:
        return f"CAST({numbers[letter]} AS VARCHAR)" if count == 1 else _padded(numbers[letter], 2)
    if letter == "S" and count <= 9:
        micros = "0" if kind == "DATE" else f"(({MICROS} % 1000000 + 1000000) % 1000000)"
        return f"rpad(left({_padded(micros, 6)}, {count}), {count}, '0')"
    if letter == "a" and count == 1:
        return f"CASE WHEN {hour} < 12 THEN 'AM' ELSE 'PM' END"
    if letter == "X" and count <= 3 and kind == "TIMESTAMP":
        return "'Z'"
    return None


def formatted(pattern: str, kind: str) -> str | None:
    """The DuckDB text that writes `{0}` by a pattern; None where it is not known how Spark does."""
    parts = [_shown(token, kind) for token in tokens(pattern) or ()]
    known = [part for part in parts if part is not None]
    if not known or len(known) != len(parts):
        return None
    return f"CASE WHEN {{0}} IS NOT NULL THEN {' || '.join(known)} END"


_READ = {
    ("y", 4): r"(?P<y>\d{4}|\+\d{5,9}|-\d{4,9})", ("M", 2): r"(?P<M>\d{2})", ("d", 2): r"(?P<d>\d{2})",
    ("H", 2): r"(?P<H>[01]\d|2[0-3])", ("m", 2): r"(?P<m>[0-5]\d)", ("s", 2): r"(?P<s>[0-5]\d)",
    ("M", 1): r"(?P<M>0{0,17}\d{1,2})", ("d", 1): r"(?P<d>0{0,17}\d{1,2})",
    ("H", 1): r"(?P<H>0{0,17}(?:1?\d|2[0-3]))", ("m", 1): r"(?P<m>0{0,17}[0-5]?\d)",
    ("s", 1): r"(?P<s>0{0,17}[0-5]?\d)",
    ("X", 3): r"(?P<X>Z|[+-](?:0\d|1[0-7]):[0-5]\d|[+-]18:00)",
}  # fmt: skip


def reading(pattern: str) -> tuple[str, tuple[str, ...]] | None:
    """The regular expression (of RE2) that texts of a pattern match, and the letters of its groups.

    A number of any length must not stand beside another.
    """
    given = tokens(pattern) or []
    found, letters = [], []
    for at, (letter, count) in enumerate(given):
        if count == 0:
            found.append("".join(_quoted(char) for char in letter))
            continue
        text = rf"(?P<S>\d{{1,{count}}})" if letter == "S" and count <= 9 else _READ.get((letter, count))
        after = given[at + 1] if at + 1 < len(given) else ("", 0)
        beside = (after[1] > 0 and after[0] != "X") or after[0][:1].isdigit()
        if text is None or letter in letters or (beside and (count == 1 or letter == "S")):
            return None
        found.append(text)
        letters.append(letter)
    clock = "".join(letter for letter in "HmsS" if letter in letters)
    if not {"y", "M", "d"} <= set(letters) or not "HmsS".startswith(clock):
        return None
    return rf"\A{''.join(found)}\z", tuple(letters)


def _quoted(char: str) -> str:
    return char if char.isalnum() and char.isascii() else f"\\x{{{ord(char):x}}}"


_QUICK = {("y", 4): "%Y", ("M", 2): "%m", ("d", 2): "%d", ("H", 2): "%H", ("m", 2): "%M", ("s", 2): "%S",
          ("S", 6): "%f", ("S", 3): "%g"}  # fmt: skip


def quick_format(pattern: str) -> str | None:
    """The format of DuckDB's strftime for years from 1 to 9999; None where it has none."""
    found = [letter.replace("%", "%%") if not count else _QUICK.get((letter, count)) for letter, count in
             tokens(pattern) or ()]  # fmt: skip
    known = [part for part in found if part is not None]
    return "".join(known) if known and len(known) == len(found) else None
