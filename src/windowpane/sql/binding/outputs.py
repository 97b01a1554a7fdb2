"""SELECT, HAVING and ORDER BY: aggregates and group keys pulled out, what is left stands over their internal names."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from windowpane.errors import Span, SqlError
from windowpane.sql.binding.aggregates import CallSyntax, aggregate_name, read_call, result_type
from windowpane.sql.binding.expressions import RowExpressions, check_functions, refuse_modifiers
from windowpane.sql.binding.inference import infer
from windowpane.sql.binding.scope import mark_variables, name_node
from windowpane.sql.query import PSEUDO_COLUMNS, AggregateCall, Expr, GroupKey, QueryKind
from windowpane.sql.syntax.dialect import render
from windowpane.sql.syntax.source import SourceText
from windowpane.sql.syntax.statement import WindowSyntax

_SPARK_WINDOWS = {"window": "window", "session_window": "session_window"}


@dataclass(frozen=True)
class Projection:
    """A column of the result: its name, its resolved tree and, since that is rewritten later, the tree's text."""

    name: str
    node: exp.Expr
    text: str
    span: Span | None


@dataclass
class OutputBinder:
    """Binds what is computed from groups (or, without groups, from rows). Calls are numbered as they come."""

    source: SourceText
    rows: RowExpressions
    window: WindowSyntax | None
    kind: QueryKind = "plain"
    keys: tuple[GroupKey, ...] = ()
    aggregates: list[AggregateCall] = field(default_factory=list)
    carried: dict[str, GroupKey] = field(default_factory=dict)
    outputs: list[tuple[str, exp.Expr]] = field(default_factory=list)
    types: dict[str, str | None] = field(default_factory=dict)

    def use_keys(self, keys: tuple[GroupKey, ...]) -> None:
        self.keys = keys
        self.types.update({key.name: key.expr.type for key in keys})
        self.types.update(PSEUDO_COLUMNS)

    def resolve(self, node: exp.Expr, place: str, aliases: dict[str, Projection] | None = None) -> exp.Expr:
        """Names resolved in place: pseudo-columns and aliases marked, columns by their names in the relation."""
        check_functions(self.source, node)
        mark_variables(node)
        calls = [part for part in node.walk() if aggregate_name(part)]
        in_calls = {id(column) for call in calls for column in call.find_all(exp.Column)}

        def step(part: exp.Expr) -> exp.Expr:
            if not isinstance(part, exp.Column) or part.meta.get("bound"):
                return part
            name = part.parts[0].name.lower()
            in_call = id(part) in in_calls
            if len(part.parts) == 1 and not in_call and not part.meta.get("variable"):
                if aliases and name in aliases:
                    return self._alias(part, aliases[name])
                if name in PSEUDO_COLUMNS:
                    return self._pseudo(part, name, place)
            spark_window = self._spark_window(part)
            if spark_window is not None:
                return spark_window
            return self.rows.column(part, "an aggregate" if in_call else place)

        return node.transform(step, copy=False)

    def _alias(self, part: exp.Column, projection: Projection) -> exp.Expr:
        node = name_node(projection.name, like=part)
        node.meta.update(bound=True, alias=True)
        key = self._key_named(part.name)
        if key is not None and projection.text != key.expr.text:
            hint = f"give the selected expression another name than `{part.name}`"
            message = f"`{part.name}` is a group key and the alias of something else"
            raise self.source.error("AMBIGUOUS_COLUMN", message, hint, at=part)
        return node

    def _key_named(self, name: str) -> GroupKey | None:
        return next((key for key in self.keys if key.expr.text.lower() == name.lower()), None)

    def _pseudo(self, part: exp.Column, name: str, place: str) -> exp.Expr:
        known = self.rows.known(name)
        if self.window is None:
            if known:
                return self.rows.column(part, place)
            hint = "add a window: GROUP BY tumblingwindow('ss', 10)"
            raise self.source.error("PSEUDO_COLUMN_WITHOUT_WINDOW", f"`{name}` needs a window", hint, at=part)
        if known:
            owner = next(source.alias for source in self.rows.scope.sources if name in source.names)
            message = f"`{name}` is both the window's and a column of `{owner}`"
            raise self.source.error("AMBIGUOUS_COLUMN", message, f"the column is {owner}.{name}", at=part)
        if name == "trigger_time" and not self.window.spec.triggered:
            hint = "only sliding windows have triggers; use window_start or window_end"
            raise self.source.error(
                "PSEUDO_COLUMN_WITHOUT_WINDOW", "`trigger_time` needs a sliding window", hint, at=part
            )
        node = name_node(name, like=part)
        node.meta.update(bound=True, pseudo=True)
        return node

    def _spark_window(self, part: exp.Column) -> exp.Expr | None:
        """`window.start` of Spark's spelling is `window_start` here."""
        names = [piece.name.lower() for piece in part.parts]
        if self.window is None or names[0] != self.window.spelling or names[0] not in _SPARK_WINDOWS:
            return None
        if self.rows.known(names[0]):
            return None
        if len(names) == 2 and names[1] in ("start", "end"):
            return self._pseudo(part, f"window_{names[1]}", "SELECT")
        hint = f"select {names[0]}.start and {names[0]}.end, or window_start and window_end"
        raise self.source.error("WINDOW_STRUCT", f"`{self.source.quote(part)}` is not supported", hint, at=part)

    def rewrite(self, node: exp.Expr, aliases: dict[str, int] | None = None) -> exp.Expr:
        """Internal names for keys, aggregates and carried columns, in place; refuses what is neither."""
        texts = {key.expr.text: key for key in self.keys}
        # A field of a struct is a column with a qualifier until it is resolved.
        kinds = {type(parsed) for parsed in self._key_nodes} | {exp.Dot}

        def step(part: exp.Expr) -> exp.Expr:
            if aggregate_name(part):
                return self._call(part)
            if type(part) in kinds and (key := texts.get(render(part))) is not None and not part.meta.get("pseudo"):
                return name_node(key.name, like=part)
            if isinstance(part, exp.Column) and part.meta.get("bound"):
                return self._leaf(part, aliases)
            return part

        rewritten = node.transform(step, copy=False)
        refuse_modifiers(self.source, rewritten)
        return rewritten

    _key_nodes: tuple[exp.Expr, ...] = ()

    def _leaf(self, part: exp.Expr, aliases: dict[str, int] | None) -> exp.Expr:
        if part.meta.get("alias"):
            inner = self.outputs[(aliases or {})[part.name.lower()]][1].copy()
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
        args = tuple(self.rows.finish(arg, span=self.source.span(arg)) for arg in call.args)
        filter_ = self._filter(call)
        kind = result_type(self.source, call, [arg.type for arg in args], span)
        name = f"_a{len(self.aggregates)}"
        self.aggregates.append(AggregateCall(name, call.function.name, args, call.params, call.distinct, filter_, kind))
        self.types[name] = kind
        return name_node(name, like=node)

    def _refuse_nested(self, arg: exp.Expr) -> None:
        for part in arg.walk():
            if aggregate_name(part):
                hint = "an aggregate works on rows; aggregate once, or use a second query"
                raise self.source.error("NESTED_AGGREGATE", "an aggregate inside an aggregate", hint, at=part)
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
