"""The log of a Delta table: a JSON file for each commit, read one by one."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from windowpane.errors import ConfigError, gist
from windowpane.remote.delta import storage_options
from windowpane.remote.input_file import InputFile
from windowpane.remote.optional_packages import optional_module
from windowpane.remote.table_log import TableFile, TableSettings

_READABLE = frozenset({"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"})
"""Features of tables that do not change what is in their files."""
_MAPPING = "delta.columnMapping.mode"


class DeltaLog:
    """As `TableLog`."""

    def __init__(self, settings: TableSettings) -> None:
        self._settings, self._path = settings, settings.name.rstrip("/")
        self._delta = optional_module("deltalake", "Delta tables", extra="delta")
        self._options = storage_options(self._path, settings.access) or None
        self._table = self._opened()
        self._check()

    def _opened(self, version: int | None = None) -> Any:
        errors = optional_module("deltalake.exceptions", "Delta tables", extra="delta")
        try:
            return self._delta.DeltaTable(self._path, version=version, storage_options=self._options)
        except errors.TableNotFoundError as missing:
            raise ConfigError("PATH_NOT_FOUND", f"there is no Delta table in `{self._path}`") from missing
        except errors.DeltaError as failed:
            if version is not None:
                raise self._settings.gone(version, gist(failed)) from failed
            raise

    def _check(self) -> None:
        unknown = set(self._table.protocol().reader_features or ()) - _READABLE
        mapped = self._table.metadata().configuration.get(_MAPPING, "none") != "none"
        if unknown or mapped:
            name = "columnMapping" if mapped else min(unknown)
            raise self._settings.refused(f"it has the feature {name}")

    def latest(self) -> int:
        self._table.update_incremental()
        return int(self._table.version())

    def schema(self) -> pa.Schema:
        return pa.schema(self._table.schema().to_arrow())

    def after(self, version: int) -> list[int]:
        return list(range(version + 1, self.latest() + 1))

    def snapshot(self, version: int) -> list[TableFile]:
        found = pa.table(self._opened(version).get_add_actions(flatten=False)).to_pylist()
        found.sort(key=lambda each: (each["modification_time"], each["path"]))
        return [self._file(each["path"], each["size_bytes"], _texts(each.get("partition") or {})) for each in found]

    def added(self, version: int) -> list[TableFile]:
        actions = self._actions(version)
        changes = [each for each in actions for kind in ("add", "remove") if each.get(kind, {}).get("dataChange")]
        if any("remove" in each or each["add"].get("deletionVector") for each in changes):
            if self._settings.skips_changes:
                return []
            raise self._settings.changed(version)
        return [
            self._file(each["add"]["path"], each["add"]["size"], each["add"].get("partitionValues") or {})
            for each in changes
        ]

    def _actions(self, version: int) -> list[dict[str, Any]]:
        source = InputFile(f"{self._path}/_delta_log/{version:020}.json", self._settings.access)
        try:
            text = source.random_access().read()
        except FileNotFoundError as gone:
            raise self._settings.gone(version, "its commit file is gone") from gone
        return [json.loads(line) for line in text.splitlines() if line.strip()]

    def _file(self, path: str, size: int, values: Mapping[str, str | None]) -> TableFile:
        path = unquote(path)
        whole = path if "://" in path or path.startswith("/") else f"{self._path}/{path}"
        return TableFile(whole, size, {name: value or None for name, value in values.items()})


def _texts(values: Mapping[str, object]) -> dict[str, str | None]:
    """Values of partitions as the log writes them."""
    return {name: None if value is None else _text(value) for name, value in values.items()}


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dt.datetime):
        zoned = value.astimezone(dt.UTC) if value.tzinfo else value
        return zoned.strftime("%Y-%m-%d %H:%M:%S.%f")
    return str(value)
