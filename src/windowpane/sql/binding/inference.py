"""Types of expressions, exactly as Spark has them (ANSI mode) or None: never a guess."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from windowpane.core import user_functions
from windowpane.sql.functions import RETURN_TYPES, SAME_AS_ARGUMENTS, SAME_AS_FIRST
from windowpane.sql.literals import number_literal
from windowpane.sql.signatures import TABLE
from windowpane.sql.types import (
    FRACTIONAL,
    INTEGRAL,
    TIMES,
    decimal,
    decimal_parts,
    fields_of,
    parts_of,
    quoted,
    type_name,
)

Types = Mapping[str, str | None]

_BOOLEAN = (
    exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ,
    exp.Is, exp.In, exp.Between, exp.Like, exp.ILike, exp.RegexpLike, exp.Escape, exp.Boolean,
)  # fmt: skip
_STRING = (exp.Trim, exp.Substring, exp.Overlay)
_BITWISE = (exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor)


def infer(node: exp.Expr | None, types: Types) -> str | None:
    """The type of a resolved expression; `types` are those of its columns."""
    if isinstance(node, _BOOLEAN):
        return "BOOLEAN"
    if isinstance(node, exp.Column):
        return types.get(node.name) or None
    if isinstance(node, exp.Literal):
        return _literal(node)
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string:
        return number_literal(f"-{node.this.name}")
    if isinstance(node, (exp.Paren, exp.Neg, exp.BitwiseNot)):
        return infer(node.this, types)
    if isinstance(node, (exp.Cast, exp.TryCast)):
        return type_name(node.args.get("to"))
    if isinstance(node, (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod)):
        return arithmetic(node, infer(node.left, types), infer(node.right, types))
    if isinstance(node, _STRING) or (isinstance(node, (exp.DPipe, exp.Concat)) and _all_strings(node, types)):
        return "STRING"
    if isinstance(node, _BITWISE):
        return common([infer(node.left, types), infer(node.right, types)])
    return _compound(node, types)


def _compound(node: exp.Expr | None, types: Types) -> str | None:
    if isinstance(node, exp.Case):
        values = [branch.args.get("true") for branch in node.args.get("ifs") or []]
        return common_of([*values, node.args.get("default")], types)
    if isinstance(node, exp.If):
        return common_of([node.args.get("true"), node.args.get("false")], types)
    if isinstance(node, exp.Dot):
        owner = infer(node.this, types)
        return fields_of(owner).get(node.expression.name.lower()) if owner and owner.startswith("STRUCT<") else None
    if isinstance(node, exp.Bracket):
        return _element(infer(node.this, types))
    if isinstance(node, exp.Extract):
        return "DECIMAL(8,6)" if node.this.name.upper() in ("SECOND", "SECONDS", "S") else "INT"
    if isinstance(node, exp.StrPosition):
        return "INT"
    if isinstance(node, exp.HexString):
        return "BINARY"
    if isinstance(node, exp.AtTimeZone):
        return "TIMESTAMP"
    return _function(node, types) if isinstance(node, exp.Anonymous) else None


def _function(node: exp.Anonymous, types: Types) -> str | None:
    name, args = str(node.name or node.this).lower(), node.expressions
    if name in RETURN_TYPES:
        return RETURN_TYPES[name]
    own = user_functions.find(name)
    if own is not None:
        return own.returns
    if name in SAME_AS_ARGUMENTS:
        return common_of(args, types)
    if name in SAME_AS_FIRST and args:
        return infer(args[0], types)
    if name in _DATES:
        return _DATES[name][len(args) == 3]
    return (_by_arguments(name, args, types) or _by_signature(name, args, types)) if args else None


def _by_signature(name: str, args: Sequence[exp.Expr], types: Types) -> str | None:
    """The type that the evaluator's table proves for these arguments."""
    kinds = [infer(arg, types) for arg in args]
    signature = TABLE.get((name, tuple(kind for kind in kinds if kind)))
    return signature.result if signature and None not in kinds else None


_ELEMENTS = ("element_at", "try_element_at", "get", "array_max", "array_min")
_DATES = {
    "date_add": ("DATE", "TIMESTAMP"),
    "dateadd": ("DATE", "TIMESTAMP"),
    "timestampadd": ("TIMESTAMP", "TIMESTAMP"),
    "datediff": ("INT", "BIGINT"),
    "date_diff": ("INT", "BIGINT"),
}
"""Without and with a unit as first argument."""


def _by_arguments(name: str, args: Sequence[exp.Expr], types: Types) -> str | None:
    if name == "nvl2" and len(args) == 3:
        return common_of(args[1:], types)
    first = infer(args[0], types)
    if name in ("ceil", "ceiling", "floor") and len(args) == 1:
        return "BIGINT" if first in (*FRACTIONAL, *INTEGRAL) else None
    if name == "round":
        return first if first in (*FRACTIONAL, *INTEGRAL) else None
    if name in _ELEMENTS:
        return _element(first)
    if name == "named_struct":
        return _struct(args, types)
    if name == "split":
        return "ARRAY<STRING>"
    if name == "concat":
        return "STRING" if all(infer(arg, types) == "STRING" for arg in args) else None
    element = common_of(args, types) if name == "array" else None
    return f"ARRAY<{element}>" if element else None


