"""The code blocks of README and docs, with the directives that say how each one is tested.

A directive is a comment right above a block: `<!-- test: KEY[=VALUE] -->`. Several are joined by commas.

| directive | |
| --- | --- |
| skip=REASON | the block cannot run; REASON says why |
| spark | the block needs Spark, and runs in the Spark tests |
| dir=FOLDER | commands run in a copy of this folder of the repository |
| file=NAME | the block is written to this file of the page's folder first |
| streams=NAME | the queries read the streams in `STREAMS[NAME]` |
| from | the queries lack their SELECT clause |
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(
    r"(?:^ *<!-- test: (?P<directive>[^\n]*?) -->\n)?^(?P<indent> *)```(?P<language>[\w-]*)\n(?P<body>.*?)^ *```$",
    re.MULTILINE | re.DOTALL,
)
# Each language is checked in one way; `text` is output that has no command, and is not checked.
LANGUAGES = {"sql", "toml", "python", "console", "json", "slt", "text"}


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    language: str
    body: str
    directives: dict[str, str]

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@cache
def blocks() -> tuple[Block, ...]:
    return tuple(block for page in pages() for block in blocks_of(page))


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    name = page.relative_to(ROOT).as_posix()
    found = []
    for match in FENCE.finditer(text):
        line = text.count("\n", 0, match.start("language")) + 1
        found.append(Block(name, line, match["language"], match["body"], _directives(match["directive"] or "")))
    return found


def _directives(text: str) -> dict[str, str]:
    if text.startswith("skip="):
        return {"skip": text.removeprefix("skip=")}
    return {key: value for key, _, value in (part.strip().partition("=") for part in text.split(",")) if key}


def chosen(language: str, *, spark: bool = False) -> list[Block]:
    """The blocks of a language that can run, with or without Spark."""
    return [
        block
        for block in blocks()
        if block.language == language and "skip" not in block.directives and ("spark" in block.directives) is spark
    ]
