"""SELECT, HAVING and ORDER BY: aggregates and group keys pulled out, what is left stands over their internal names."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from sqlglot import exp

from windowpane.errors import Span, SqlError
from windowpane.sql.binding.aggregates import CallSyntax, aggregate_name, read_call, result_type
from windowpane.sql.binding.expressions import RowExpressions, refuse_modifiers, refuse_over
from windowpane.sql.binding.inference import infer
from windowpane.sql.binding.over import OverBinder
from windowpane.sql.binding.scope import name_node
from windowpane.sql.query import PSEUDO_COLUMNS, AggregateCall, Expr, GroupKey, QueryKind
from windowpane.sql.syntax.dialect import render
from windowpane.sql.syntax.source import SourceText


@dataclass(frozen=True)
class OutputBinder:
    """Binds what is computed from groups (or, without groups, from rows). Calls are numbered as they come."""

    source: SourceText
    rows: RowExpressions
    kind: QueryKind
    keys: tuple[GroupKey, ...]
    key_nodes: tuple[exp.Expr, ...]
    """The syntax of the keys."""
    aggregates: list[AggregateCall] = field(default_factory=list)
    carried: dict[str, GroupKey] = field(default_factory=dict)
    first_over: int = 0
    """The number of the first window function."""
    outputs: list[tuple[str, exp.Expr]] = field(default_factory=list)
    aliases: dict[str, int] = field(default_factory=dict)
    """The numbers of outputs that a clause names, by lower-case name."""

    @cached_property
    def types(self) -> dict[str, str | None]:
        """Types by internal name. Grows with the aggregates and carried columns."""
        return {key.name: key.expr.type for key in self.keys} | PSEUDO_COLUMNS

    @cached_property
    def over(self) -> OverBinder:
        """The window functions."""
        return OverBinder(self.source, self._bound, self.types, self.first_over)

    def _bound(self, node: exp.Expr) -> Expr:
        """A part of a window function."""
        span = self.source.span(node)
        aliases = {name.lower(): number for number, (name, _) in enumerate(self.outputs)}
        return self.finish(self.rewrite(node.copy(), aliases), span)

    def rewrite(self, node: exp.Expr, aliases: dict[str, int] | None = None) -> exp.Expr:
        """Internal names for keys, aggregates and carried columns, in place; refuses what is neither."""
        self.aliases.update(aliases or {})
        texts = {key.expr.text: key for key in self.keys}
        # A field of a struct is a column with a qualifier until it is resolved; a merged subquery's column is anything.
        kinds = {type(parsed) for parsed in self.key_nodes} | {exp.Dot}
        merged = any(side.trees is not None for side in self.rows.scope.sources)

        def step(part: exp.Expr) -> exp.Expr:
            if isinstance(part, exp.Window):
                return self.over.bind(part)
            if aggregate_name(part):
                return self._call(part)
            if (
                (merged or type(part) in kinds)
                and (key := texts.get(render(part))) is not None
                and not part.meta.get("pseudo")
            ):
                return name_node(key.name, like=part)
            if isinstance(part, exp.Column) and part.meta.get("bound"):
                return self._leaf(part)
            return part

        rewritten = node.transform(step, copy=False)
        refuse_modifiers(self.source, rewritten)
        return rewritten

    def _leaf(self, part: exp.Expr) -> exp.Expr:
        if part.meta.get("alias"):
            inner = self.outputs[self.aliases[part.name.lower()]][1].copy()
            return inner if isinstance(inner, (exp.Column, exp.Literal, exp.Anonymous)) else exp.Paren(this=inner)
        if part.meta.get("pseudo"):
            return part
        if self.kind != "aggregate":
            return name_node(self._carry(part).name, like=part)
        raise self._not_grouped(part)

    def _carry(self, part: exp.Expr) -> GroupKey:
        known = self.carried.get(part.name)
        if known is None:
            expr = Expr(render(part), infer(part, self.rows.types), (part.name,))
            known = GroupKey(f"_c{len(self.carried)}", part.name, expr)
            self.carried[part.name] = known
            self.types[known.name] = expr.type
        return known

    def _not_grouped(self, part: exp.Expr) -> SqlError:
        name = self.source.quote(part) or part.name
        message = f"`{name}` is neither grouped nor aggregated"
        hint = f"add `{name}` to GROUP BY, or take one value of it: any_value({name})"
        return self.source.error("NOT_GROUPED", message, hint, at=part)

    def _call(self, node: exp.Expr) -> exp.Expr:
        span = self.source.span(node)
        call = read_call(self.source, node)
        for arg in call.args + ((call.filter,) if call.filter is not None else ()):
            self._refuse_nested(arg)
        args = tuple(self._argument(call, arg) for arg in call.args)
        filter_ = self._filter(call)
        kind = result_type(self.source, call, [arg.type for arg in args], span)
        name = f"_a{len(self.aggregates)}"
        self.aggregates.append(
            AggregateCall(
                name,
                function=call.function.name,
                args=args,
                params=call.params,
                distinct=call.distinct,
                filter=filter_,
                type=kind,
            )
        )
        self.types[name] = kind
        return name_node(name, like=node)

    def _argument(self, call: CallSyntax, node: exp.Expr) -> Expr:
        """An argument; listagg takes numbers, booleans and times as strings."""
        span = self.source.span(node)
        bound = self.rows.finish(node, span=span)
        if call.function.name != "listagg" or node is not call.args[0] or not _written_as_text(bound.type):
            return bound
        return self.rows.finish(exp.Cast(this=node.copy(), to=exp.DataType.build("STRING")), span=span)

    def _refuse_nested(self, arg: exp.Expr) -> None:
        for part in arg.walk():
            if aggregate_name(part):
                hint = "an aggregate works on rows; aggregate once, or use a second query"
                raise self.source.error("NESTED_AGGREGATE", "an aggregate inside an aggregate", hint, at=part)
        refuse_over(self.source, arg, "an aggregate")
        refuse_modifiers(self.source, arg)

    def _filter(self, call: CallSyntax) -> Expr | None:
        if call.filter is None:
            return None
        bound = self.rows.finish(call.filter, span=self.source.span(call.filter))
        if bound.type not in (None, "BOOLEAN"):
            message = f"FILTER needs a condition, `{bound.text}` is of type {bound.type}"
            raise self.source.error("NOT_BOOLEAN", message, "compare it with something", at=bound.span)
        return bound

    def finish(self, node: exp.Expr, span: Span | None) -> Expr:
        """An Expr over internal names."""
        names = dict.fromkeys(column.name for column in node.find_all(exp.Column) if column.name in self.types)
        return Expr(render(node), infer(node, self.types), tuple(names), span)


def _written_as_text(kind: str | None) -> bool:
    return kind is not None and kind not in ("STRING", "BINARY", "VARIANT") and not kind.endswith(">")
