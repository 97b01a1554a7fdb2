"""Parses and writes JSON values as Spark does.

Spark also accepts NaN and infinities, sees every field of a name that repeats, and ignores text after the object. A
truncated record has no fields.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from json.decoder import scanstring  # type: ignore[attr-defined]  # the function with which json reads strings

_SPACE = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_NON_FINITE = re.compile(r"NaN|[-+]?Infinity|[-+]INF")
_LITERALS = {"t": ("true", True), "f": ("false", False), "n": ("null", None)}
_LONGEST_NUMBER = 1000
"""Digits of the longest number that Spark's parser accepts."""
_PLAIN = (1e-3, 1e7)
"""Java writes doubles between these without an exponent."""
_ESCAPES = {
    '"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r",
}  # fmt: skip
_ESCAPED = re.compile(r'["\\\x00-\x1f\ud800-\udfff\U00010000-\U0010ffff]')


class Fields(tuple[tuple[str, object], ...]):
    """The fields of an object in order; names may repeat."""

    __slots__ = ()


_DECODER = json.JSONDecoder(object_pairs_hook=Fields)
_SPARKS_OWN = re.compile(r"[-+]INF|\+Infinity|[0-9]{334}")
"""Python's parser reads these differently: further spellings of the infinities, and very long numbers."""
_STRING, _BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL), re.compile(r"[\[\]{}]")
_DEEPEST = 1000
"""Levels of nesting that Spark's parser accepts."""


def record_fields(text: str) -> Fields:
    """The fields of the object at the beginning of a record; ValueError if there is no object."""
    at, sign = _next(text, 0)
    if sign != "{":
        raise ValueError("not an object")
    own = ("+I" in text or "INF" in text or len(text) > _LONGEST_NUMBER) and _SPARKS_OWN.search(text)
    read: Callable[[str, int], tuple[Fields, int]] = _object if own else _DECODER.raw_decode
    try:
        return read(text, at)[0]
    except RecursionError:
        if _depth(text) > _DEEPEST:
            raise ValueError("nested too deeply") from None
    with _deeper():
        return read(text, at)[0]


@contextmanager
def _deeper() -> Iterator[None]:
    """Raises Python's recursion limit to the nesting that Spark's parser accepts."""
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(usual + 10 * _DEEPEST)
    try:
        yield
    finally:
        sys.setrecursionlimit(usual)


def _depth(text: str) -> int:
    """The depth of the nesting of brackets outside of strings."""
    depth = deepest = 0
    for sign in _BRACKETS.findall(_STRING.sub("", text)):
        depth += 1 if sign in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


def rewritten(value: object) -> str:
    """The text of a value in a STRING column: compact JSON, with numbers as Java writes doubles."""
    try:
        return _rewritten(value)
    except RecursionError:
        with _deeper():
            return _rewritten(value)


def _rewritten(value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return f'"{_ESCAPED.sub(_escape, value)}"'
    if isinstance(value, Fields):
        return "{" + ",".join(f"{_rewritten(name)}:{_rewritten(each)}" for name, each in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_rewritten, value)) + "]"
    return _fraction(value) if isinstance(value, float) else str(value)


def _members(text: str, at: int) -> Iterator[tuple[str, object, int, int]]:
    """The members of an object from behind its opening brace: name, value, and the value's start and end."""
    at, sign = _next(text, at)
    while sign != "}":
        if sign != '"':
            raise ValueError("not a name")
        name, at = scanstring(text, at + 1)
        at, sign = _next(text, at)
        if sign != ":":
            raise ValueError("no value")
        low, _ = _next(text, at + 1)
        value, at = _value(text, low)
        yield name, value, low, at
        at, sign = _further(text, at, "}")


def _value(text: str, at: int) -> tuple[object, int]:
    sign = text[at : at + 1]
    if sign == '"':
        found: tuple[object, int] = scanstring(text, at + 1)
        return found
    if sign == "{":
        return _object(text, at)
    if sign == "[":
        return _array(text, at)
    word, literal = _LITERALS.get(sign, ("", None))
    if word and text.startswith(word, at):
        return literal, at + len(word)
    return _number(text, at)


def _number(text: str, at: int) -> tuple[object, int]:
    special, found = _NON_FINITE.match(text, at), _NUMBER.match(text, at)
    if special:
        return float(special.group().replace("INF", "Infinity")), special.end()
    if not found or _is_too_long(found):
        raise ValueError("not a value")
    fraction = found.group(1) or found.group(2)
    return (float if fraction else int)(found.group()), found.end()


def _is_too_long(number: re.Match[str]) -> bool:
    """Spark's parser counts digits. It does not count the zero of `0.5`, unless there is an exponent."""
    uncounted = number.group().lstrip("-").startswith("0.") and not number.group(2)
    return sum(map(str.isdigit, number.group())) - uncounted > _LONGEST_NUMBER


def _object(text: str, at: int) -> tuple[Fields, int]:
    found, end = [], at + 1
    for name, value, _, high in _members(text, at + 1):
        found.append((name, value))
        end = high
    # Only the closing brace follows the last value.
    return Fields(found), text.index("}", end) + 1


def _array(text: str, at: int) -> tuple[list[object], int]:
    found: list[object] = []
    at, sign = _next(text, at + 1)
    while sign != "]":
        value, at = _value(text, at)
        found.append(value)
        at, sign = _further(text, at, "]")
    return found, at + 1


def _further(text: str, at: int, end: str) -> tuple[int, str]:
    """After a value: the position and first character of the next value, or of `end`."""
    at, sign = _next(text, at)
    if sign == ",":
        at, sign = _next(text, at + 1)
        return at, "" if sign == end else sign
    if sign != end:
        raise ValueError("neither a further value nor the end")
    return at, sign


def _next(text: str, at: int) -> tuple[int, str]:
    """The position of the next character other than white space, and the character; empty at the end."""
    found = _SPACE.match(text, at)
    at = found.end() if found else at
    return at, text[at : at + 1]


def _escape(found: re.Match[str]) -> str:
    sign = found.group()
    return _ESCAPES.get(sign) or "".join(f"\\u{unit:04X}" for unit in _utf16(sign))


def _utf16(sign: str) -> list[int]:
    code = ord(sign)
    return [code] if code < 0x10000 else [0xD800 + (code - 0x10000 >> 10), 0xDC00 + (code & 0x3FF)]


def _fraction(value: float) -> str:
    """A double as Java writes it: at least one digit after the point, an exponent below 1e-3 and from 1e7 on."""
    if not math.isfinite(value):
        return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'
    exact = Decimal(repr(value))
    if value == 0 or _PLAIN[0] <= abs(value) < _PLAIN[1]:
        plain = f"{exact:f}"
        return plain if "." in plain else f"{plain}.0"
    if len(exact.normalize().as_tuple().digits) == 1 and float(near := f"{value:.1e}") == value:
        exact = Decimal(near)  # Java writes two digits where one would identify the number
    sign, digits, _ = exact.normalize().as_tuple()
    shown = "".join(map(str, digits))
    return f"{'-' * sign}{shown[0]}.{shown[1:] or '0'}E{exact.adjusted()}"
