"""Fails if prose of the Markdown files is wider than 100 characters. Tables, code and long links may be wider."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WIDTH = 100
BLOCK = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
FREE = re.compile(r" *\||!?\[|<!--|    ")  # tables, pictures, comments, indented code


def wide_lines(page: Path) -> list[str]:
    text = BLOCK.sub(lambda block: "\n" * block[0].count("\n"), page.read_text(encoding="utf-8"))
    numbered = enumerate(text.split("\n"), start=1)
    wide = [number for number, line in numbered if len(line) > WIDTH and not FREE.match(line) and not long_word(line)]
    return [f"{page.relative_to(ROOT)}:{number}: wider than {WIDTH} characters" for number in wide]


def long_word(line: str) -> bool:
    return any(len(word) > WIDTH // 2 for word in line.split())


def main() -> int:
    pages = [*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md"))]
    wide = [problem for page in pages for problem in wide_lines(page)]
    print("\n".join(wide), end="\n" if wide else "")
    return 1 if wide else 0


if __name__ == "__main__":
    sys.exit(main())
