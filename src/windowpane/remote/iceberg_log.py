"""The snapshots of an Iceberg table, and the files that each has added."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from windowpane.errors import ConfigError
from windowpane.remote.optional_packages import optional_module
from windowpane.remote.table_log import NOTHING, TableFile, TableSettings

CATALOG = "catalog."
_ADDS, _REWRITES = "append", "replace"


class IcebergLog:
    """As `TableLog`."""

    def __init__(self, settings: TableSettings) -> None:
        self._settings = settings
        given = {
            name.removeprefix(CATALOG): value for name, value in settings.options.items() if name.startswith(CATALOG)
        }
        catalogs = optional_module("pyiceberg.catalog", "Iceberg tables", extra="iceberg")
        self._catalog = catalogs.load_catalog(given.pop("name", "default"), **given)
        self._identifier = tuple(settings.name.split("."))
        if not self._catalog.table_exists(self._identifier):
            raise ConfigError("UNKNOWN_TABLE", f"the catalog has no table `{settings.name}`")
        self._table = self._catalog.load_table(self._identifier)
        self._check()

    def _check(self) -> None:
        """Files are read by the names of their columns, so none may have had another name."""
        names: dict[int, set[str]] = {}
        for schema in self._table.metadata.schemas:
            for field in schema.fields:
                names.setdefault(field.field_id, set()).add(field.name)
        renamed = sorted(name for found in names.values() if len(found) > 1 for name in found)
        if renamed:
            raise self._settings.refused(f"columns were renamed: {', '.join(renamed)}")

    def latest(self) -> int:
        self._table.refresh()
        current = self._table.current_snapshot()
        return NOTHING if current is None else int(current.snapshot_id)

    def schema(self) -> pa.Schema:
        found: pa.Schema = self._table.schema().as_arrow()
        return found

    def after(self, version: int) -> list[int]:
        found, at = [], self.latest()
        while at not in (version, NOTHING):
            snapshot = self._table.snapshot_by_id(at)
            if snapshot is None:
                raise self._settings.gone(version, "snapshots after it have expired, or the table was rolled back")
            found.append(at)
            at = NOTHING if snapshot.parent_snapshot_id is None else snapshot.parent_snapshot_id
        if at != version:
            raise self._settings.gone(version, "the table was rolled back or created anew")
        return found[::-1]

    def snapshot(self, version: int) -> list[TableFile]:
        if version == NOTHING:
            return []
        if self._table.snapshot_by_id(version) is None:
            self._table.refresh()
        if self._table.snapshot_by_id(version) is None:
            raise self._settings.gone(version, "the snapshot has expired")
        return self._files(self._table.scan(snapshot_id=version), self._sequence(version))

    def _sequence(self, version: int) -> dict[str, int]:
        """When the files of a snapshot were added: the oldest rows come first, or they would be late."""
        io, found = self._table.io, dict[str, int]()
        for manifest in self._table.snapshot_by_id(version).manifests(io):
            for entry in manifest.fetch_manifest_entry(io, discard_deleted=True):
                found[entry.data_file.file_path] = entry.sequence_number or 0
        return found

    def added(self, version: int) -> list[TableFile]:
        snapshot = self._table.snapshot_by_id(version)
        if snapshot is None:
            self._table.refresh()
            snapshot = self._table.snapshot_by_id(version)
        if snapshot is None:
            raise self._settings.gone(version, "the snapshot has expired")
        kind = snapshot.summary.operation.value if snapshot.summary else _ADDS
        if kind == _ADDS:
            return self._files(
                self._table.incremental_append_scan()
                .from_snapshot_id_inclusive(version)
                .to_snapshot_id_inclusive(version)
            )
        if kind == _REWRITES or self._settings.skips_changes:
            return []
        raise self._settings.changed(version)

    def _files(self, scan: Any, sequence: Mapping[str, int] | None = None) -> list[TableFile]:
        order = sequence or {}
        tasks = sorted(scan.plan_files(), key=lambda task: (order.get(task.file.file_path, 0), task.file.file_path))
        if any(task.delete_files for task in tasks):
            raise self._settings.refused("rows were deleted without rewriting their files")
        other = sorted({str(task.file.file_format.value) for task in tasks} - {"PARQUET"})
        if other:
            raise self._settings.refused(f"it has files in the format {other[0]}")
        return [TableFile(_local(task.file.file_path), task.file.file_size_in_bytes) for task in tasks]


def _local(path: str) -> str:
    return path.removeprefix("file://").removeprefix("file:")
