"""What makes several rows of one, as written: LATERAL VIEW, UNNEST and LATERAL in FROM, explode and such in SELECT."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from windowpane.sql.functions import GENERATORS
from windowpane.sql.syntax.source import SourceText

UNNEST = "unnest"
IN_FROM = "put it into FROM: FROM s LATERAL VIEW explode(xs) t AS x"


@dataclass(frozen=True)
class GeneratorSyntax:
    """A generator as written: `function` without `_outer`, `names` of its columns as far as they are given."""

    node: exp.Expr
    function: str
    arguments: tuple[exp.Expr, ...]
    outer: bool = False
    alias: str = ""
    names: tuple[str, ...] = ()
    numbered: bool = False
    """UNNEST … WITH ORDINALITY: the last column numbers elements from 1."""


def is_generator(node: exp.Expr) -> bool:
    """Whether an item of SELECT, with or without names, returns several rows."""
    call = _call_of(node)
    return isinstance(call, exp.Anonymous) and str(call.this).lower() in GENERATORS


def read_view(source: SourceText, lateral: exp.Expr) -> GeneratorSyntax:
    """LATERAL VIEW [OUTER] f(x) t AS a, b."""
    names, alias = _names(lateral)
    return _called(source, lateral.this, lateral, outer=bool(lateral.args.get("outer")), names=names, alias=alias)


def read_join(source: SourceText, join: exp.Join) -> GeneratorSyntax:
    """A join with UNNEST(x) or LATERAL f(x): [CROSS] JOIN, LEFT JOIN … ON TRUE, or a comma."""
    lateral = join.this
    outer = _is_outer(source, join) or bool(lateral.args.get("outer"))
    names, alias = _names(lateral)
    if isinstance(lateral, exp.Lateral):
        call = lateral.this
        if str(call.this).lower() == "table" and len(call.expressions) == 1:  # Flink's LATERAL TABLE(f(x))
            call = call.expressions[0]
        return _called(source, call, lateral, outer=outer, names=names, alias=alias)
    numbering = lateral.args.get("offset")
    if numbering is True:
        raise source.error("SYNTAX", "WITH ORDINALITY needs names", "write AS t(x, n)", at=lateral)
    names += (numbering.name,) if numbering else ()
    return GeneratorSyntax(
        lateral, UNNEST, tuple(lateral.expressions), outer=outer, alias=alias, names=names, numbered=bool(numbering)
    )


def read_selected(source: SourceText, items: Sequence[exp.Expr]) -> GeneratorSyntax | None:
    """The generator among the items of SELECT."""
    found = [item for item in items if is_generator(item)]
    if len(found) > 1:
        message = "SELECT can have one function that returns several rows"
        raise source.error("UNSUPPORTED_GENERATOR", message, IN_FROM, at=found[1])
    if not found:
        return None
    names = _given_names(found[0])
    return _called(source, _call_of(found[0]), found[0], outer=False, names=names, alias="")


def refuse_selected_generator(source: SourceText, items: Sequence[exp.Expr]) -> None:
    """Refuse a generator among the items of a SELECT with groups."""
    found = [item for item in items if is_generator(item)]
    if found:
        message = "a function that returns several rows is not allowed in SELECT with groups or aggregates"
        raise source.error("UNSUPPORTED_GENERATOR", message, IN_FROM, at=found[0])


def _call_of(item: exp.Expr) -> exp.Expr:
    call: exp.Expr = item.this if isinstance(item, (exp.Alias, exp.Aliases)) else item
    return call


def _given_names(item: exp.Expr) -> tuple[str, ...]:
    if isinstance(item, exp.Aliases):
        return tuple(name.name for name in item.expressions)
    return (item.alias,) if isinstance(item, exp.Alias) else ()


def _names(lateral: exp.Expr) -> tuple[tuple[str, ...], str]:
    alias = lateral.args.get("alias")
    if alias is None:
        return (), ""
    return tuple(column.name for column in alias.args.get("columns") or ()), alias.name


def _called(
    source: SourceText, call: exp.Expr, node: exp.Expr, *, outer: bool, names: tuple[str, ...], alias: str
) -> GeneratorSyntax:
    name = str(call.this).lower() if isinstance(call, exp.Anonymous) else ""
    function, arguments = name.removesuffix("_outer"), tuple(call.expressions)
    if function == "stack":
        function, arguments = "inline", (_stacked(source, call),)
    if function not in ("explode", "posexplode", "inline"):
        known = ", ".join(sorted(GENERATORS - {"json_tuple"}))
        hint = f"functions that return several rows are: {known}"
        if name == "json_tuple":
            hint = "use get_json_object(text, '$.field') for each field"
        raise source.error(
            "UNSUPPORTED_GENERATOR", f"`{name or source.quote(node)}` is not supported here", hint, at=node
        )
    return GeneratorSyntax(node, function, arguments, outer=outer or name.endswith("_outer"), names=names, alias=alias)


def _stacked(source: SourceText, call: exp.Expr) -> exp.Expr:
    """stack(2, a, b, c, d) as an array of the structs (a, b) and (c, d)."""
    number, values = call.expressions[0] if call.expressions else None, call.expressions[1:]
    count = int(number.name) if isinstance(number, exp.Literal) and number.name.isdigit() else 0
    if not count or not values:
        hint = "write stack(2, a, b, c, d) AS (x, y)"
        raise source.error("GENERATOR_ARGUMENT", "stack takes a number of rows, and values", hint, at=call)
    width = -(-len(values) // count)
    cells = [*values, *(exp.Null() for _ in range(count * width - len(values)))]
    labels = [exp.Literal.string(f"col{at % width}") for at in range(len(cells))]
    pairs = [part for pair in zip(labels, cells, strict=True) for part in pair]
    rows = [pairs[start : start + 2 * width] for start in range(0, len(pairs), 2 * width)]
    structs = [exp.Anonymous(this="named_struct", expressions=row) for row in rows]
    return exp.Anonymous(this="array", expressions=structs)


def _is_outer(source: SourceText, join: exp.Join) -> bool:
    side, kind, on = (join.args.get(part) for part in ("side", "kind", "on"))
    if side in ("RIGHT", "FULL") or kind in ("SEMI", "ANTI") or join.args.get("using"):
        hint = "write CROSS JOIN UNNEST(…), or LEFT JOIN UNNEST(…) ON TRUE"
        raise source.error("UNSUPPORTED_JOIN", "UNNEST and LATERAL take CROSS JOIN and LEFT JOIN only", hint, at=join)
    if on is not None and not (isinstance(on, exp.Boolean) and on.this):
        hint = "write ON TRUE, and put the condition into WHERE"
        raise source.error("UNSUPPORTED_JOIN", "the elements of a row are joined with their row only", hint, at=on)
    return side == "LEFT"
