"""A file that several tasks share: together they read what one task would, whatever the size of the parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windowpane.config import parse_pipeline
from windowpane.core import columns as c
from windowpane.core.numbering import Place
from windowpane.errors import ConfigError
from windowpane.formats import load, source_format
from windowpane.scan.files import FileReader
from windowpane.scan.scan import Damage

PIECES = [b'{"v": 1}', b'{"v": "x"}', b"", b" ", b"\xef\xbb\xbf", b'{"v": 2, "k": "\xc3\xa4"}', b"not json"]
ENDS = [b"\n", b"\r\n", b"\r"]


def read(path: Path, format_name: str, size: int | None, **columns: pa.DataType) -> list[tuple[Any, ...]]:
    """The rows in the order of their places; of a damaged file, its text."""
    reader = FileReader(load(source_format(format_name).file_reader or ""), tuple(columns.items()), 1 << 24)
    length = path.stat().st_size if path.exists() else 30
    starts = [0] if size is None else list(range(0, max(length, 1), size))
    ends = [None] if size is None else [None if start + size >= length else start + size for start in starts]
    modified = pa.array([7] * len(starts), pa.timestamp("us", "UTC"))
    listing = pa.table({
        "path": [f"file:{path}"] * len(starts), "modificationTime": modified, "start": pa.array(starts, pa.int64()),
        "end": pa.array(ends, pa.int64()),
    })  # fmt: skip
    found: list[tuple[Place, tuple[Any, ...]]] = []
    for batch in reversed(listing.to_batches(1)):
        for part in reader.read(iter([batch])):
            rows = [("damage",)] if isinstance(part.content, Damage) else _rows(part.content)
            found += [(part.place, row) for row in rows]
    return [row for _, row in sorted(found, key=lambda each: each[0])]


def _rows(batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    names = [name for name in batch.schema.names if name != c.SOURCE_PARTITION]
    return list(zip(*(batch.column(name).to_pylist() for name in names), strict=True))


@given(
    lines=st.lists(st.tuples(st.sampled_from(PIECES), st.sampled_from(ENDS)), max_size=8),
    rest=st.sampled_from([b"", *PIECES]),
    size=st.integers(1, 40),
    form=st.sampled_from(["json", "text"]),
)
def test_lines(
    tmp_path_factory: pytest.TempPathFactory, lines: list[tuple[bytes, bytes]], rest: bytes, size: int, form: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "divided.txt"
    path.write_bytes(b"".join(piece + end for piece, end in lines) + rest)
    columns = {"v": pa.int64(), "k": pa.string()} if form == "json" else {"line": pa.string()}
    assert read(path, form, size, **columns) == read(path, form, None, **columns)


@pytest.mark.parametrize("size", [1, 7, 100, 1000, 10**9])
@pytest.mark.parametrize("declared", ["v", "other"])
def test_row_groups(tmp_path: Path, size: int, declared: str) -> None:
    pq.write_table(pa.table({"v": list(range(100))}), tmp_path / "a.parquet", row_group_size=7)
    found = read(tmp_path / "a.parquet", "parquet", size, **{declared: pa.int64()})
    assert found == [(value if declared == "v" else None,) for value in range(100)]


def test_compressed_files_are_not_divided(tmp_path: Path) -> None:
    path = tmp_path / "a.json.gz"
    with pa.CompressedOutputStream(str(path), "gzip") as out:
        out.write(b'{"v": 1}\n' * 50)
    assert read(path, "json", 5, v=pa.int64()) == [(1, None)] * 50


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_a_file_that_is_gone_or_damaged_is_one_error(tmp_path: Path, form: str) -> None:
    assert read(tmp_path / "gone", form, 5, v=pa.int64()) == [("damage",)]
    if form == "parquet":
        (tmp_path / "bad").write_text("no parquet file at all")
        assert read(tmp_path / "bad", form, 5, v=pa.int64()) == [("damage",)]


@pytest.mark.parametrize("more", [{"format": "orc"}, {"format": "json", "scan": "spark"}, {"format": "arrow"}])
def test_only_files_that_workers_divide(more: dict[str, str]) -> None:
    tables = {
        "streams": {"s": {"path": "in", "schema": "v BIGINT", "split_bytes": 1 << 20} | more},
        "transforms": {"q": {"sql": "SELECT count(*) AS n FROM s GROUP BY tumblingwindow('ss', 1)", "sink": "r"}},
        "sinks": {"r": {"format": "console"}},
    }
    with pytest.raises(ConfigError, match="files that workers read: json, csv, parquet, text"):
        parse_pipeline(tables)
