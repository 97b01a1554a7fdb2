"""Functions of times with a pattern or a unit that is written out."""

from __future__ import annotations

from windowpane.sql.signatures.formats import formatted, quick_format, reading
from windowpane.sql.signatures.model import Maker, Signature, let, raising, text_of, written_text
from windowpane.sql.signatures.parts import EPOCH, LAST_US, USUAL, date_part, day, days_of, floored, instant, wrapped

_S = "STRING"
_FIRSTS = {"MONTH": "day", "MON": "day", "MM": "day", "YEAR": "dayofyear", "YYYY": "dayofyear", "YY": "dayofyear"}
_DEFAULT = "yyyy-MM-dd HH:mm:ss"
_DAY_US = 86_400_000_000
_FARTHEST_DAY = LAST_US // _DAY_US


def _trunc(name: str, args: tuple[str, ...]) -> Signature | None:
    unit = text_of(args[1]) if len(args) == 2 and args[0] == "DATE" else None
    part = _FIRSTS.get(unit.upper()) if unit is not None else None
    if part is None:
        return None
    days = wrapped(f"CAST({{0}} - {EPOCH} AS BIGINT) - {date_part(part, 'DATE')} + 1")
    return Signature(name, args, "DATE", let("days", days, day("days")))


def _date_format(name: str, args: tuple[str, ...]) -> Signature | None:
    pattern = text_of(args[1]) if len(args) == 2 and args[0] in ("TIMESTAMP", "DATE") else None
    shown = formatted(pattern, args[0]) if pattern is not None else None
    if pattern is None or shown is None:
        return None
    quick = quick_format(pattern)
    text = shown
    if quick is not None:
        usual = f"WHEN {{0}} {USUAL.format(args[0])} THEN strftime({{0}}, {written_text(quick)})"
        text = f"CASE {usual} WHEN {{0}} IS NOT NULL THEN {shown} END"
    if args[0] == "DATE":  # the day as an instant
        far = f"abs(CAST({{0}} - {EPOCH} AS BIGINT)) > {_FARTHEST_DAY}"
        text = f"CASE WHEN {far} THEN {raising(_S, 'overflow')} ELSE {text} END"
    return Signature(name, args, _S, text, fails=args[0] == "DATE", zoned=True)


def _from_unixtime(name: str, args: tuple[str, ...]) -> Signature | None:
    """A product that does not fit wraps around."""
    pattern = _DEFAULT if len(args) == 1 else text_of(args[1]) if len(args) == 2 else None
    shown = formatted(pattern, "TIMESTAMP") if pattern is not None else None
    if args[:1] not in (("INT",), ("BIGINT",)) or pattern is None or shown is None:
        return None
    wide = "CAST({0} AS HUGEINT) * 1000000"
    micros = f"CAST((({wide} + {2**63}) % {2**64} + {2**64}) % {2**64} - {2**63} AS BIGINT)"
    moment = let("us", micros, instant("us"))
    text, quick = let("moment", moment, shown.format("moment")), quick_format(pattern)
    if quick is not None:
        plain = "make_timestamp(CAST({0} AS BIGINT) * 1000000)"
        usual = f"WHEN {{0}} BETWEEN -62135596800 AND 253402300799 THEN strftime({plain}, {written_text(quick)})"
        text = f"CASE {usual} ELSE {text} END"
    return Signature(name, args, _S, text, zoned=True)


def _read_micros(pattern: str, *, tried: bool) -> str | None:
    """Microseconds of `{0}` by a pattern; fails, or is NULL, where it does not match, and fails for what is too far."""
    found = reading(pattern)
    if found is None:
        return None
    regex, letters = found
    groups = ", ".join(f"'p{at}'" for at in range(len(letters)))
    part = {letter: f"parts.p{at}" for at, letter in enumerate(letters)}
    number = {letter: f"CAST({text} AS BIGINT)" for letter, text in part.items()}
    days = f"CASE WHEN {part['y']} <> '-0000' THEN {days_of(number['y'], number['M'], number['d'])}"
    days = f"{days} ELSE CAST('year' AS BIGINT) END"
    text = f"days * {_DAY_US}"
    for letter, unit_us in (("H", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000)):
        if letter in number:
            text += f" + {number[letter]} * {unit_us}"
    if "S" in part:
        text += f" + CAST(rpad(left({part['S']}, 6), 6, '0') AS BIGINT)"
    if "X" in part:
        sign, hours, minutes = f"left({part['X']}, 1)", f"substring({part['X']}, 2, 2)", f"right({part['X']}, 2)"
        offset = f"(CAST({hours} AS BIGINT) * 60 + CAST({minutes} AS BIGINT)) * 60000000"
        text += f" - CASE {sign} WHEN 'Z' THEN 0 WHEN '-' THEN -({offset}) ELSE {offset} END"
    text = let(
        "days", f"CAST({f'TRY({days})' if tried else days} AS BIGINT)", f"CASE WHEN days IS NOT NULL THEN {text} END"
    )
    return let("parts", f"regexp_extract({{0}}, {written_text(regex)}, [{groups}])", text)


def _reading(name: str, args: tuple[str, ...]) -> Signature | None:
    pattern = _DEFAULT if len(args) == 1 and "unix" in name else text_of(args[1]) if len(args) == 2 else None
    micros = _read_micros(pattern, tried=name.startswith("try_")) if pattern is not None and args[0] == _S else None
    if micros is None:
        return None
    if "unix" in name:
        kind, text = "BIGINT", "us // 1000000"
    elif "date" in name:
        kind, text = "DATE", day(f"CAST({floored('us', _DAY_US)} AS INTEGER)")
    else:
        kind, text = "TIMESTAMP", instant("us")
    text = f"CASE WHEN {{0}} IS NOT NULL THEN {let('us', micros, text)} END"
    return Signature(name, args, kind, text, fails=True, zoned=True)


MAKERS: dict[str, Maker] = {
    "trunc": _trunc, "date_format": _date_format, "from_unixtime": _from_unixtime,
    **dict.fromkeys(("to_timestamp", "try_to_timestamp", "to_date", "try_to_date", "unix_timestamp",
                     "to_unix_timestamp"), _reading),
}  # fmt: skip
