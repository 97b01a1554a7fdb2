"""Arithmetic and comparison."""

from __future__ import annotations

from collections.abc import Iterator

from windowpane.sql.signatures.model import LITERAL, SCALARS, Signature, cast_to, pairs, raising, wider
from windowpane.sql.types import FRACTIONAL, INTEGRAL, decimal, decimal_parts

COMPARISONS = {
    "=": "=", "<>": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "<=>": "IS NOT DISTINCT FROM",
}  # fmt: skip
_EXACT_DIGITS = 34
_PLAIN = ("+", "-", "*")
_TRIED = {"try_add": "+", "try_subtract": "-", "try_multiply": "*"}


def signatures() -> Iterator[Signature]:
    for left, right in pairs(INTEGRAL):
        yield from _integers(left, right, wider(left, right))
    for left, right in pairs((*INTEGRAL, *FRACTIONAL)):
        if "DOUBLE" in (left, right) or left == right == "FLOAT":
            yield from _floats(left, right, "DOUBLE" if "DOUBLE" in (left, right) else "FLOAT")
        elif "FLOAT" in (left, right):
            yield from _divided(left, right)
    for kind in SCALARS:
        if kind not in INTEGRAL:
            yield from _compared(kind, kind, kind)
    for kind in (*INTEGRAL, *FRACTIONAL):
        yield from _of_one(kind)
    for kind in ("INT", "BIGINT"):
        rest, divisor = f"{{0}} % {cast_to('{1}', 'INT', kind)}", cast_to("{1}", "INT", kind)
        text = f"CASE WHEN {rest} < 0 THEN {rest} + {divisor} ELSE {rest} END"
        yield Signature("pmod", (kind, f"{LITERAL}INT"), kind, text)


def _of_one(kind: str) -> Iterator[Signature]:
    whole, wide, nan = kind in INTEGRAL, cast_to("{0}", kind, "DOUBLE"), "CAST('nan' AS DOUBLE)"
    yield Signature("negative", (kind,), kind, "(-{0})", fails=whole)
    yield Signature("abs", (kind,), kind, "abs({0})", fails=whole)
    yield Signature("positive", (kind,), kind, "{0}")
    yield Signature("sqrt", (kind,), "DOUBLE", f"CASE WHEN {wide} < 0 THEN {nan} ELSE sqrt({wide}) END")
    sign = f"WHEN {wide} > 0 THEN CAST(1 AS DOUBLE) WHEN {wide} < 0 THEN CAST(-1 AS DOUBLE)"
    for name in ("sign", "signum"):
        yield Signature(name, (kind,), "DOUBLE", f"CASE WHEN {wide} = 0 OR isnan({wide}) THEN {wide} {sign} END")
    if not whole:
        yield Signature("isnan", (kind,), "BOOLEAN", "coalesce(isnan({0}), FALSE)")
    for name, rounds in (("floor", "floor"), ("ceil", "ceil"), ("ceiling", "ceil")):
        number = f"CASE WHEN isnan({{0}}) THEN 0 ELSE CAST({rounds}({wide}) AS BIGINT) END"
        text = cast_to("{0}", kind, "BIGINT") if whole else number
        yield Signature(name, (kind,), "BIGINT", text, fails=not whole)


def _integers(left: str, right: str, kind: str) -> Iterator[Signature]:
    a, b = cast_to("{0}", left, kind), cast_to("{1}", right, kind)
    for name in _PLAIN:
        yield Signature(name, (left, right), kind, f"({a} {name} {b})", fails=True)
    for name, sign in _TRIED.items():
        yield Signature(name, (left, right), kind, f"TRY({a} {sign} {b})", safe_args=True)
    # The smallest number divided by -1 is an overflow in DuckDB, also for the remainder, which is 0.
    rest = f"CASE WHEN {b} = -1 AND {a} IS NOT NULL THEN CAST(0 AS {_type(kind)}) ELSE {a} % {b} END"
    for name in ("%", "mod"):
        yield Signature(name, (left, right), kind, f"({rest})", fails=True)
        yield Signature(name, (left, LITERAL + right), kind, f"({a} % {b})")
    yield _pmod(left, right, kind, a, b)
    yield Signature("try_mod", (left, right), kind, f"TRY({rest})", safe_args=True)
    wide_a, wide_b = cast_to("{0}", left, "BIGINT"), cast_to("{1}", right, "BIGINT")
    yield Signature("div", (left, right), "BIGINT", f"({wide_a} // {wide_b})", fails=True)
    yield from _divided(left, right)
    yield from _compared(left, right, kind)
    equal = f"{a} = {b}"
    yield Signature("nullif", (left, right), left, f"CASE WHEN {equal} THEN NULL ELSE {{0}} END", safe_args=True)


