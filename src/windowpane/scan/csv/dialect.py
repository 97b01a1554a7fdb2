"""How the lines of CSV files are written: the options of Spark's CSV reader that workers understand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

OPTIONS = frozenset({"header", "sep", "delimiter", "quote", "escape", "nullvalue", "mode", "enforceschema"})
"""In lower case. A stream with others is read by Spark."""
NONE = "\0"
"""In place of a character that is turned off."""
_ESCAPED = {r"\t": "\t", r"\\": "\\", r"\'": "'", r"\"": '"'}


@dataclass(frozen=True)
class Dialect:
    """The defaults are those of Spark's reader."""

    header: bool = False
    separator: str = ","
    quote: str = '"'
    escape: str = "\\"
    null: str = ""
    """Fields with this text are NULL, with or without quotes, and empty fields without quotes."""

    @property
    def escapes_itself(self) -> str:
        """The character that escapes the escape character."""
        return NONE if self.quote == self.escape else self.escape


def dialect_of(options: Mapping[str, str]) -> Dialect:
    """The dialect that options of Spark's reader describe; ValueError with the reason if workers do not read it."""
    given = {name.lower(): value for name, value in options.items()}
    if given.get("mode", "PERMISSIVE").upper() != "PERMISSIVE":
        raise ValueError(f"option mode is {given['mode']}")
    if not _is_true(given, "enforceschema", "true"):
        raise ValueError("option enforceSchema makes Spark compare headers with the schema")
    separator = given.get("sep", given.get("delimiter", ","))
    separator = _ESCAPED.get(separator, separator)
    characters = [("sep", separator), ("quote", given.get("quote", '"')), ("escape", given.get("escape", "\\"))]
    for name, value in characters:
        if len(value) > 1 or not value.isascii() or (name == "sep" and not value) or value in ("\r", "\n"):
            raise ValueError(f"option {name} is not one ASCII character")
    (_, separator), (_, quote), (_, escape) = characters
    if separator in (quote, escape):
        raise ValueError("options sep, quote and escape have a character in common")
    return Dialect(
        _is_true(given, "header", "false"), separator, quote or NONE, escape or NONE, given.get("nullvalue", "")
    )


def _is_true(given: Mapping[str, str], name: str, default: str) -> bool:
    value = given.get(name, default).lower()
    if value not in ("true", "false"):
        raise ValueError(f"option {name} is neither true nor false")
    return value == "true"
