"""Which files of a sink become one: those of the same transform and run, between two savepoints."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from windowpane.connectors.file_names import BATCH_FILE
from windowpane.connectors.merged_files import can_merge

TARGET_BYTES = 128 * 1024 * 1024


@dataclass(frozen=True)
class Bounds:
    """Which batches of a run may share a file. `last`: the last one that is not written again."""

    last: int
    savepoints: Collection[int] = ()
    """The last batches of savepoints: going back there removes all files after them."""

    def section(self, batch: int) -> int:
        """Batches of different sections are in different files."""
        return sum(batch > each for each in self.savepoints)


@dataclass(frozen=True)
class Files:
    """Which files of a folder are compacted: those of these transforms and runs."""

    whose: Collection[str]
    runs: Sequence[str]
    """The present one last."""
    bounds: Bounds
    target_bytes: int = TARGET_BYTES

    def groups(self, folder: Path) -> list[list[Path]]:
        """Files that become one, in the order of their batches."""
        found: dict[tuple[object, ...], list[Path]] = {}
        for file in sorted(folder.iterdir()):
            match = BATCH_FILE.fullmatch(file.name)
            if match is None or not self.covers(file.name):
                continue
            batch, ending = int(match[3]), file.name.partition(".")[2]
            if match[2] != self.runs[-1] or batch <= self.bounds.last:
                found.setdefault((match[1], match[2], self.bounds.section(batch), ending), []).append(file)
        return [group for files in found.values() for group in self._divided(files) if len(group) > 1]

    def _divided(self, files: Sequence[Path]) -> Iterator[list[Path]]:
        """Groups up to the size wanted. Files of other columns, and large ones, are not merged with the others."""
        for small, alike in groupby(files, key=lambda file: file.stat().st_size < self.target_bytes // 2):
            group: list[Path] = []
            for file in alike if small else ():
                size = sum(each.stat().st_size for each in group)
                if group and (size + file.stat().st_size > self.target_bytes or not can_merge([group[0], file])):
                    yield group
                    group = []
                group.append(file)
            yield group

    def count(self, folder: Path) -> int:
        """How many files there are of these transforms and runs."""
        return sum(self.covers(file.name) for file in folder.iterdir())

    def covers(self, name: str) -> bool:
        """Whether a file belongs to these transforms and runs."""
        match = BATCH_FILE.fullmatch(name)
        own = match is not None and match[1] in self.whose and match[2] in self.runs
        return own and not name.startswith(".")