def _struct(args: Sequence[exp.Expr], types: Types) -> str | None:
    names, kinds = args[::2], [infer(value, types) for value in args[1::2]]
    if None in kinds or not all(isinstance(name, exp.Literal) and name.is_string for name in names):
        return None
    return f"STRUCT<{','.join(f'{quoted(name.name)}:{kind}' for name, kind in zip(names, kinds, strict=True))}>"


def _literal(node: exp.Literal) -> str | None:
    if node.is_string:
        return "STRING"
    text = node.name.lower()
    if "e" in text:
        return "DOUBLE"
    if "." in text:
        whole, _, fraction = text.partition(".")
        return decimal(max(len(whole.lstrip("0")) + len(fraction), 1), len(fraction))
    if not text.isdigit():
        return None
    value = int(text)
    return "INT" if value < 2**31 else "BIGINT" if value < 2**63 else decimal(len(text))


def _all_strings(node: exp.Expr, types: Types) -> bool:
    parts = node.expressions if isinstance(node, exp.Concat) else [node.this, node.args.get("expression")]
    return all(infer(part, types) == "STRING" for part in parts)


def _element(owner: str | None) -> str | None:
    if owner and owner.startswith("ARRAY<"):
        return parts_of(owner)[0]
    return parts_of(owner)[1] if owner and owner.startswith("MAP<") else None


def arithmetic(node: exp.Binary, left: str | None, right: str | None) -> str | None:
    """Spark's result type of an operator; dates and intervals only where it is certain."""
    if left is None or right is None:
        interval = isinstance(node.right, exp.Interval) and left in ("TIMESTAMP", "TIMESTAMP_NTZ")
        return left if interval and isinstance(node, (exp.Add, exp.Sub)) else None
    if isinstance(node, exp.IntDiv):
        return "BIGINT"
    if left in FRACTIONAL or right in FRACTIONAL:
        return _fractional(node, left, right)
    if left in INTEGRAL and right in INTEGRAL:
        return "DOUBLE" if isinstance(node, exp.Div) else _widest(left, right)
    return _decimal_result(node, decimal_parts(left), decimal_parts(right))


def _fractional(node: exp.Binary, left: str, right: str) -> str | None:
    numeric = all(kind in (*FRACTIONAL, *INTEGRAL) or kind.startswith("DECIMAL") for kind in (left, right))
    if not numeric:
        return None
    single = "DOUBLE" not in (left, right) and not any(kind.startswith("DECIMAL") for kind in (left, right))
    return "FLOAT" if single and not isinstance(node, exp.Div) else "DOUBLE"


def _widest(left: str, right: str) -> str:
    return INTEGRAL[max(INTEGRAL.index(left), INTEGRAL.index(right))]


def _decimal_result(node: exp.Binary, left: tuple[int, int] | None, right: tuple[int, int] | None) -> str | None:
    """Spark's precision rules. Literals of integers are narrower there, so those are left to Spark."""
    if left is None or right is None or any(isinstance(side, exp.Literal) and not side.is_string and side.is_int
                                            for side in (node.left, node.right)):  # fmt: skip
        return None
    (p1, s1), (p2, s2) = left, right
    if isinstance(node, (exp.Add, exp.Sub)):
        scale = max(s1, s2)
        return _adjusted(max(p1 - s1, p2 - s2) + scale + 1, scale)
    if isinstance(node, exp.Mul):
        return _adjusted(p1 + p2 + 1, s1 + s2)
    if isinstance(node, exp.Div):
        scale = max(6, s1 + p2 + 1)
        return _adjusted(p1 - s1 + s2 + scale, scale)
    scale = max(s1, s2)
    return _adjusted(min(p1 - s1, p2 - s2) + scale, scale)


def _adjusted(precision: int, scale: int) -> str | None:
    if precision <= 38:
        return decimal(precision, scale)
    whole = precision - scale
    return decimal(38, max(38 - whole, min(scale, 6)))


def common_of(nodes: Sequence[exp.Expr | None], types: Types) -> str | None:
    """The common type of branches; NULLs do not count."""
    return common([infer(node, types) for node in nodes if node is not None and not isinstance(node, exp.Null)])


def common(kinds: Sequence[str | None]) -> str | None:
    """The type that all of them widen to, None when one is unknown or there is no such type for certain."""
    if not kinds or any(kind is None for kind in kinds):
        return None
    distinct = list(dict.fromkeys(kind for kind in kinds if kind is not None))
    if len(distinct) == 1:
        return distinct[0]
    if all(kind in INTEGRAL for kind in distinct):
        return max(distinct, key=INTEGRAL.index)
    if all(kind in (*INTEGRAL, *FRACTIONAL) or kind.startswith("DECIMAL") for kind in distinct):
        return "DOUBLE" if "DOUBLE" in distinct or "FLOAT" in distinct else None
    return "TIMESTAMP" if all(kind in TIMES for kind in distinct) and "TIMESTAMP" in distinct else None
