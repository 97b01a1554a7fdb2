"""Spark expressions as DuckDB text for the Spark-free harness: the same value, or refused.

An allow-list of syntax and functions. Values that Spark would answer with an error are not covered: such rows are found
by the error guard first.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from windowpane.errors import SqlError
from windowpane.sql.duckdb_casts import cast
from windowpane.sql.duckdb_functions import FUNCTIONS, STRINGS_ONLY, VARIADIC, date_trunc
from windowpane.sql.functions import words
from windowpane.sql.inference import infer
from windowpane.sql.parse import guarded
from windowpane.sql.scalar import field_path, is_try_cast, read_expression
from windowpane.sql.source import SourceText
from windowpane.sql.types import FRACTIONAL, INTEGRAL, type_name

_BINARY = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Mod: "%", exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=",
    exp.GT: ">", exp.GTE: ">=", exp.And: "AND", exp.Or: "OR", exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM", exp.Is: "IS",
}  # fmt: skip
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Mod)
_COMPARED = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)
# Parts of nodes that the translation reads. A node with any other part means something more, and is refused.
_READ = words(
    "this expression expressions low high ifs default true false to safe unit start length",
    "table db catalog quoted is_string negate",
)
_INTERVAL_UNITS = ("SECOND", "SECONDS", "MINUTE", "MINUTES", "HOUR", "HOURS", "DAY", "DAYS")
_SAFE_PATTERN = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.*+?[]()|^- _,:;@/=%&!")


def to_duckdb(expr_text: str, types: Mapping[str, str | None] | None = None) -> str:
    """DuckDB text with the value that Spark gives; SqlError UNSUPPORTED_IN_HARNESS where that is not certain.

    `types` are those of the columns. Without them casts of columns are refused and arithmetic is taken to be of
    integers and doubles.
    """
    return guarded(expr_text, lambda: _Translator(expr_text, types or {}).text(read_expression(expr_text)))


class _Translator:
    def __init__(self, expr_text: str, types: Mapping[str, str | None]) -> None:
        self.source, self.types = SourceText(expr_text, []), types

    def text(self, node: exp.Expr | None) -> str:
        if node is None:
            return "NULL"
        if any(value and name not in _READ for name, value in node.args.items()):
            raise self.refuse(node)
        if type(node) in _BINARY and isinstance(node, exp.Binary):
            return self.binary(node, _BINARY[type(node)])
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is None:
            raise self.refuse(node)
        return str(method(node))

    def refuse(self, node: exp.Expr, why: str = "") -> SqlError:
        shown = node.sql("spark")
        message = f"`{shown}` cannot be evaluated without Spark" + (f": {why}" if why else "")
        hint = "run this test on Spark, or write the expression with functions that the harness knows"
        return SqlError("UNSUPPORTED_IN_HARNESS", message, hint, sql=self.source.sql, span=self.source.span(node))

    def kind(self, node: exp.Expr | None) -> str | None:
        if isinstance(node, exp.Column):
            node = field_path(node)
        return infer(node, self.types)

    def binary(self, node: exp.Binary, operator: str) -> str:
        left, right = self.kind(node.left), self.kind(node.right)
        if isinstance(node, _COMPARED) and "STRING" in (left, right) and not {left, right} <= {"STRING", None}:
            raise self.refuse(node, "text is compared with another type")
        shown = f"({self.text(node.left)} {operator} {self.text(node.right)})"
        if isinstance(node, _ARITHMETIC) and any((kind or "").startswith("DECIMAL") for kind in (left, right)):
            result = self.kind(node)
            if result is None:
                raise self.refuse(node, "the precision of the result is Spark's to tell")
            return f"CAST({shown} AS {result})"
        if isinstance(node, _ARITHMETIC) and "STRING" in (left, right):
            raise self.refuse(node, "arithmetic with text")
        return shown

    def _column(self, node: exp.Column) -> str:
        shown = '"' + node.parts[0].name.replace('"', '""') + '"'
        for part in node.parts[1:]:
            shown = f"struct_extract({shown}, '{_escaped(part.name)}')"
        return shown

    def _dot(self, node: exp.Dot) -> str:
        if not isinstance(node.expression, exp.Identifier):
            raise self.refuse(node)
        return f"struct_extract({self.text(node.this)}, '{_escaped(node.expression.name)}')"

    def _literal(self, node: exp.Literal) -> str:
        if node.is_string:
            return f"'{_escaped(node.name)}'"
        kind = self.kind(node) or ""
        if kind in ("INT", "BIGINT"):
            return f"CAST({node.name} AS {'INTEGER' if kind == 'INT' else 'BIGINT'})"
        return f"CAST('{node.name}' AS DOUBLE)" if kind == "DOUBLE" else f"CAST('{node.name}' AS {kind})"

    def _boolean(self, node: exp.Boolean) -> str:
        return "TRUE" if node.this else "FALSE"

    def _null(self, node: exp.Null) -> str:
        return "NULL"

    def _paren(self, node: exp.Paren) -> str:
        return f"({self.text(node.this)})"

    def _not(self, node: exp.Not) -> str:
        return f"(NOT {self.text(node.this)})"

    def _neg(self, node: exp.Neg) -> str:
        # DuckDB widens the smallest integer instead of failing; of floats only the sign must change (-0.0).
        sign = "-" if self.kind(node.this) in FRACTIONAL else "0 - "
        return f"({sign}{self.text(node.this)})"

    def _div(self, node: exp.Div) -> str:
        if any((self.kind(side) or "").startswith("DECIMAL") for side in (node.left, node.right)):
            raise self.refuse(node, "a decimal is divided")
        return f"(CAST({self.text(node.left)} AS DOUBLE) / CAST({self.text(node.right)} AS DOUBLE))"

    def _intdiv(self, node: exp.IntDiv) -> str:
        if any(self.kind(side) not in (None, *INTEGRAL) for side in (node.left, node.right)):
            raise self.refuse(node, "div of numbers that are not integers")
        return f"CAST({self.text(node.left)} // {self.text(node.right)} AS BIGINT)"

    def _dpipe(self, node: exp.DPipe) -> str:
        if any(self.kind(side) not in (None, "STRING", *INTEGRAL) for side in (node.left, node.right)):
            raise self.refuse(node, "only text is joined alike")
        return f"({self.text(node.left)} || {self.text(node.right)})"

    def _in(self, node: exp.In) -> str:
        if not node.expressions:
            raise self.refuse(node)
        return f"({self.text(node.this)} IN ({', '.join(self.text(value) for value in node.expressions)}))"

    def _between(self, node: exp.Between) -> str:
        low, high = self.text(node.args["low"]), self.text(node.args["high"])
        return f"({self.text(node.this)} BETWEEN {low} AND {high})"

    def _like(self, node: exp.Like) -> str:
        return self.like(node, "LIKE")

    def _ilike(self, node: exp.ILike) -> str:
        return self.like(node, "ILIKE")

    def like(self, node: exp.Binary, word: str) -> str:
        pattern = node.expression
        if not isinstance(pattern, exp.Literal) or pattern.name.endswith("\\"):
            raise self.refuse(node, "the pattern must be written out")
        negated = "NOT " if node.args.get("negate") else ""
        return f"({self.text(node.this)} {negated}{word} {self.text(pattern)} ESCAPE '\\')"

    def _regexplike(self, node: exp.RegexpLike) -> str:
        pattern = node.expression
        plain = isinstance(pattern, exp.Literal) and set(pattern.name) <= _SAFE_PATTERN and "(?" not in pattern.name
        if not plain or node.args.get("negate"):
            raise self.refuse(node, "the pattern may mean something else in Java")
        return f"regexp_matches({self.text(node.this)}, {self.text(pattern)})"

    def _case(self, node: exp.Case) -> str:
        head = f" {self.text(node.this)}" if node.this is not None else ""
        whens = " ".join(
            f"WHEN {self.text(each.this)} THEN {self.text(each.args['true'])}" for each in node.args["ifs"]
        )
        return f"CASE{head} {whens} ELSE {self.text(node.args.get('default'))} END"

    def _if(self, node: exp.If) -> str:
        then, other = self.text(node.args["true"]), self.text(node.args.get("false"))
        return f"CASE WHEN {self.text(node.this)} THEN {then} ELSE {other} END"

    def _cast(self, node: exp.Cast) -> str:
        target = type_name(node.args["to"])
        literal = isinstance(node.this, exp.Literal) and node.this.is_string
        if literal and target in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ"):
            return _time_literal(node.this.name, target) or self._no_cast(node)
        if isinstance(node.this, exp.Null) and target:
            return "NULL"
        shown = cast(self.text(node.this), self.kind(node.this), target or "", safe=is_try_cast(node))
        return shown if shown is not None else self._no_cast(node)

    _trycast = _cast

    def _no_cast(self, node: exp.Expr) -> str:
        raise self.refuse(node, "this cast is not the same in both engines, or the type of its value is not known")

    def _trim(self, node: exp.Trim) -> str:
        if node.args.get("position") or node.args.get("expression"):
            raise self.refuse(node)
        return f"trim({self.text(node.this)}, ' ')"

    def _substring(self, node: exp.Substring) -> str:
        given = (node.this, node.args.get("start"), node.args.get("length"))
        return self.call(node, "substring", [part for part in given if part is not None])

    def _bracket(self, node: exp.Bracket) -> str:
        if not (self.kind(node.this) or "").startswith("ARRAY<") or len(node.expressions) != 1:
            raise self.refuse(node, "only arrays of a known type are indexed")
        return f"list_extract({self.text(node.this)}, {self.text(node.expressions[0])} + 1)"

    def _interval(self, node: exp.Interval) -> str:
        unit = node.args.get("unit")
        if not isinstance(node.this, exp.Literal) or not isinstance(unit, exp.Var) or unit.name not in _INTERVAL_UNITS:
            raise self.refuse(node, "only intervals of seconds to days")
        return f"INTERVAL '{node.this.name}' {unit.name}"

    def _anonymous(self, node: exp.Anonymous) -> str:
        return self.call(node, str(node.name or node.this).lower(), node.expressions)

    def call(self, node: exp.Expr, name: str, args: list[exp.Expr]) -> str:
        if name == "date_trunc" and len(args) == 2:
            shown = date_trunc(args[0], self.text(args[1]))
            return shown if shown is not None else str(self._no_cast(node))
        if name in STRINGS_ONLY and any(self.kind(arg) not in (None, "STRING") for arg in args[: _texts(name, args)]):
            raise self.refuse(node, "only text is treated alike")
        if name in ("abs", "floor", "ceil", "ceiling") and self.kind(args[0] if args else None) not in (
            None, *FRACTIONAL, *INTEGRAL,
        ):  # fmt: skip
            raise self.refuse(node, "decimals keep their precision in Spark")
        if name in ("array_size", "size") and not (self.kind(args[0] if args else None) or "").startswith("ARRAY<"):
            raise self.refuse(node, "only arrays of a known type have a size here")
        shown_args = [self.text(arg) for arg in args]
        template = FUNCTIONS.get(name, {}).get(len(args)) or (VARIADIC.get(name) if args else None)
        if template is None:
            raise self.refuse(node)
        return template.format(*shown_args) if isinstance(template, str) else template(*shown_args)


def _texts(name: str, args: list[exp.Expr]) -> int:
    """How many of the first arguments must be text."""
    return len(args) if name in ("concat", "concat_ws", "replace") else 1


def _time_literal(text: str, target: str) -> str | None:
    """A date or time written out in full; anything shorter is read differently."""
    date, _, time = text.replace("T", " ").partition(" ")
    if [len(part) for part in date.split("-")] != [4, 2, 2] or (target == "DATE" and time):
        return None
    if target == "DATE":
        return f"DATE '{date}'"
    word, zone = ("TIMESTAMPTZ", "+00") if target == "TIMESTAMP" else ("TIMESTAMP", "")
    clock = time or "00:00:00"
    if not clock.replace(":", "").replace(".", "").isdigit() or len(clock.partition(".")[0]) != 8:
        return None
    return f"{word} '{date} {clock}{zone}'"


def _escaped(text: str) -> str:
    return text.replace("'", "''")
