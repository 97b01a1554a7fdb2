"""Error guards: for an expression, another that names what would go wrong with a row, and never fails itself.

Spark (ANSI mode) stops a query at the first bad value. A guard is evaluated first, so that only the row is an error.
It follows Spark's laziness: a branch that is not taken cannot be at fault.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlglot import exp

from windowpane.sql.binding.inference import infer
from windowpane.sql.scalar import field_path, is_try_cast, read_expression
from windowpane.sql.syntax.dialect import render
from windowpane.sql.syntax.parse import guarded
from windowpane.sql.types import FRACTIONAL, INTEGRAL, TIMES, type_name

DIVISION_BY_ZERO, OVERFLOW, CAST_ERROR, ARRAY_INDEX = "division_by_zero", "overflow", "cast_error", "array_index"
"""Reasons of error rows."""

_TRY = {exp.Add: "try_add", exp.Sub: "try_subtract", exp.Mul: "try_multiply", exp.Div: "try_divide", exp.Mod: "try_mod"}
_DIVIDING = (exp.Div, exp.Mod, exp.IntDiv)
_SMALLEST = {"TINYINT": -(2**7), "SMALLINT": -(2**15), "INT": -(2**31), "BIGINT": -(2**63)}
_CASTS = {"int": "INT", "bigint": "BIGINT", "smallint": "SMALLINT", "tinyint": "TINYINT", "float": "FLOAT",
          "double": "DOUBLE", "date": "DATE", "timestamp": "TIMESTAMP", "boolean": "BOOLEAN"}  # fmt: skip
_TRY_FUNCTIONS = {
    name: f"try_{name}" for name in ("to_timestamp", "to_date", "to_number", "to_binary", "element_at", "parse_json")
}
# Casts between these never fail, whatever the value.
_WIDENING = {(low, high) for i, low in enumerate(INTEGRAL) for high in INTEGRAL[i:]} | {
    (low, high) for low in (*INTEGRAL, *FRACTIONAL) for high in FRACTIONAL
}


def error_guard(expr_text: str, types: Mapping[str, str | None]) -> str | None:
    """Spark SQL that is NULL for a row whose value can be computed, else the reason; None when it always can."""
    return guarded(expr_text, lambda: _Guard(types).check(read_expression(expr_text)))


class _Guard:
    def __init__(self, types: Mapping[str, str | None]) -> None:
        self.types = types

    def kind(self, node: exp.Expr | None) -> str | None:
        if isinstance(node, exp.Column):
            node = field_path(node)
        return infer(node, self.types)

    def check(self, node: exp.Expr | None) -> str | None:
        """The guard of a node: its operands' guards first, then its own."""
        if node is None:
            return None
        lazy = self._lazy(node)
        if lazy is not None:
            return lazy()
        parts = [self.check(child) for child in node.iter_expressions()]
        return _first([*parts, self._own(node)])

    def _lazy(self, node: exp.Expr) -> Callable[[], str | None] | None:
        if isinstance(node, exp.And):
            return lambda: self._unless(node, f"NOT coalesce({self.safe(node.left)}, TRUE)")
        if isinstance(node, exp.Or):
            return lambda: self._unless(node, f"coalesce({self.safe(node.left)}, FALSE)")
        if isinstance(node, exp.Case):
            return lambda: self._case(node)
        if isinstance(node, exp.If):
            return lambda: self._branch(node.this, node.args.get("true"), self.check(node.args.get("false")))
        name = _name(node)
        if name in ("coalesce", "ifnull", "nvl"):
            return lambda: self._coalesce(list(node.expressions))
        if isinstance(node, (exp.Lambda, exp.Interval, exp.DataType)):
            return lambda: None
        return None

    def _unless(self, node: exp.Binary, decided: str) -> str | None:
        """AND and OR: the right side counts unless the left one has decided."""
        right = self.check(node.right)
        after = f"CASE WHEN {decided} THEN NULL ELSE {right} END" if right else None
        return _first([self.check(node.left), after])

    def _case(self, node: exp.Case) -> str | None:
        rest = self.check(node.args.get("default"))
        for each in reversed(node.args["ifs"]):
            condition = each.this if node.this is None else exp.EQ(this=node.this.copy(), expression=each.this.copy())
            rest = self._branch(condition, each.args["true"], rest)
        return rest

    def _branch(self, condition: exp.Expr, then: exp.Expr | None, other: str | None) -> str | None:
        taken = self.check(then)
        after = None
        if taken or other:
            after = f"CASE WHEN {self.safe(condition)} THEN {taken or 'NULL'} ELSE {other or 'NULL'} END"
        return _first([self.check(condition), after])

    def _coalesce(self, args: list[exp.Expr]) -> str | None:
        rest: str | None = None
        for index in range(len(args) - 1, -1, -1):
            after = f"CASE WHEN {self.safe(args[index])} IS NULL THEN {rest} END" if rest else None
            rest = _first([self.check(args[index]), after])
        return rest

    def _own(self, node: exp.Expr) -> str | None:
        """What can go wrong in a node whose operands have values."""
        if isinstance(node, _DIVIDING):
            return _first([self._zero(node.left, node.right), self._division_overflow(node)])
        if isinstance(node, (exp.Add, exp.Sub, exp.Mul)) and not self._never_overflows(node):
            return self._missing([node.left, node.right], self.safe(node), OVERFLOW)
        if isinstance(node, exp.Neg) and not isinstance(node.this, exp.Literal):
            return self._smallest(node.this)
        if isinstance(node, exp.TryCast | exp.Cast) and not is_try_cast(node):
            return self._cast(node.this, type_name(node.args.get("to")), self.safe(node))
        if isinstance(node, exp.Bracket) and not (self.kind(node.this) or "").startswith("MAP<"):
            return self._index(node)
        return self._function(node) if isinstance(node, exp.Anonymous) else None

    def _zero(self, dividend: exp.Expr, divisor: exp.Expr) -> str | None:
        """NULL divided by zero is NULL; a divisor written out is known not to be zero."""
        if isinstance(divisor, exp.Literal) and not divisor.is_string and float(divisor.name) != 0:
            return None
        there = "" if isinstance(dividend, exp.Literal) else f" AND {self.safe(dividend)} IS NOT NULL"
        return f"CASE WHEN {self.safe(divisor)} = 0{there} THEN '{DIVISION_BY_ZERO}' END"

    def _never_overflows(self, node: exp.Binary) -> bool:
        return any(self.kind(side) in (*FRACTIONAL, *TIMES) for side in (node.left, node.right))

    def _division_overflow(self, node: exp.Binary) -> str | None:
        kinds = [self.kind(node.left), self.kind(node.right)]
        if isinstance(node, exp.IntDiv):
            # Only the smallest BIGINT divided by -1 has no result.
            smallest = f"{self.safe(node.left)} = {_whole(_SMALLEST['BIGINT'])} AND {self.safe(node.right)} = -1"
            return f"CASE WHEN {smallest} THEN '{OVERFLOW}' END" if kinds[0] in (None, "BIGINT") else None
        if isinstance(node, exp.Div) and any((kind or "DECIMAL").startswith("DECIMAL") for kind in kinds):
            return self._missing([node.left, node.right], self.safe(node), OVERFLOW)
        return None

    def _smallest(self, node: exp.Expr) -> str | None:
        smallest = _SMALLEST.get(self.kind(node) or "")
        return f"CASE WHEN {self.safe(node)} = {_whole(smallest)} THEN '{OVERFLOW}' END" if smallest else None

    def _cast(self, value: exp.Expr, target: str | None, tried: str) -> str | None:
        kind = self.kind(value)
        if target in (kind, "STRING") or (kind, target) in _WIDENING or isinstance(value, exp.Null):
            return None
        if isinstance(value, exp.Literal) and target in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ"):
            return None
        numeric = kind in (*INTEGRAL, *FRACTIONAL) or (kind or "").startswith("DECIMAL")
        return self._missing([value], tried, OVERFLOW if numeric else CAST_ERROR)

    def _index(self, node: exp.Bracket) -> str | None:
        if len(node.expressions) != 1 or not (self.kind(node.this) or "").startswith("ARRAY<"):
            return None
        array, index = self.safe(node.this), self.safe(node.expressions[0])
        outside = f"({index} < 0 OR {index} >= array_size({array}))"
        return f"CASE WHEN {array} IS NOT NULL AND {outside} THEN '{ARRAY_INDEX}' END"

    def _function(self, node: exp.Anonymous) -> str | None:
        name, args = _name(node), node.expressions
        if name in ("mod", "pmod", "div") and len(args) == 2:
            return self._zero(args[0], args[1])
        if name in ("abs", "negative") and len(args) == 1:
            return self._smallest(args[0])
        if name in _CASTS and len(args) == 1:
            return self._cast(args[0], _CASTS[name], self.safe(node))
        if name == "element_at" and len(args) == 2 and (self.kind(args[0]) or "").startswith("ARRAY<"):
            array, index = self.safe(args[0]), self.safe(args[1])
            outside = f"({index} = 0 OR abs({index}) > array_size({array}))"
            return f"CASE WHEN {array} IS NOT NULL AND {outside} THEN '{ARRAY_INDEX}' END"
        if name in ("to_timestamp", "to_date", "to_number", "to_binary", "parse_json") and args:
            return self._missing(args, self.safe(node), CAST_ERROR)
        return None

    def _missing(self, operands: list[exp.Expr], tried: str, reason: str) -> str:
        """The operands are there but the safe form has no value."""
        there = " AND ".join(
            f"{self.safe(operand)} IS NOT NULL" for operand in operands if not isinstance(operand, exp.Literal)
        )
        return f"CASE WHEN {f'{there} AND ' if there else ''}{tried} IS NULL THEN '{reason}' END"

    def safe(self, node: exp.Expr) -> str:
        """The same value from constructs that give NULL instead of failing."""
        return render(node.copy().transform(self._step, copy=False))

    def _step(self, node: exp.Expr) -> exp.Expr:
        if type(node) in _TRY and isinstance(node, exp.Binary) and self._tried(node):
            return _call(_TRY[type(node)], self._inner(node.left), self._inner(node.right))
        if isinstance(node, exp.IntDiv):
            left, right = self._inner(node.left), self._inner(node.right)
            zero = exp.EQ(this=right.copy(), expression=exp.Literal.number(0))
            smallest = read_expression(f"{render(left)} = {_whole(_SMALLEST['BIGINT'])} AND {render(right)} = -1")
            return exp.Case(ifs=[exp.If(this=exp.Or(this=zero, expression=smallest), true=exp.Null())],
                            default=exp.IntDiv(this=left, expression=right))  # fmt: skip
        if isinstance(node, exp.Neg) and not isinstance(node.this, exp.Literal):
            return _call("try_subtract", exp.Literal.number(0), self._inner(node.this))
        if isinstance(node, exp.TryCast | exp.Cast) and not is_try_cast(node):
            return exp.TryCast(this=self._inner(node.this), to=node.args["to"], safe=True)
        if isinstance(node, exp.Bracket) and (self.kind(node.this) or "").startswith("ARRAY<"):
            return _call("get", self._inner(node.this), self._inner(node.expressions[0]))
        return self._safe_function(node)

    def _tried(self, node: exp.Binary) -> bool:
        """Whether an operator has a form that gives NULL; those of times and of doubles do not fail."""
        return isinstance(node, (exp.Div, exp.Mod)) or not self._never_overflows(node)

    def _safe_function(self, node: exp.Expr) -> exp.Expr:
        name = _name(node)
        if name in _TRY_FUNCTIONS:
            return _call(_TRY_FUNCTIONS[name], *(self._inner(arg) for arg in node.expressions))
        if name in _CASTS and len(node.expressions) == 1:
            to = exp.DataType.from_str(_CASTS[name], dialect="spark")
            return exp.TryCast(this=self._inner(node.expressions[0]), to=to, safe=True)
        if name in ("mod", "pmod") and len(node.expressions) == 2:
            left, right = (self._inner(arg) for arg in node.expressions)
            nonzero = _call("nullif", right, exp.Literal.number(0))
            return _call(name, left, nonzero)
        if name in ("abs", "negative") and self._smallest(node.expressions[0]):
            value = self._inner(node.expressions[0])
            smallest = _SMALLEST[self.kind(node.expressions[0]) or ""]
            return _call(name, _call("nullif", value, read_expression(_whole(smallest))))
        return node

    def _inner(self, node: exp.Expr) -> exp.Expr:
        return node.copy().transform(self._step, copy=False)


def _name(node: exp.Expr) -> str:
    return str(node.name or node.this).lower() if isinstance(node, exp.Anonymous) else ""


def _whole(number: int) -> str:
    """A number as Spark reads it: the smallest BIGINT has no literal of its own."""
    return f"({number + 1} - 1)" if number == _SMALLEST["BIGINT"] else str(number)


def _call(name: str, *args: exp.Expr) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=list(args))


def _first(parts: list[str | None]) -> str | None:
    """The first reason that is not NULL."""
    found = list(dict.fromkeys(part for part in parts if part))
    return found[0] if len(found) <= 1 and found else f"coalesce({', '.join(found)})" if found else None
