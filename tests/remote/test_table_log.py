"""Delta and Iceberg tables as logs: each row is in the files of one commit. Commits that change rows are refused."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles
from pyspark.sql.types import StructType

from windowpane.connectors.table_source import TableReading, _Stream
from windowpane.errors import ConfigError, SourceError
from windowpane.formats import source_format
from windowpane.remote.table_log import NOTHING, TableFile, TableSettings, open_log

Kind = Literal["delta", "iceberg"]


class World:
    """A table of a kind, written by its own library."""

    def __init__(self, kind: Kind, folder: Path, **options: str) -> None:
        pytest.importorskip("deltalake" if kind == "delta" else "pyiceberg")
        self.kind, self.folder = kind, folder
        self.catalog = {"type": "sql", "uri": f"sqlite:///{folder}/c.db", "warehouse": f"file://{folder}/warehouse"}
        named = {f"catalog.{name}": value for name, value in self.catalog.items()} if kind == "iceberg" else {}
        self.name = str(folder / "t") if kind == "delta" else "shop.t"
        self.settings = self.with_options(**named, **options)

    def with_options(self, **options: str) -> TableSettings:
        log = source_format(self.kind).table_log
        assert log is not None
        return TableSettings(log, self.kind, self.name, options)

    def _iceberg(self, rows: pa.Table | None = None) -> Any:
        from pyiceberg.catalog import load_catalog  # noqa: PLC0415

        catalog = load_catalog("default", **self.catalog)
        if rows is not None:
            catalog.create_namespace_if_not_exists("shop")
            return catalog.create_table_if_not_exists("shop.t", rows.schema)
        return catalog.load_table("shop.t")

    def append(self, *numbers: int, **columns: list[Any]) -> None:
        rows = pa.table({"n": list(numbers), **columns})
        if self.kind == "delta":
            from deltalake import write_deltalake  # noqa: PLC0415

            write_deltalake(self.folder / "t", rows, mode="append", schema_mode="merge")
        else:
            self._iceberg(rows).append(rows)

    def delete(self, number: int) -> None:
        if self.kind == "delta":
            from deltalake import DeltaTable  # noqa: PLC0415

            DeltaTable(self.folder / "t").delete(f"n = {number}")
        else:
            self._iceberg().delete(f"n == {number}")


@pytest.fixture(params=["delta", "iceberg"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    return World(request.param, tmp_path)


def numbers(files: list[TableFile]) -> list[int]:
    found: list[int] = []
    for file in files:
        found += pq.ParquetFile(file.path).read()["n"].to_pylist()
    return sorted(found)


def stream(world: World, files: int | None = None, **options: str) -> _Stream:
    settings = world.with_options(**world.settings.options, **options)
    return _Stream(TableReading(settings, lists=True, tasks=2, limits=(files, None)), StructType())


def test_a_commit_has_its_files(world: World) -> None:
    world.append(1, 2)
    log = open_log(world.settings)
    first = log.latest()
    world.append(3)
    world.append(4, 5)
    second, third = log.after(first)
    assert numbers(log.snapshot(first)) == [1, 2]
    assert [numbers(log.added(version)) for version in (second, third)] == [[3], [4, 5]]
    assert log.after(third) == []
    assert log.schema().names == ["n"]
    assert numbers(log.snapshot(third)) == [1, 2, 3, 4, 5]


def test_commits_that_change_rows_are_refused_or_skipped(world: World) -> None:
    world.append(1, 2)
    log = open_log(world.settings)
    first = log.latest()
    world.delete(1)
    with pytest.raises(SourceError) as refused:
        [log.added(version) for version in log.after(first)]
    assert refused.value.code == "TABLE_CHANGED"
    assert "skip_changes" in str(refused.value.hint)
    world.append(3)
    skipping = open_log(world.with_options(**world.settings.options, skip_changes="true"))
    assert [numbers(skipping.added(version)) for version in skipping.after(first)] == [[], [3]]
    assert numbers(skipping.snapshot(skipping.latest())) == [2, 3]


def test_offsets_cover_each_file_once(world: World) -> None:
    """Whatever the limit, and also if each micro-batch is planned by another process."""
    world.append(0)
    world.append(1)
    offset = stream(world).initialOffset()
    read: list[list[int]] = []
    for number in range(2, 8):
        world.append(number)
        end = stream(world, files=1).latestOffset(offset, ReadMaxFiles(1))
        planned = [
            [file for part in stream(world, files=limit).partitions(offset, end) for _, file in part.files]
            for limit in (1, None)
        ]
        assert planned[0] == planned[1]
        read.append(numbers(planned[0]))
        offset = json.loads(json.dumps(end))
    assert read == [[number] for number in range(6)]
    end = stream(world, files=1).latestOffset(offset, ReadAllAvailable())
    last = [file for part in stream(world).partitions(offset, end) for _, file in part.files]
    assert numbers(last) == [6, 7]
    assert stream(world).latestOffset(end, ReadAllAvailable()) == end
    assert stream(world).partitions(end, end) == []


def test_what_is_available_now_ends(world: World) -> None:
    world.append(0)
    reader = stream(world)
    offset = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    world.append(1)
    end = reader.latestOffset(offset, ReadAllAvailable())
    assert numbers([file for part in reader.partitions(offset, end) for _, file in part.files]) == [0]
    assert reader.latestOffset(end, ReadAllAvailable()) == end


def test_a_stream_can_start_after_what_is_there(world: World) -> None:
    world.append(0)
    reader = stream(world, starting_after="latest")
    offset = reader.initialOffset()
    world.append(1)
    end = reader.latestOffset(offset, ReadAllAvailable())
    assert numbers([file for part in reader.partitions(offset, end) for _, file in part.files]) == [1]
    same = stream(world, starting_after=str(offset["version"])).initialOffset()
    assert same == offset


def test_columns_that_the_log_has(tmp_path: Path) -> None:
    world = World("delta", tmp_path)
    from deltalake import write_deltalake  # noqa: PLC0415

    day = pa.array([dt.date(2026, 1, 31), None])
    rows = pa.table({"n": [1, 2], "day": day, "k": ["a b=/ü", ""]})
    write_deltalake(tmp_path / "t", rows, partition_by=["day", "k"])
    log = open_log(world.settings)
    for files in (log.snapshot(0), log.added(0)):
        assert {file.values["k"]: file.values["day"] for file in files} == {"a b=/ü": "2026-01-31", None: None}
        assert numbers(files) == [1, 2]


def test_compaction_adds_no_rows(tmp_path: Path) -> None:
    world = World("delta", tmp_path)
    for number in range(3):
        world.append(number)
    from deltalake import DeltaTable  # noqa: PLC0415

    DeltaTable(tmp_path / "t").optimize.compact()
    log = open_log(world.settings)
    assert [len(log.added(version)) for version in log.after(NOTHING)] == [1, 1, 1, 0]
    assert numbers(log.snapshot(3)) == [0, 1, 2]


def test_a_log_that_was_cleaned(tmp_path: Path) -> None:
    world = World("delta", tmp_path)
    world.append(0)
    world.append(1)
    log = open_log(world.settings)
    (tmp_path / "t/_delta_log/00000000000000000001.json").unlink()
    with pytest.raises(SourceError) as lost:
        log.added(1)
    assert lost.value.code == "DATA_LOST"


def test_tables_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as missing:
        open_log(World("delta", tmp_path).settings)
    assert missing.value.code == "PATH_NOT_FOUND"
    world = World("iceberg", tmp_path)
    with pytest.raises(ConfigError) as unknown:
        open_log(world.settings)
    assert unknown.value.code == "UNKNOWN_TABLE"
    world.append(1)
    with world._iceberg().update_schema() as update:
        update.rename_column("n", "m")
    with pytest.raises(ConfigError, match="renamed") as renamed:
        open_log(world.settings)
    assert renamed.value.code == "UNSUPPORTED_TABLE"
