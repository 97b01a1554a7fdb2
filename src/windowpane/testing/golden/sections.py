"""The outer shape of golden files: sections that start at the margin, with their indented lines below them."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from windowpane.testing.golden.model import Place
from windowpane.testing.golden.rows import BadLineError, Line


@dataclass(frozen=True)
class Section:
    """`keyword rest` at the margin, and the lines below it that are neither empty nor comments."""

    line: Line
    body: tuple[Line, ...]
    source: tuple[str, ...]
    """The same lines as they stand in the file, empty ones and comments among them."""

    @property
    def keyword(self) -> str:
        return self.line.text.split(maxsplit=1)[0].rstrip(":")

    @property
    def rest(self) -> str:
        return self.line.text[len(self.keyword) :].strip()

    @property
    def place(self) -> Place:
        last = self.body[-1].number if self.body else self.line.number
        return Place(self.line.number, last + 1)

    def text(self) -> str:
        """The body without its margin, and without comments."""
        kept = [line for line in self.source if not line.lstrip().startswith("#")]
        return textwrap.dedent("\n".join(kept)).strip("\n")

    def alone(self) -> None:
        """Refuse indented lines below a section that takes none."""
        if self.body:
            raise BadLineError(self.body[0].number, f"`{self.keyword}` takes no lines below it", "start at the margin")


def split_sections(lines: Sequence[str]) -> list[Section]:
    """Sections in order; comments at the margin belong to none."""
    sections: list[tuple[Line, list[tuple[int, str]]]] = []
    for number, text in enumerate(lines, 1):
        indented, bare = text[:1] in (" ", "\t"), text.strip()
        if not bare or bare.startswith("#"):
            if sections:
                sections[-1][1].append((number, text))
        elif not indented:
            sections.append((Line(number, text.rstrip()), []))
        elif not sections:
            raise BadLineError(number, "an indented line belongs to no section", "start with `stream NAME: SCHEMA`")
        else:
            sections[-1][1].append((number, text))
    return [_section(line, body) for line, body in sections]


def _section(line: Line, source: Sequence[tuple[int, str]]) -> Section:
    body = tuple(
        Line(number, text.strip()) for number, text in source if text.strip() and not text.strip().startswith("#")
    )
    return Section(line, body, tuple(text for _, text in source))
