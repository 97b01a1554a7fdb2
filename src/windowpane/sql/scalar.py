"""Work on the text of a bound expression: reading it back, renaming its columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp
from sqlglot.errors import SqlglotError

from windowpane.errors import InternalError
from windowpane.sql.binding.scope import ATOMS, mark_variables, name_node
from windowpane.sql.query import Expr
from windowpane.sql.syntax.dialect import parse_expression, render, tokenize


def read_expression(text: str) -> exp.Expr:
    """The syntax tree of an expression in canonical text."""
    node = parse_expression(tokenize(text), text)
    if node is None:
        raise InternalError("BAD_EXPRESSION", f"`{text}` is not an expression")
    return node


def replace_calls(text: str, written: Mapping[str, Callable[[list[str]], str]]) -> str:
    """The expression with other texts for calls of the functions in `written`, made from the texts of the arguments.

    >>> replace_calls("f(g(a), 1) + 1", {"f": lambda given: f"h({', '.join(given)}).v"})
    'h(g(a), 1).v + 1'
    """
    tree = exp.Paren(this=read_expression(text))
    calls = [node for node in tree.walk() if isinstance(node, exp.Anonymous) and _call_name(node) in written]
    for node in reversed(calls):
        node.replace(read_expression(written[_call_name(node)]([render(given) for given in node.expressions])))
    return render(tree.this)


def _call_name(node: exp.Anonymous) -> str:
    return str(node.name or node.this).lower()


def expression_problem(text: str) -> str | None:
    """Why a user's text is not an expression; None if it is one."""
    try:
        read_expression(text)
    except (SqlglotError, InternalError, RecursionError) as fault:
        return str(fault).partition("\n")[0] or "it is nested too deeply"
    return None


@dataclass(frozen=True)
class Conjunct:
    """A condition of those that AND joins. `left = right` where it compares one side's columns with the other's."""

    text: str
    left: str | None = None
    right: str | None = None
    columns: tuple[str, ...] = ()
    """Columns of the table that it mentions."""
    of_table: bool = False
    """It mentions no others."""


def conjuncts(text: str, table: str) -> list[Conjunct]:
    """The parts of a join's condition; `left` is over the stream's columns and `right` over those of `table`.

    >>> conjuncts("t.id = s.a + 1 AND s.b > t.b", "t")[0]
    Conjunct(text='t.id = s.a + 1', left='s.a + 1', right='t.id', columns=('id',), of_table=False)
    """
    tree = read_expression(text)
    parts = tree.flatten() if isinstance(tree, exp.And) else [tree]
    return [_conjunct(part.unnest(), table) for part in parts]


def _conjunct(node: exp.Expr, table: str) -> Conjunct:
    found = list(node.find_all(exp.Column))
    columns = dict.fromkeys(column.parts[1].name for column in found if column.parts[0].name == table)
    of_table = {column.parts[0].name == table for column in found} == {True}
    bare = Conjunct(render(node), columns=tuple(columns), of_table=of_table)
    if not isinstance(node, exp.EQ):
        return bare
    sides = [{column.table == table for column in side.find_all(exp.Column)} for side in (node.left, node.right)]
    if sides == [{False}, {True}]:
        return replace(bare, left=render(node.left), right=render(node.right))
    return replace(bare, left=render(node.right), right=render(node.left)) if sides == [{True}, {False}] else bare


def column_name(node: exp.Expr) -> str | None:
    """The column that a reference starts with (`a` in `a.b`); None for a lambda's variable and anything else."""
    if not isinstance(node, exp.Column) or node.meta.get("variable"):
        return None
    return str(node.parts[0].name)


def is_try_cast(node: exp.Expr) -> bool:
    """Spark's CAST raises; sqlglot keeps both as TryCast and marks TRY_CAST as safe."""
    return isinstance(node, exp.TryCast) and bool(node.args.get("safe"))


def field_path(node: exp.Column) -> exp.Expr:
    """`a.b.c` of a bound expression is a column and its fields, never a qualified name."""
    shown: exp.Expr = exp.Column(this=exp.Identifier(this=node.parts[0].name))
    for part in node.parts[1:]:
        shown = exp.Dot(this=shown, expression=exp.Identifier(this=part.name))
    return shown


def substitute_columns(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    """The same expression with other expressions in the place of columns.

    >>> substitute_columns(Expr("a * 2", None, ("a",)), {"a": Expr("b + c", None, ("b", "c"))})
    Expr(text='(b + c) * 2', type=None, columns=('b', 'c'), span=None)
    """

    def step(node: exp.Expr) -> exp.Expr:
        name = column_name(node)
        if name is None or name not in values:
            return node
        value = read_expression(values[name].text)
        if isinstance(node.parent, exp.Expr) and not isinstance(value, ATOMS):
            value = exp.Paren(this=value)
        for part in node.parts[1:] if isinstance(node, exp.Column) else []:
            value = exp.Dot(this=value, expression=exp.Identifier(this=part.name, quoted=True))
        return value

    tree = read_expression(expr.text)
    mark_variables(tree)
    text = render(tree.transform(step, copy=False))
    columns = [inner for name in expr.columns for inner in (values[name].columns if name in values else (name,))]
    return replace(expr, text=text, columns=tuple(dict.fromkeys(columns)))


def split_conjunction(condition: Expr) -> list[Expr]:
    """The conditions that AND joins.

    >>> [each.text for each in split_conjunction(Expr("a > 1 AND (b OR c)", "BOOLEAN", ("a", "b", "c")))]
    ['a > 1', 'b OR c']
    """
    tree = read_expression(condition.text).unnest()
    if not isinstance(tree, exp.And):
        return [condition]
    mark_variables(tree)
    found = []
    for part in tree.flatten():
        names = {column_name(node) for node in part.walk()}
        columns = tuple(name for name in condition.columns if name in names)
        found += split_conjunction(Expr(render(part.unnest()), "BOOLEAN", columns, condition.span))
    return found


def all_of(conditions: Sequence[Expr]) -> Expr | None:
    """The condition that holds where all of them do; None for no condition.

    >>> all_of([Expr("a > 1", "BOOLEAN", ("a",)), Expr("b OR c", "BOOLEAN", ("b", "c"))]).text
    'a > 1 AND (b OR c)'
    """
    if len(conditions) < 2:
        return conditions[0] if conditions else None
    trees = [(read_expression(each.text), each.text) for each in conditions]
    text = " AND ".join(f"({text})" if isinstance(tree, (exp.Or, exp.Xor)) else text for tree, text in trees)
    columns = dict.fromkeys(name for each in conditions for name in each.columns)
    return Expr(text, "BOOLEAN", tuple(columns), conditions[-1].span)


def rename_columns(expr: Expr, names: Mapping[str, str]) -> Expr:
    """The same expression over other column names.

    >>> rename_columns(Expr("_a1 + _a0", None, ("_a1", "_a0")), {"_a1": "_a0"})
    Expr(text='_a0 + _a0', type=None, columns=('_a0',), span=None)
    """
    if not any(name in names for name in expr.columns):
        return expr

    def step(node: exp.Expr) -> exp.Expr:
        name = column_name(node)
        if name is None or name not in names:
            return node
        renamed: exp.Expr = name_node(names[name])
        for part in node.parts[1:] if isinstance(node, exp.Column) else []:
            renamed = exp.Dot(this=renamed, expression=exp.Identifier(this=part.name, quoted=True))
        return renamed

    tree = read_expression(expr.text)
    mark_variables(tree)
    text = render(tree.transform(step, copy=False))
    return replace(expr, text=text, columns=tuple(dict.fromkeys(names.get(name, name) for name in expr.columns)))