def _pmod(left: str, right: str, kind: str, a: str, b: str) -> Signature:
    """The sum of a remainder and a divisor, both negative, wraps around, but is an INT for narrower types."""
    half = 2 ** (8 * 2 ** max(INTEGRAL.index(kind), 2) - 1)
    rest = f"(CAST({a} AS {'HUGEINT' if kind == 'BIGINT' else 'BIGINT'}) % {b})"
    total = f"(((({rest} + {b}) + {half}) % {2 * half} + {2 * half}) % {2 * half} - {half})"
    text = f"CAST(CASE WHEN {rest} < 0 THEN {total} % {b} ELSE {rest} END AS {_type(kind)})"
    zero = f"CASE WHEN {b} = 0 AND {a} IS NOT NULL THEN {raising(kind)} ELSE {text} END"
    return Signature("pmod", (left, right), kind, zero, fails=True)


def _type(kind: str) -> str:
    return "INTEGER" if kind == "INT" else kind


def _floats(left: str, right: str, kind: str) -> Iterator[Signature]:
    a, b = cast_to("{0}", left, kind), cast_to("{1}", right, kind)
    for name in _PLAIN:
        yield Signature(name, (left, right), kind, f"({a} {name} {b})")
    for name, sign in _TRIED.items():
        yield Signature(name, (left, right), kind, f"({a} {sign} {b})")
    rest = f"CASE WHEN {b} = 0 AND {a} IS NOT NULL THEN {raising(kind)} ELSE {a} % {b} END"
    yield Signature("%", (left, right), kind, f"({rest})", fails=True)
    yield Signature("%", (left, LITERAL + right), kind, f"({a} % {b})")
    yield from _divided(left, right)
    yield from _compared(left, right, kind)


def _divided(left: str, right: str) -> Iterator[Signature]:
    """Both as doubles. Division by a number that is written out cannot fail, and is the usual case."""
    a, b = cast_to("{0}", left, "DOUBLE"), cast_to("{1}", right, "DOUBLE")
    zero = f"CASE WHEN {b} = 0 AND {a} IS NOT NULL THEN {raising('DOUBLE')} ELSE {a} / {b} END"
    yield Signature("/", (left, right), "DOUBLE", f"({zero})", fails=True)
    yield Signature("/", (left, LITERAL + right), "DOUBLE", f"({a} / {b})")
    yield Signature("try_divide", (left, right), "DOUBLE", f"({a} / nullif({b}, 0))", safe_args=True)


def _compared(left: str, right: str, kind: str) -> Iterator[Signature]:
    a, b = cast_to("{0}", left, kind), cast_to("{1}", right, kind)
    for name, sign in COMPARISONS.items():
        yield Signature(name, (left, right), "BOOLEAN", f"({a} {sign} {b})")
    if left == right and kind not in INTEGRAL:
        equal = f"CASE WHEN {a} = {b} THEN NULL ELSE {{0}} END"
        yield Signature("nullif", (left, right), left, equal, safe_args=True)


def of_decimals(name: str, args: tuple[str, ...]) -> Signature | None:
    """Signatures of decimals of any precision: where Spark's result is exact, so that no digit is rounded."""
    if len(args) == 1:
        known = _exact(args[0]) and name in ("negative", "abs", "positive")
        text = {"negative": "(-{0})", "abs": "abs({0})", "positive": "{0}"}
        return Signature(name, args, args[0], f"CAST({text[name]} AS {args[0]})") if known else None
    if len(args) != 2 or not any(arg.startswith("DECIMAL") for arg in args):
        return None
    if any(arg in FRACTIONAL for arg in args):
        return None
    left, right = decimal_parts(args[0]), decimal_parts(args[1])
    if left is None or right is None:
        return None
    if name in COMPARISONS:
        return _decimals_compared(name, args, left, right)
    return _decimal_arithmetic(name, args, left, right)


def _exact(kind: str | None) -> bool:
    """Spark rounds what it computes to 34 digits before it looks whether it fits."""
    parts = decimal_parts(kind) if (kind or "").startswith("DECIMAL") else None
    return parts is not None and parts[0] <= _EXACT_DIGITS


def _decimals_compared(
    name: str, args: tuple[str, ...], left: tuple[int, int], right: tuple[int, int]
) -> Signature | None:
    scale = max(left[1], right[1])
    common = decimal(max(left[0] - left[1], right[0] - right[1]) + scale, scale)
    if common is None:
        return None
    a, b = f"CAST({{0}} AS {common})", f"CAST({{1}} AS {common})"
    return Signature(name, args, "BOOLEAN", f"({a} {COMPARISONS[name]} {b})")


def _decimal_arithmetic(
    name: str, args: tuple[str, ...], left: tuple[int, int], right: tuple[int, int]
) -> Signature | None:
    if name not in _PLAIN:
        return None
    (p1, s1), (p2, s2) = left, right
    if name == "*":
        result = decimal(p1 + p2 + 1, s1 + s2)
        wide = decimal(38 - p2, s1)
        if result is None or wide is None or not _exact(result):
            return None
        return Signature(name, args, result, f"CAST(CAST({{0}} AS {wide}) * {{1}} AS {result})")
    scale = max(s1, s2)
    result = decimal(max(p1 - s1, p2 - s2) + scale + 1, scale)
    if result is None or not _exact(result):
        return None
    a, b = f"CAST({{0}} AS {result})", f"CAST({{1}} AS {result})"
    return Signature(name, args, result, f"CAST({a} {name} {b} AS {result})")
