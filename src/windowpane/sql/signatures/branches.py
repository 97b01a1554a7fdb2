"""What takes values of any type: NULL checks, choices between values, Boolean logic."""

from __future__ import annotations

from collections.abc import Iterator

from windowpane.sql.signatures.model import SCALARS, Signature
from windowpane.sql.types import parts_of

_NUMBERED = ("coalesce", "nvl", "ifnull")


def signatures() -> Iterator[Signature]:
    yield Signature("NOT", ("BOOLEAN",), "BOOLEAN", "(NOT {0})")
    for word in ("TRUE", "FALSE"):
        yield Signature(f"IS {word}", ("BOOLEAN",), "BOOLEAN", f"({{0}} IS NOT DISTINCT FROM {word})")
    for kind in SCALARS:
        for name in ("IS NULL", "isnull", "isnotnull", "nvl2", "AND", "OR", "IF", "CASE", *_NUMBERED):
            args = {"IS NULL": 1, "isnull": 1, "isnotnull": 1, "nvl2": 3}.get(name, 2)
            found = of_any(name, (kind,) * args)
            if found is not None:
                yield found
        if kind in ("FLOAT", "DOUBLE"):  # of 0.0 and -0.0 the first is taken
            for name, sign in (("greatest", ">"), ("least", "<")):
                two = f"CASE WHEN {{0}} IS NULL OR {{1}} {sign} {{0}} THEN {{1}} ELSE {{0}} END"
                yield Signature(name, (kind, kind), kind, two)
        else:
            for name in ("greatest", "least"):
                yield Signature(name, (kind, kind), kind, f"{name}({{0}}, {{1}})")
                yield Signature(name, (kind, kind, kind), kind, f"{name}({{0}}, {{1}}, {{2}})")


def of_any(name: str, args: tuple[str, ...]) -> Signature | None:
    """Signatures that do not look at values, so that they hold for every type."""
    if name in ("IS NULL", "isnull", "isnotnull") and len(args) == 1:
        return Signature(name, args, "BOOLEAN", "({0} IS NOT NULL)" if name == "isnotnull" else "({0} IS NULL)")
    if name in ("AND", "OR") and args == ("BOOLEAN", "BOOLEAN"):
        return Signature(name, args, "BOOLEAN", f"({{0}} {name} {{1}})")
    if name == "nvl2" and len(args) == 3 and args[1] == args[2]:
        return Signature(name, args, args[1], "CASE WHEN {0} IS NOT NULL THEN {1} ELSE {2} END", safe_args=True)
    if args and args[0].startswith("ARRAY<"):
        found = _of_array(name, args)
        if found is not None:
            return found
    if len(set(args)) != 1:
        return None
    if name in ("CASE", "IF"):
        return Signature(name, args, args[0], "")
    if name in _NUMBERED and (len(args) == 2 or name == "coalesce"):
        listed = ", ".join(f"{{{number}}}" for number in range(len(args)))
        return Signature(name, args, args[0], f"coalesce({listed})")
    if name == "array":
        listed = ", ".join(f"{{{number}}}" for number in range(len(args)))
        return Signature(name, args, f"ARRAY<{args[0]}>", f"[{listed}]")
    return None


def _of_array(name: str, args: tuple[str, ...]) -> Signature | None:
    (element,), there = parts_of(args[0]), "{0} IS NOT NULL AND {1} IS NOT NULL"
    if name in ("size", "array_size", "cardinality") and len(args) == 1:
        return Signature(name, args, "INT", "CAST(len({0}) AS INTEGER)", ansi=name != "array_size")
    if name == "array_contains" and args[1:] == (element,):
        nulls = "WHEN list_count({0}) < len({0}) THEN NULL"
        found = f"WHEN {{0}} IS NULL OR {{1}} IS NULL THEN NULL WHEN list_contains({{0}}, {{1}}) THEN TRUE {nulls}"
        return Signature(name, args, "BOOLEAN", f"CASE {found} ELSE FALSE END")
    if name == "array_position" and args[1:] == (element,):
        text = f"CASE WHEN {there} THEN coalesce(list_position({{0}}, {{1}}), 0) END"
        return Signature(name, args, "BIGINT", f"CAST({text} AS BIGINT)")
    if name in ("array_max", "array_min") and len(args) == 1 and element not in ("FLOAT", "DOUBLE"):
        return Signature(name, args, element, f"list_{name[-3:]}({{0}})")
    if name == "array_join" and element == "STRING" and args[1:] == ("STRING",):
        return Signature(
            name, args, "STRING", f"CASE WHEN {there} THEN coalesce(array_to_string({{0}}, {{1}}), '') END"
        )
    if args[1:] != ("INT",):
        return None
    outside, missing = "THEN CAST('array_index' AS BIGINT)", "CASE WHEN {0} IS NULL THEN NULL WHEN"
    templates = {
        "get": ("CASE WHEN {1} >= 0 THEN list_extract({0}, CAST({1} AS BIGINT) + 1) END", False),
        "[]": (
            f"list_extract({{0}}, {missing} {{1}} < 0 OR {{1}} >= len({{0}}) {outside} ELSE {{1}} + 1 END)", True,
        ),
        "try_element_at": ("list_extract({0}, {1})", False),
        "element_at": (
            f"list_extract({{0}}, {missing} {{1}} = 0 OR abs({{1}}) > len({{0}}) {outside} ELSE {{1}} END)", True,
        ),
    }  # fmt: skip
    if name not in templates:
        return None
    text, fails = templates[name]
    return Signature(name, args, element, text, fails=fails, safe_args=not fails)
