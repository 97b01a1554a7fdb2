"""Names: which column of which source a name in the query means."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import TokenType

from windowpane.errors import SqlError, nearest
from windowpane.sql.query import Column
from windowpane.sql.syntax.dialect import tokenize
from windowpane.sql.syntax.source import SourceText
from windowpane.sql.types import fields_of

ATOMS = (exp.Column, exp.Literal, exp.Anonymous, exp.Paren, exp.Cast, exp.Boolean, exp.Null)
"""Expressions that need no parentheses inside others."""


_SEPARATING = (
    type(None),
    exp.Alias,
    exp.Anonymous,
    exp.Paren,
    exp.Where,
    exp.Filter,
    exp.Group,
    exp.Distinct,
    exp.Select,
)


@dataclass(frozen=True)
class Source:
    """A stream, table or union in FROM. `names` maps a column (lower case) to its name in the query and its type.

    `open` sources take any name: their columns are known to Spark only.
    """

    alias: str
    names: dict[str, Column]
    open: bool = False
    made: bool = False
    """Its columns are elements of arrays or maps."""
    prefix: str = ""
    """What an open source's columns are called by: `alias__` for tables, nothing for streams."""
    spelled: dict[str, str] = field(default_factory=dict)
    """The source's own spelling of each column."""
    selected: tuple[tuple[str, Column], ...] = ()
    """Columns that only SELECT has, by their names in the result."""
    used: dict[str, str] = field(default_factory=dict)
    """Of an open source: the columns that the query names, by their names in the query."""
    trees: dict[str, exp.Expr] | None = None
    """Of a subquery that is merged: each column as an expression over the columns of what it reads."""

    def find(self, name: str) -> Column | None:
        known = self.names.get(name.lower())
        return Column(f"{self.prefix}{name}", "") if known is None and self.open else known


@dataclass(frozen=True)
class Resolved:
    """A name that was found: the source, its own column, the query's name for it, and the struct fields behind it."""

    source: Source
    column: Column
    own_name: str
    path: tuple[exp.Identifier, ...]

    @property
    def type(self) -> str | None:
        found: str | None = self.column.type or None
        for part in self.path:
            found = fields_of(found).get(part.name.lower()) if found and found.startswith("STRUCT<") else None
        return found


