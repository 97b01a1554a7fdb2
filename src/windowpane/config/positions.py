"""Where each key stands in a TOML text: dotted path to line. Reads texts that `tomllib` has accepted already."""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

_TOKEN = re.compile(
    r'''
    (?P<blank>[ \t\r]+|\#[^\n]*)
  | (?P<newline>\n)
  | (?P<text>"""(?:\\.|[^\\])*?"{3,5} | \'\'\'.*?\'{3,5} | "(?:\\.|[^"\\\n])*" | '[^'\n]*')
  | (?P<mark>[\[\]{}=.,])
  | (?P<bare>[^\s\[\]{}=.,"'\#]+)
    ''',
    re.VERBOSE | re.DOTALL,
)


class _Token(NamedTuple):
    kind: str
    text: str
    line: int


@dataclass(frozen=True)
class Positions:
    """Lines by dotted key path. A key written as one quoted text with dots is found like the dotted key."""

    lines: Mapping[str, int]

    def line_of(self, key: str) -> int | None:
        """The line of `key`, or of the innermost table around it that the text has."""
        path = key.replace("[", ".").replace("]", "")
        while path:
            if path in self.lines:
                return self.lines[path]
            path = path.rpartition(".")[0]
        return None


NO_POSITIONS = Positions({})


def index_positions(text: str) -> Positions:
    """The positions of all keys of a valid TOML text."""
    return Positions(_Reader(_tokens(text)).read())


def _tokens(text: str) -> Iterator[_Token]:
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    for match in _TOKEN.finditer(text):
        if match.lastgroup and match.lastgroup != "blank":
            yield _Token(match.lastgroup, match[0], bisect_right(starts, match.start()))
    yield _Token("end", "", len(starts))


class _Reader:
    """A walk over the tokens of a text that is known to be valid, so that it need not judge anything."""

    def __init__(self, tokens: Iterator[_Token]) -> None:
        self._tokens = tokens
        self._now = next(tokens)
        self._lines: dict[str, int] = {}
        self._elements: dict[str, int] = {}

    def read(self) -> dict[str, int]:
        table: list[str] = []
        while self._now.kind != "end":
            if self._now.kind == "newline":
                self._step()
            elif self._now.text == "[":
                table = self._header()
            else:
                self._assignment(table)
        return self._lines

    def _step(self) -> _Token:
        before, self._now = self._now, next(self._tokens, self._now)
        return before

    def _skip_newlines(self) -> None:
        while self._now.kind == "newline":
            self._step()

    def _header(self) -> list[str]:
        line = self._step().line
        is_array = self._now.text == "["
        if is_array:
            self._step()
        path = self._within_arrays(self._key())
        while self._now.text == "]":
            self._step()
        if is_array:
            path = [*path, self._next_element(path)]
        self._note(path, line, explicit=True)
        return path

    def _within_arrays(self, path: list[str]) -> list[str]:
        """A header below an array of tables means the array's last element."""
        full: list[str] = []
        for position, part in enumerate(path):
            full.append(part)
            last = self._elements.get(".".join(full))
            if last is not None and position < len(path) - 1:
                full.append(str(last))
        return full

    def _next_element(self, path: list[str]) -> str:
        name = ".".join(path)
        self._elements[name] = self._elements.get(name, -1) + 1
        return str(self._elements[name])

    def _key(self) -> list[str]:
        parts: list[str] = []
        while self._now.text not in {"=", "]"}:
            token = self._step()
            if token.kind == "text":
                parts.append(str(tomllib.loads(f"key = {token.text}")["key"]))
            elif token.kind == "bare":
                parts.append(token.text)
        return parts

    def _assignment(self, table: list[str]) -> None:
        line = self._now.line
        path = [*table, *self._key()]
        self._step()
        self._note(path, line)
        self._value(path)

    def _value(self, path: list[str]) -> None:
        if self._now.text == "[":
            self._array(path)
        elif self._now.text == "{":
            self._inline_table(path)
        elif self._now.kind == "text":
            self._step()
        else:
            while self._now.kind not in {"newline", "end"} and self._now.text not in {",", "]", "}"}:
                self._step()

    def _array(self, path: list[str]) -> None:
        self._step()
        position = 0
        self._skip_newlines()
        while self._now.text != "]":
            item = [*path, str(position)]
            self._note(item, self._now.line)
            self._value(item)
            position += 1
            self._separator()
        self._step()

    def _inline_table(self, path: list[str]) -> None:
        self._step()
        self._skip_newlines()
        while self._now.text != "}":
            self._assignment(path)
            self._separator()
        self._step()

    def _separator(self) -> None:
        self._skip_newlines()
        if self._now.text == ",":
            self._step()
        self._skip_newlines()

    def _note(self, path: list[str], line: int, *, explicit: bool = False) -> None:
        for length in range(1, len(path)):
            self._lines.setdefault(".".join(path[:length]), line)
        name = ".".join(path)
        if explicit:
            self._lines[name] = line
        self._lines.setdefault(name, line)
