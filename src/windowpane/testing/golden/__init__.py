"""Golden files: SQL, rows pushed step by step, and what each step must give. The way in for the CLI and for pytest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from windowpane.errors import ConfigError, WindowpaneError
from windowpane.testing.golden.comparison import Difference, compare
from windowpane.testing.golden.completion import completed
from windowpane.testing.golden.model import Golden
from windowpane.testing.golden.parse import parse_golden, read_golden
from windowpane.testing.golden.run import MODES, Mode, run_golden

__all__ = ["MODES", "Mode", "Verdict", "check", "complete", "find", "parse_golden", "read_golden"]

SUFFIX = ".slt"


@dataclass(frozen=True)
class Verdict:
    """How one file fared in one mode."""

    file: str
    mode: Mode
    differences: tuple[Difference, ...] = ()
    unreadable: WindowpaneError | None = None
    """Set when the file itself could not be read."""

    @property
    def holds(self) -> bool:
        return not self.differences and self.unreadable is None

    def render(self) -> str:
        """The first step that differs, as a person reads it; empty when all hold."""
        if self.unreadable is not None:
            return self.unreadable.render()
        if not self.differences:
            return ""
        step = self.differences[0].step
        shown = [difference for difference in self.differences if difference.step == step]
        others = len({difference.step for difference in self.differences}) - 1
        blocks = [self._block(difference) for difference in shown]
        more = [f"  … and {others} later step{'' if others == 1 else 's'}"] if others else []
        return "\n".join([*blocks, *more])

    def _block(self, difference: Difference) -> str:
        mode = "" if self.mode == "as-written" else f" ({self.mode})"
        head = f"{self.file}:{difference.line}{mode}: {difference.title}, expected - and got +"
        return "\n".join([head, *(f"    {line}" for line in difference.lines)])

    def as_dict(self) -> dict[str, object]:
        """The same for scripts."""
        found = [
            {"line": each.line, "step": each.step, "subject": each.subject, "diff": list(each.lines)}
            for each in self.differences
        ]
        error = None if self.unreadable is None else self.unreadable.as_dict()
        return {"file": self.file, "mode": self.mode, "holds": self.holds, "differences": found, "error": error}


def find(paths: Iterable[Path]) -> list[Path]:
    """The files among `paths`, and those ending in .slt in the folders among them."""
    found: list[Path] = []
    for path in paths:
        if not path.exists():
            raise ConfigError("FILE_UNREADABLE", f"there is no file or folder `{path}`")
        inside = sorted(path.rglob(f"*{SUFFIX}")) if path.is_dir() else [path]
        if not inside:
            raise ConfigError("NO_TEST_FILES", f"`{path}` contains no file ending in {SUFFIX}")
        found += inside
    return list(dict.fromkeys(found))


def check(golden: Golden, modes: Sequence[Mode] = ("as-written",)) -> list[Verdict]:
    """Run a file in these modes and judge it."""
    runs = zip(modes, run_golden(golden, modes), strict=True)
    return [Verdict(golden.file, mode, tuple(compare(golden, run))) for mode, run in runs]


def complete(path: Path) -> bool:
    """Rewrite a file's expectations to what its query gives; whether anything changed."""
    golden = read_golden(path)
    text = completed(golden, *run_golden(golden))
    changed = text.splitlines() != list(golden.lines)
    if changed:
        path.write_text(text, encoding="utf-8")
    return changed
