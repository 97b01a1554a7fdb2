"""Tables of Delta Lake and Iceberg as logs: which files each commit has added. Does not import Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Protocol

import pyarrow as pa

from windowpane.errors import ConfigError, SourceError
from windowpane.remote.access import NO_ACCESS, Access

STARTING_AFTER, SKIP_CHANGES = "starting_after", "skip_changes"
NOTHING = -1
"""The version of a table before its first commit."""


@dataclass(frozen=True)
class TableFile:
    """A parquet file of a table."""

    path: str
    """A local path, or the address of an object."""
    size: int
    values: Mapping[str, str | None] = field(default_factory=dict)
    """The values of columns that are not in the file but in the log of the table."""


@dataclass(frozen=True)
class TableSettings:
    """Which table, and how it is reached. Picklable."""

    log: str
    """The class that reads its log, as `module:attribute`."""
    kind: str
    """What it is called in messages."""
    name: str
    """The folder of a Delta table; namespace and name of an Iceberg table."""
    options: Mapping[str, str] = field(default_factory=dict)
    access: Access = NO_ACCESS

    @property
    def skips_changes(self) -> bool:
        return self.options.get(SKIP_CHANGES, "false").lower() == "true"

    @property
    def title(self) -> str:
        return f"the {self.kind} table {self.name}"

    def changed(self, version: int) -> SourceError:
        """The error for a commit that removes or replaces rows."""
        return SourceError(
            "TABLE_CHANGED", f"version {version} of {self.title} removes or changes rows, which a stream cannot do",
            "set skip_changes = true in the options of the stream to leave out such commits as a whole",
        )  # fmt: skip

    def gone(self, version: int, why: str) -> SourceError:
        """The error for a commit whose files cannot be found any more."""
        return SourceError(
            "DATA_LOST", f"version {version} of {self.title} is not in its log any more: {why}",
            "begin anew with windowpane reset; keep the log of the table for longer than the pipeline stands still",
        )  # fmt: skip

    def refused(self, why: str) -> ConfigError:
        """The error for a table that cannot be read."""
        return ConfigError(
            "UNSUPPORTED_TABLE", f"{self.title} cannot be read: {why}", "read an export of it as parquet"
        )


class TableLog(Protocol):
    """Versions are the numbers of Delta's commits, or the ids of Iceberg's snapshots."""

    def latest(self) -> int:
        """The current version; NOTHING if the table is empty."""

    def schema(self) -> pa.Schema:
        """The columns of the table now."""

    def after(self, version: int) -> list[int]:
        """The versions after this one, in order. SourceError DATA_LOST if the log does not reach back to it."""

    def snapshot(self, version: int) -> list[TableFile]:
        """All files of a version, in a fixed order."""

    def added(self, version: int) -> list[TableFile]:
        """The files that a version adds, in a fixed order. SourceError TABLE_CHANGED if it changes rows."""


def open_log(settings: TableSettings) -> TableLog:
    """The log of a table; ConfigError if there is no table, or if it cannot be read."""
    module, _, attribute = settings.log.partition(":")
    log: TableLog = getattr(import_module(module), attribute)(settings)
    return log
