"""The one tree of errors. Each says who is at fault and carries what a person needs to mend it.

A user's mistake is shown as `[CODE] message` with the place and a hint, never as a traceback.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """A half-open range of characters in a text."""

    start: int
    end: int

    def locate(self, text: str) -> tuple[int, int]:
        """The 1-based line and column at which the span starts."""
        before = text[: self.start]
        return before.count("\n") + 1, self.start - (before.rfind("\n") + 1) + 1


class WindowpaneError(Exception):
    """Base of all errors that windowpane raises on purpose."""

    exit_code = 1

    def __init__(self, code: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint

    def render(self) -> str:
        """The text a person sees: code and message, where it is, what would be valid."""
        parts = [f"[{self.code}] {self.message}", *self.place()]
        if self.hint:
            parts.append(f"hint: {self.hint}")
        return "\n".join(parts)

    def place(self) -> list[str]:
        """Lines that show where the mistake is; none when there is no place to show."""
        return []

    def as_dict(self) -> dict[str, object]:
        """The same for scripts (`--json`)."""
        return {"code": self.code, "message": self.message, "hint": self.hint}

    def __str__(self) -> str:
        return self.render()


class ConfigError(WindowpaneError):
    """The configuration is at fault: names file, line and key path."""

    exit_code = 2

    def __init__(
        self,
        code: str,
        message: str,
        hint: str | None = None,
        *,
        file: str | None = None,
        line: int | None = None,
        key: str | None = None,
    ) -> None:
        super().__init__(code, message, hint)
        self.file, self.line, self.key = file, line, key

    def place(self) -> list[str]:
        where = ":".join(str(part) for part in (self.file, self.line) if part is not None)
        shown = " ".join(part for part in (where, f"key `{self.key}`" if self.key else "") if part)
        return [f"  at {shown}"] if shown else []

    def as_dict(self) -> dict[str, object]:
        return super().as_dict() | {"file": self.file, "line": self.line, "key": self.key}


class SqlError(WindowpaneError):
    """The SQL text is at fault: shows the line with a caret."""

    exit_code = 2

    def __init__(
        self, code: str, message: str, hint: str | None = None, *, sql: str = "", span: Span | None = None
    ) -> None:
        super().__init__(code, message, hint)
        self.sql, self.span = sql, span
        self.file: str | None = None
        """The file that holds the SQL, for whoever read it to set."""
        self.file_line: int | None = None
        """The line of that file at which the mistake is: SQL in a pipeline.toml does not start at line 1."""
        self.subject = "schema" if code == "BAD_SCHEMA" else "SQL"

    def place(self) -> list[str]:
        if self.span is None or not self.sql:
            where = ":".join(str(part) for part in (self.file, self.file_line) if part is not None)
            return [f"  in {where}"] if self.file else []
        line, column = self.span.locate(self.sql)
        text = self.sql.splitlines()[line - 1] if self.sql.splitlines() else ""
        width = max(1, min(self.span.end - self.span.start, len(text) - column + 1))
        lead = "".join("\t" if char == "\t" else " " for char in text[: column - 1])
        within = f" of {self.file}" if self.file else ""
        where = f"  line {line}, column {column}{within}"
        if self.file and self.file_line is not None:
            where = f"  at {self.file}:{self.file_line}, line {line}, column {column} of the {self.subject}"
        return [where, f"    {text}", f"    {lead}{'^' * width}"]

    def as_dict(self) -> dict[str, object]:
        line, column = self.span.locate(self.sql) if self.span is not None else (None, None)
        own = {"line": line, "column": column, "sql": self.sql, "file": self.file, "file_line": self.file_line}
        return super().as_dict() | own


class PlanError(SqlError):
    """The query and the configuration do not fit together: names the key, where a key is at fault."""

    def __init__(
        self,
        code: str,
        message: str,
        hint: str | None = None,
        *,
        sql: str = "",
        span: Span | None = None,
        key: str | None = None,
    ) -> None:
        super().__init__(code, message, hint, sql=sql, span=span)
        self.key = key

    def place(self) -> list[str]:
        if self.key is None or self.span is not None:
            return super().place()
        where = ":".join(str(part) for part in (self.file, self.file_line) if part is not None)
        return [f"  at {where} key `{self.key}`" if where else f"  at key `{self.key}`"]

    def as_dict(self) -> dict[str, object]:
        return super().as_dict() | {"key": self.key}


class StateError(WindowpaneError):
    """A checkpoint or a state blob cannot be used."""


class SourceError(WindowpaneError):
    """A source does not give the rows that were planned."""


class SinkError(WindowpaneError):
    """A sink could not take what was written to it. `passing`: it may when it is tried again."""

    def __init__(self, code: str, message: str, hint: str | None = None, *, passing: bool = True) -> None:
        super().__init__(code, message, hint)
        self.passing = passing


class BundleError(WindowpaneError):
    """The archive for the executors of a cluster cannot be made, or not be used."""


class SparkError(WindowpaneError):
    """Spark did not start, or stopped the query for a reason of its own."""


class InternalError(WindowpaneError):
    """A bug of ours: an invariant did not hold."""

    exit_code = 70


def gist(error: BaseException) -> str:
    """One line that says what an error of another library is about: the innermost cause that Java names, if any."""
    if isinstance(error, WindowpaneError):
        return error.message
    lines = [line.strip().removeprefix(": ") for line in str(error).splitlines()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    messages = [line for line in lines if line and not line.startswith(("An error occurred while calling", "at "))]
    chosen = next(iter(causes[-1:] + messages), "")
    java = _JAVA_ERROR.match(chosen)
    if java is not None:
        return chosen[java.start(1) :]
    return chosen if chosen.startswith("[") else f"{type(error).__name__}: {chosen}".rstrip(": ")


_JAVA_ERROR = re.compile(r"(?:[a-z]\w*\.)+([A-Z]\w*(?:Exception|Error))\b")


def nearest(name: str, valid: Iterable[str]) -> str:
    """`valid`, listed with the names nearest to `name` first."""
    names = sorted(valid)
    by_folded = {candidate.lower(): candidate for candidate in names}
    close = [by_folded[folded] for folded in difflib.get_close_matches(name.lower(), by_folded, n=3, cutoff=0.5)]
    ordered = close + [candidate for candidate in names if candidate not in close]
    return ", ".join(ordered) if ordered else "(none)"
