"""Window functions (`rank() OVER (…)`) over the results of a window: checked, and replaced by the name of a column.

They see the rows of one window: hosts add the window to every PARTITION BY.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from sqlglot import exp

from windowpane.errors import Span, SqlError, nearest
from windowpane.sql.binding.aggregates import over_call, read_call, result_type
from windowpane.sql.binding.frames import read_frame
from windowpane.sql.query import Expr, OrderKey
from windowpane.sql.result_steps import OverCall, without_window
from windowpane.sql.scalar import read_expression
from windowpane.sql.syntax.source import SourceText
from windowpane.sql.types import INTEGRAL, decimal_parts

RANKS = {"row_number": "INT", "rank": "INT", "dense_rank": "INT", "percent_rank": "DOUBLE", "cume_dist": "DOUBLE"}
"""Functions without arguments, and their types."""
SHIFTS = ("lag", "lead")
VALUES = {
    "first_value": "first_value", "first": "first_value", "any_value": "first_value", "last_value": "last_value",
    "last": "last_value", "nth_value": "nth_value",
}  # fmt: skip
AGGREGATES = ("count", "count_if", "sum", "avg", "min", "max", "bool_and", "bool_or")
FUNCTIONS = (*RANKS, "ntile", *SHIFTS, *VALUES, *AGGREGATES)
_EXACT = 28
"""Digits of a DECIMAL whose sums always fit: Spark adds ten."""


@dataclass(frozen=True)
class OverBinder:
    """Binds window functions over expressions that `bound` turns into Exprs over internal names."""

    source: SourceText
    bound: Callable[[exp.Expr], Expr]
    types: dict[str, str | None]
    """Types by internal name. Grows with the calls."""
    first: int = 0
    """The number of the first call: a query over a query goes on counting."""
    calls: list[OverCall] = field(default_factory=list)

    def bind(self, node: exp.Window) -> exp.Expr:
        """What stands for the function in an expression: the column of its values."""
        for part in node.walk():
            if isinstance(part, exp.Window) and part is not node:
                hint = "use a subquery: SELECT … FROM (SELECT …, rank() OVER (…) AS r …)"
                raise self.source.error("NESTED_OVER", "a window function inside another", hint, at=part)
        call = self._call(node, over_call(node))
        own = {each.name for each in self.calls}
        if any(own.intersection(expr.columns) for expr in call.exprs()):
            hint = "use a subquery: SELECT … FROM (SELECT …, rank() OVER (…) AS r …)"
            raise self.source.error("NESTED_OVER", "a window function inside another", hint, at=node)
        known = next((each for each in self.calls if replace(each, name="") == call), None)
        if known is None:
            known = replace(call, name=f"_w{self.first + len(self.calls)}")
            self.calls.append(known)
            self.types[known.name] = known.type
        wide = known.function == "sum" and known.args[0].type == "DECIMAL(38,0)"
        return read_expression(f"CAST({known.name} AS BIGINT)" if wide else known.name)

    def _call(self, node: exp.Window, call: exp.Anonymous) -> OverCall:
        name = str(call.this).lower()
        order = tuple(
            OrderKey(self.bound(item.this), bool(item.args.get("desc")), bool(item.args.get("nulls_first")))
            for item in (node.args["order"].expressions if node.args.get("order") is not None else ())
        )
        partition = tuple(self.bound(item) for item in node.args.get("partition_by") or ())
        found = OverCall(
            "", "", args=(), params=(), skips_nulls=False,
            partition=without_window(partition),
            order=order, frame=read_frame(self.source, node, ordered=bool(order)), type=None,
            span=self.source.span(node),
        )  # fmt: skip
        if name in RANKS or name == "ntile" or name in SHIFTS:
            return self._of_position(found, node, call, name)
        return self._of_frame(found, node, call, name)

    def _of_position(self, found: OverCall, node: exp.Window, call: exp.Anonymous, name: str) -> OverCall:
        if not found.order:
            raise self._error(
                "OVER_ORDER", f"{name} needs ORDER BY in OVER", f"write {name}(…) OVER (ORDER BY …)", node
            )
        if node.args.get("spec") is not None:
            raise self._error("OVER_FRAME", f"{name} takes no frame", "leave ROWS or RANGE out", node)
        if not isinstance(node.this, (exp.Anonymous, exp.IgnoreNulls, exp.RespectNulls)):
            raise self._error("OVER_FUNCTION", f"{name} takes no FILTER", "leave it out", node)
        args, skips = self._arguments(node, call)
        if name in RANKS:
            self._check_count(call, name, args, 0, 0)
            return replace(found, function=name, type=RANKS[name])
        if name == "ntile":
            self._check_count(call, name, args, 1, 1)
            return replace(found, function=name, params=(self._number(args[0], name, 1),), type="INT")
        self._check_count(call, name, args, 1, 3)
        offset = self._number(args[1], name, 0) if len(args) > 1 else 1
        values = tuple(self.bound(arg) for arg in (args[0], *args[2:]))
        if len(values) > 1 and values[0].type != values[1].type:
            values = (values[0], _cast(values[1], values[0].type))
        return replace(
            found, function=name, args=values, params=(offset,), skips_nulls=skips, type=values[0].type
        )  # fmt: skip

    def _of_frame(self, found: OverCall, node: exp.Window, call: exp.Anonymous, name: str) -> OverCall:
        if name == "nth_value":
            args, skips = self._arguments(node, call)
            self._check_count(call, name, args, 2, 2)
            if not found.frame.rows and found.frame.start is not None:
                hint = "write ROWS BETWEEN …"
                raise self._error("OVER_FRAME", "nth_value needs a frame that starts with the first row", hint, node)
            if not found.frame.rows and skips:
                raise self._error("OVER_FRAME", "nth_value … IGNORE NULLS needs ROWS", "write ROWS BETWEEN …", node)
            value = self.bound(args[0])
            number = self._number(args[1], name, 1)
            return replace(found, function=name, args=(value,), params=(number,), skips_nulls=skips, type=value.type)
        if name not in FUNCTIONS and name not in ("mean", "every", "some", "any"):
            hint = f"window functions are: {nearest(name, FUNCTIONS)}"
            raise self._error("OVER_FUNCTION", f"`{name}` is not supported with OVER", hint, node)
        read = read_call(self.source, node.this)
        if read.distinct:
            raise self._error("OVER_FUNCTION", "DISTINCT is not supported with OVER", "leave it out", node)
        given = tuple(self.bound(arg) for arg in read.args)
        kind = result_type(self.source, read, [arg.type for arg in given], self.source.span(node))
        if name in VALUES:
            if read.filter is not None:
                raise self._error("OVER_FUNCTION", f"{name} takes no FILTER with OVER", "leave it out", node)
            return replace(found, function=VALUES[name], args=given, skips_nulls=read.params == (True,), type=kind)
        filter_ = self.bound(read.filter) if read.filter is not None else None
        found = replace(found, function=read.function.name, args=given, type=kind)
        return _filtered(self._exact(found, node), filter_)

    def _exact(self, found: OverCall, node: exp.Window) -> OverCall:
        """Sums of integers in a type that they fit, averages of numbers that are DOUBLE."""
        if found.function == "avg" and not (found.type or "").startswith("DECIMAL"):
            return replace(found, args=(_cast(found.args[0], "DOUBLE"),), type="DOUBLE")
        if found.function != "sum":
            return found
        given = found.args[0].type
        if given in INTEGRAL:
            return replace(found, args=(_cast(found.args[0], "DECIMAL(38,0)"),), type="DECIMAL(38,0)")
        if given in ("FLOAT", "DOUBLE"):
            return replace(found, args=(_cast(found.args[0], "DOUBLE"),), type="DOUBLE")
        if given is None:
            hint = "declare a schema, or CAST it"
            raise self._error("NEEDS_SCHEMA", f"the type of `{self.source.quote(node.this)}` is unknown", hint, node)
        parts = decimal_parts(given)
        if parts is not None and parts[0] > _EXACT:
            hint = f"CAST it to DECIMAL({_EXACT}, …)"
            raise self._error("OVER_FUNCTION", f"sums of {given} may not fit their type", hint, node)
        return found

    def _arguments(self, node: exp.Window, call: exp.Anonymous) -> tuple[list[exp.Expr], bool]:
        """The arguments, and whether NULLs are skipped."""
        args, skips = list(call.expressions), isinstance(node.this, exp.IgnoreNulls)
        if args and isinstance(args[0], (exp.IgnoreNulls, exp.RespectNulls)):
            skips = isinstance(args[0], exp.IgnoreNulls)
            args[0] = args[0].this
        return args, skips

    def _check_count(self, call: exp.Expr, name: str, args: list[exp.Expr], low: int, high: int) -> None:
        if not low <= len(args) <= high:
            wanted = str(low) if low == high else f"{low} to {high}"
            raise self._error(
                "AGGREGATE_ARITY",
                f"{name} takes {wanted} arguments, not {len(args)}",
                "see the reference of window functions",
                call,
            )

    def _number(self, node: exp.Expr, name: str, least: int) -> int:
        negative = isinstance(node, exp.Neg)
        literal = node.this if negative else node
        if isinstance(literal, exp.Literal) and not literal.is_string and literal.name.isdigit():
            number = -int(literal.name) if negative else int(literal.name)
            if number >= least:
                return number
        message = f"{name} needs a whole number, {least} or more, not `{self.source.quote(node)}`"
        raise self._error("OVER_NUMBER", message, f"write {name}({'' if name == 'ntile' else '…, '}2)", node)

    def _error(self, code: str, message: str, hint: str, at: exp.Expr | Span) -> SqlError:
        return self.source.error(code, message, hint, at=at)


def _filtered(call: OverCall, filter_: Expr | None) -> OverCall:
    """FILTER as part of the arguments: aggregates skip NULL."""
    if filter_ is None:
        return call
    values = call.args or (Expr("1", "INT"),)
    columns = [tuple(dict.fromkeys((*filter_.columns, *value.columns))) for value in values]
    texts = [f"CASE WHEN {filter_.text} THEN {value.text} END" for value in values]
    args = tuple(
        Expr(text, value.type, names, value.span) for text, value, names in zip(texts, values, columns, strict=True)
    )
    return replace(call, args=args)


def _cast(expr: Expr, kind: str | None) -> Expr:
    return expr if kind in (None, expr.type) else replace(expr, text=f"CAST({expr.text} AS {kind})", type=kind)
