"""Binds what makes several rows of one: the argument, and the columns that its elements become."""

from __future__ import annotations

from dataclasses import dataclass, replace

from windowpane.sql.binding.expressions import RowExpressions
from windowpane.sql.binding.scope import Source
from windowpane.sql.query import Column, Expr, Generator
from windowpane.sql.scalar import all_of
from windowpane.sql.syntax.generators import UNNEST, GeneratorSyntax
from windowpane.sql.syntax.source import SourceText
from windowpane.sql.types import field_types, parts_of, quoted

Columns = list[tuple[str, str]]
"""Names and types; the type is empty where only Spark knows it."""


@dataclass(frozen=True)
class GeneratorBinder:
    """Binds generators over the sources that stand before them."""

    source: SourceText
    rows: RowExpressions
    where: tuple[Expr, ...] = ()
    """Conditions of merged subqueries, which hold before the elements are looked at."""

    def bind(self, syntax: GeneratorSyntax, taken: set[str] | None) -> tuple[Generator, Source]:
        """The generator, and its columns as a source. `taken`: names of columns before it in lower case, if known."""
        argument = self._argument(syntax)
        fields = syntax.function == "inline" or (
            syntax.function == UNNEST and self._gives_fields(syntax, argument.type)
        )
        own = self._columns(syntax, argument, fields=fields)
        names = [_free(name, syntax.alias, taken) for name, _ in own]
        columns = tuple(Column(name, kind) for name, (_, kind) in zip(names, own, strict=True))
        position = (names[0], 0) if syntax.function == "posexplode" else (names[-1], 1) if syntax.numbered else None
        generator = Generator(argument, columns, "", fields=fields, position=position, outer=syntax.outer)
        lowered = [name.lower() for name, _ in own]
        spelled = {low: name for low, (name, _) in zip(lowered, own, strict=True)}
        side = Source(syntax.alias, dict(zip(lowered, columns, strict=True)), made=True, spelled=spelled)
        return replace(generator, text=_text(generator)), side

    def _argument(self, syntax: GeneratorSyntax) -> Expr:
        function = syntax.function
        if len(syntax.arguments) != 1:
            message = f"{function} takes one array or map, not {len(syntax.arguments)} arguments"
            hint = "combine several arrays: inline(arrays_zip(a, b))"
            raise self.source.error("GENERATOR_ARGUMENT", message, hint, at=syntax.node)
        bound = self.rows.bind(syntax.arguments[0].copy(), function)
        needed = "an array of structs" if function == "inline" else "an array or a map"
        wanted = ("ARRAY<STRUCT<",) if function == "inline" else ("ARRAY<", "MAP<")
        if bound.type is not None and not bound.type.startswith(wanted):
            message = f"{function} takes {needed}, `{bound.text}` is of type {bound.type}"
            hint = "use split for a text, from_json for JSON" if bound.type == "STRING" else f"pass {needed}"
            raise self.source.error("GENERATOR_ARGUMENT", message, hint, at=syntax.arguments[0])
        condition = all_of(self.where)
        if condition is None:
            return bound
        columns = tuple(dict.fromkeys((*condition.columns, *bound.columns)))
        return replace(bound, text=f"CASE WHEN {condition.text} THEN {bound.text} END", columns=columns)

    def _gives_fields(self, syntax: GeneratorSyntax, kind: str | None) -> bool:
        """UNNEST of structs gives their fields, if as many names are given."""
        if kind is None or not kind.startswith("ARRAY<STRUCT<"):
            return False
        return len(syntax.names) - syntax.numbered == len(field_types(parts_of(kind)[0]))

    def _columns(self, syntax: GeneratorSyntax, argument: Expr, *, fields: bool) -> Columns:
        """The columns under the names that the user gives."""
        columns = self._values(syntax, argument, fields=fields)
        columns = [*([("pos", "INT")] if syntax.function == "posexplode" else []), *columns]
        columns += [("pos", "INT")] if syntax.numbered else []
        if syntax.names and len(syntax.names) != len(columns):
            gives = f"{len(columns)} column{'' if len(columns) == 1 else 's'}"
            message = f"{syntax.function} gives {gives} here, and the number of names is {len(syntax.names)}"
            hint = f"its columns are: {', '.join(name for name, _ in columns)}"
            raise self.source.error("GENERATOR_COLUMNS", message, hint, at=syntax.node)
        named = [(name, kind) for name, (_, kind) in zip(syntax.names, columns, strict=False)] or columns
        lowered = [name.lower() for name, _ in named]
        twice = next((name for name, _ in named if lowered.count(name.lower()) > 1), None)
        if twice is not None:
            message = f"two columns are called `{twice}`"
            raise self.source.error("DUPLICATE_OUTPUT", message, "give each a name of its own", at=syntax.node)
        return named

    def _values(self, syntax: GeneratorSyntax, argument: Expr, *, fields: bool) -> Columns:
        kind, given = argument.type, len(syntax.names) - syntax.numbered - (syntax.function == "posexplode")
        if kind is None and fields and not syntax.names:
            message = f"only Spark knows the fields of `{argument.text}`"
            raise self.source.error("NEEDS_SCHEMA", message, "name the columns: AS (a, b)", at=syntax.node)
        if kind is None:
            return [(name, "") for name in syntax.names] if fields else [("key", ""), ("value", "")][: max(given, 1)]
        if kind.startswith("MAP<"):
            key, value = parts_of(kind)
            return [("key", key), ("value", value)]
        element = parts_of(kind)[0]
        return list(field_types(element).items()) if fields else [("col", element)]


def _free(name: str, alias: str, taken: set[str] | None) -> str:
    """The name under which the query knows a column."""
    prefix = f"{alias or 'view'}__"
    return (
        f"{prefix}{name}" if (taken is None and not name.startswith(prefix)) or name.lower() in (taken or ()) else name
    )


def _text(generator: Generator) -> str:
    word = "inline" if generator.fields else "explode"
    if generator.position is not None and generator.position[1] == 0:
        word = f"pos{word}"
    names = ", ".join(quoted(column.name) for column in generator.columns)
    numbered = " WITH ORDINALITY" if generator.position is not None and generator.position[1] else ""
    return f"LATERAL VIEW {'OUTER ' if generator.outer else ''}{word}({generator.argument.text}){numbered} AS {names}"