@dataclass(frozen=True)
class Scope:
    """All sources of FROM that can be named."""

    text: SourceText
    sources: tuple[Source, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(column for source in self.sources for column in source.names.values())

    def types(self) -> dict[str, str | None]:
        return {column.name: column.type for column in self.columns}

    def resolve(self, node: exp.Column) -> Resolved:
        """What a column reference means; UNKNOWN_COLUMN or AMBIGUOUS_COLUMN otherwise."""
        parts = [part for part in node.parts if isinstance(part, exp.Identifier)]
        qualified = self._qualified(parts) if len(parts) > 1 else None
        if qualified is not None:
            return self._with_fields(node, qualified)
        owners = [(source, found) for source in self.sources if (found := source.find(parts[0].name)) is not None]
        if len(owners) > 1:
            owners = [owner for owner in owners if not owner[1].hidden] or owners
        if len(owners) > 1:  # nobody knows whether an open source has the column, but a generator does
            owners = (
                [owner for owner in owners if owner[0].made or not owner[0].open]
                if any(owner[0].made for owner in owners)
                else owners
            )
        if len(owners) > 1:
            raise self._ambiguous(node, parts[0].name, [source.alias for source, _ in owners])
        if not owners:
            raise self._unknown(node, parts)
        source, column = owners[0]
        return self._with_fields(node, Resolved(source, column, _own(source, parts[0].name), tuple(parts[1:])))

    def _qualified(self, parts: list[exp.Identifier]) -> Resolved | None:
        for source in self.sources:
            if source.alias and source.alias.lower() == parts[0].name.lower():
                column = source.find(parts[1].name)
                if column is not None:
                    return Resolved(source, column, _own(source, parts[1].name), tuple(parts[2:]))
        return None

    def _with_fields(self, node: exp.Column, found: Resolved) -> Resolved:
        """Refuse a field that the struct is known not to have."""
        kind: str | None = found.column.type or None
        for part in found.path:
            if kind is None or kind.startswith(("ARRAY<", "MAP<", "VARIANT")):
                return found
            fields = fields_of(kind) if kind.startswith("STRUCT<") else {}
            if part.name.lower() not in fields:
                message = f"`{found.column.name}` has no field `{part.name}`"
                hint = f"fields are: {nearest(part.name, fields)}" if fields else f"it is of type {kind}"
                raise self.text.error("UNKNOWN_COLUMN", message, hint, at=part)
            kind = fields[part.name.lower()]
        return found

    def _ambiguous(self, node: exp.Column, name: str, owners: list[str]) -> SqlError:
        hint = "write " + " or ".join(f"{owner}.{name}" for owner in owners)
        return self.text.error("AMBIGUOUS_COLUMN", f"`{name}` may be a column of {' or '.join(owners)}", hint, at=node)

    def _unknown(self, node: exp.Column, parts: list[exp.Identifier]) -> SqlError:
        of_alias = [source for source in self.sources if source.alias.lower() == parts[0].name.lower()]
        if len(parts) > 1 and of_alias:
            message = f"`{of_alias[0].alias}` has no column `{parts[1].name}`"
            valid = of_alias[0].spelled.values()
            return self.text.error(
                "UNKNOWN_COLUMN", message, f"columns are: {nearest(parts[1].name, valid)}", at=parts[1]
            )
        hint = f"columns are: {nearest(parts[0].name, [column.name for column in self.columns])}"
        message = f"there is no column `{parts[0].name}`"
        if len(parts) > 1:
            message += f" and nothing in FROM is called `{parts[0].name}`"
            hint = f"FROM has: {nearest(parts[0].name, [source.alias for source in self.sources])}; {hint}"
        return self.text.error("UNKNOWN_COLUMN", message, hint, at=parts[0])


def _own(source: Source, name: str) -> str:
    return source.spelled.get(name.lower(), name)


@lru_cache(maxsize=4096)
def needs_quotes(name: str) -> bool:
    """Whether a name must stand in backticks to be read back as a name."""
    try:
        tokens = tokenize(name)
    except SqlglotError:
        return True
    return len(tokens) != 1 or tokens[0].token_type != TokenType.VAR or tokens[0].text != name or not name.isascii()


def name_node(name: str, like: exp.Expr | None = None) -> exp.Column:
    """A bare column reference; `like` lends it its place in the text."""
    identifier = exp.Identifier(this=name, quoted=needs_quotes(name))
    marks = [node.meta for node in like.walk() if node._meta and "start" in node._meta] if like is not None else []
    if marks:
        identifier.meta.update(start=min(mark["start"] for mark in marks), end=max(mark["end"] for mark in marks))
    return exp.Column(this=identifier)


def written_out(tree: exp.Expr, label: str, like: exp.Expr) -> exp.Expr:
    """A subquery's expression in the place of the column that named it: errors point at `like`."""
    found = tree.unnest().copy()
    for node in found.walk():
        if node._meta:
            node.meta.pop("start", None)
            node.meta.pop("end", None)
    if not isinstance(found, ATOMS) and not isinstance(like.parent, _SEPARATING):
        found = exp.Paren(this=found)
    marks = [node.meta for node in like.walk() if node._meta and "start" in node._meta]
    if marks:
        found.meta.update(start=min(mark["start"] for mark in marks), end=max(mark["end"] for mark in marks))
    found.meta["label"] = label
    return found


def mark_variables(node: exp.Expr) -> None:
    """Mark the variables of lambdas, which look like columns, so that they are left alone."""
    for function in node.find_all(exp.Lambda):
        names = {variable.name.lower() for variable in function.expressions}
        for column in function.find_all(exp.Column):
            if column.parts[0].name.lower() in names:
                column.meta["variable"] = True
