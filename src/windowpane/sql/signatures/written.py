"""Functions with an argument that must be written out, because DuckDB's text depends on it: patterns, formats, counts.

Such an argument stands in a signature as it is written: `'yyyy-MM-dd'`, or `=2` for a number.
"""

from __future__ import annotations

import json
import re

from windowpane.sql.signatures import written_times
from windowpane.sql.signatures.model import Maker, Signature, number_of, text_of, written_text
from windowpane.sql.signatures.regexes import LINE, Pattern, translate_pattern, translate_replacement

_S = "STRING"


def of_written(name: str, args: tuple[str, ...]) -> Signature | None:
    """The signature of a function for these types and texts."""
    maker = _MAKERS.get(name)
    return maker(name, args) if maker is not None else None


def _pattern(args: tuple[str, ...], *, ends: bool = False) -> Pattern | None:
    text = text_of(args[1]) if len(args) > 1 and args[0] == _S else None
    found = translate_pattern(text) if text is not None else None
    return None if found is None or (found.ended and not ends) else found


def _searched(pattern: Pattern) -> str:
    """`$` also matches before the line terminator that ends a text, which no part of the pattern can match."""
    return f"regexp_replace({{0}}, {written_text(LINE)}, '')" if pattern.ended else "{0}"


def _rlike(name: str, args: tuple[str, ...]) -> Signature | None:
    pattern = _pattern(args, ends=True) if len(args) == 2 else None
    if pattern is None:
        return None
    return Signature(name, args, "BOOLEAN", f"regexp_matches({_searched(pattern)}, {written_text(pattern.text)})")


def _regexp_extract(name: str, args: tuple[str, ...]) -> Signature | None:
    pattern = _pattern(args, ends=True)
    group = 1 if len(args) == 2 else number_of(args[2]) if len(args) == 3 else None
    if pattern is None or group is None or not 0 <= group <= min(pattern.groups, 9):
        return None
    return Signature(name, args, _S, f"regexp_extract({_searched(pattern)}, {written_text(pattern.text)}, {group})")


def _regexp_replace(name: str, args: tuple[str, ...]) -> Signature | None:
    pattern, text = _pattern(args), text_of(args[2]) if len(args) == 3 else None
    if pattern is None or pattern.empty or text is None:
        return None
    by = translate_replacement(text, pattern.groups)
    if by is None:
        return None
    return Signature(name, args, _S, f"regexp_replace({{0}}, {written_text(pattern.text)}, {written_text(by)}, 'g')")


def _split(name: str, args: tuple[str, ...]) -> Signature | None:
    pattern = _pattern(args) if len(args) == 2 or args[2:] == ("=-1",) else None
    if pattern is None or pattern.empty:
        return None
    if pattern.plain is not None:
        return Signature(name, args, "ARRAY<STRING>", f"string_split({{0}}, {written_text(pattern.plain)})")
    return Signature(name, args, "ARRAY<STRING>", f"string_split_regex({{0}}, {written_text(pattern.text)})")


def _pad(name: str, args: tuple[str, ...]) -> Signature | None:
    count = number_of(args[1]) if len(args) in (2, 3) and args[0] == _S else None
    by = " " if len(args) == 2 else text_of(args[2]) if len(args) == 3 else None
    if count is None or count > 1_000 or not by:
        return None
    return Signature(name, args, _S, f"{name}({{0}}, {max(count, 0)}, {written_text(by)})")


def _translate(name: str, args: tuple[str, ...]) -> Signature | None:
    given = [text_of(arg) for arg in args[1:]]
    if args[:1] != (_S,) or len(given) != 2 or given[0] is None or given[1] is None or "\0" in given[0] + given[1]:
        return None
    if len(set(given[0])) != len(given[0]):
        return None
    return Signature(name, args, _S, f"translate({{0}}, {written_text(given[0])}, {written_text(given[1])})")


def _separator(args: tuple[str, ...]) -> tuple[str, int] | None:
    """A text that cannot overlap with itself, and a number that is not too large."""
    if len(args) != 3 or args[0] != _S:
        return None
    text, count = text_of(args[1]), number_of(args[2])
    if not text or count is None or abs(count) > 2**31 - 1:
        return None
    overlaps = any(text.endswith(text[:length]) for length in range(1, len(text)))
    return None if overlaps else (text, count)


def _substring_index(name: str, args: tuple[str, ...]) -> Signature | None:
    given = _separator(args)
    if given is None:
        return None
    text, count = written_text(given[0]), given[1]
    if count == 0:
        return Signature(name, args, _S, "CASE WHEN {0} IS NOT NULL THEN '' END")
    part = f"[:{count}]" if count > 0 else f"[{count}:]"
    return Signature(name, args, _S, f"array_to_string(string_split({{0}}, {text}){part}, {text})")


def _split_part(name: str, args: tuple[str, ...]) -> Signature | None:
    given = _separator(args)
    if given is None or given[1] == 0:
        return None
    return Signature(name, args, _S, f"split_part({{0}}, {written_text(given[0])}, {given[1]})")


def _sha2(name: str, args: tuple[str, ...]) -> Signature | None:
    known = len(args) == 2 and args[0] == _S and args[1] in ("=0", "=256")
    return Signature(name, args, _S, "sha256({0})") if known else None


_STEP = re.compile(r"\.([^.\['\"*?()@]+)|\[([0-9]{1,9})\]|\['([^'\]\\?*]+)'\]")


def _get_json_object(name: str, args: tuple[str, ...]) -> Signature | None:
    """Paths of names and positions, such as `$.a[0]['b']`, as a list of steps."""
    path, steps, at = text_of(args[1]) if len(args) == 2 and args[0] == _S else None, [], 1
    while path is not None and at < len(path):
        match = _STEP.match(path, at)
        if match is None:
            return None
        steps.append(int(match[2]) if match[2] is not None else match[1] or match[3])
        at = match.end()
    if path is None or not path.startswith("$") or not steps:
        return None
    text = f"spark_get_json_object({{0}}, {written_text(json.dumps(steps))})"
    return Signature(name, args, _S, text, slow=True)


def _round(name: str, args: tuple[str, ...]) -> Signature | None:
    """Text of a double is the shortest that reads back as it, and that is what Spark rounds."""
    places = 0 if len(args) == 1 else number_of(args[1]) if len(args) == 2 else None
    if places is None or not 0 <= places <= 15 or args[0] not in ("INT", "BIGINT", "DOUBLE"):
        return None
    text = f"spark_{name}({{0}}, {places})" if args[0] == "DOUBLE" else "{0}"
    return Signature(name, args, args[0], text)


_MAKERS: dict[str, Maker] = {
    "RLIKE": _rlike, "rlike": _rlike, "regexp_like": _rlike, "regexp": _rlike,
    "regexp_extract": _regexp_extract, "regexp_replace": _regexp_replace, "split": _split, "lpad": _pad, "rpad": _pad,
    "translate": _translate, "substring_index": _substring_index, "split_part": _split_part, "sha2": _sha2,
    "get_json_object": _get_json_object, "round": _round, "bround": _round, **written_times.MAKERS,
}  # fmt: skip
WRITTEN = tuple(_MAKERS)
