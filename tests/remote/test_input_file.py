"""Workers read objects as they read files."""

from __future__ import annotations

import gzip
import io
from dataclasses import replace

import hdfs_native
import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scripts.servers import S3, Hdfs
from windowpane.remote.access import Access
from windowpane.remote.input_file import InputFile
from windowpane.remote.objects import client, key_of
from windowpane.scan.columnar_files import read_arrow, read_parquet
from windowpane.scan.files import FileReader
from windowpane.scan.json.files import read_batches
from windowpane.scan.scan import Damage

SCHEMA = pa.schema([("k", pa.int64()), ("s", pa.string())])
ROWS = pa.table({"k": list(range(70_000)), "s": ["ä" * 20] * 70_000})


def put(server: S3, name: str, data: bytes) -> InputFile:
    address, access = f"s3a://{server.bucket}/input files/{name}", Access.of_spark(server.settings)
    obstore.put(client(address, access), key_of(address), data)
    return InputFile(address, access)


def test_parquet_arrow_and_json_are_read_by_ranges(s3: S3) -> None:
    parquet, arrow = io.BytesIO(), io.BytesIO()
    pq.write_table(ROWS, parquet, row_group_size=30_000)
    with pa.ipc.new_file(arrow, ROWS.schema) as writer:
        writer.write_table(ROWS, max_chunksize=20_000)
    assert pa.Table.from_batches(read_parquet(put(s3, "a.parquet", parquet.getvalue()), SCHEMA, 1 << 20)) == ROWS
    assert pa.Table.from_batches(read_arrow(put(s3, "a.arrow", arrow.getvalue()), SCHEMA, 1 << 20)) == ROWS
    lines = b"".join(b'{"k": %d, "s": "x"}\n' % number for number in range(1000))
    for name, data in (("a.json", lines), ("a.json.gz", gzip.compress(lines))):
        found = pa.Table.from_batches(read_batches(put(s3, name, data), SCHEMA, 1 << 20))
        assert found.column("k").to_pylist() == list(range(1000))
    assert pa.Table.from_batches(read_batches(put(s3, "e.json", b""), SCHEMA, 1 << 20), SCHEMA).num_rows == 0
    whole = put(s3, "a.json", lines)
    parts = [replace(whole, start=start, end=start + 5_000) for start in range(0, len(lines), 5_000)]
    divided = pa.Table.from_batches([batch for part in parts for batch in read_batches(part, SCHEMA, 1 << 20)])
    assert divided.column("k").to_pylist() == list(range(1000))


def test_a_missing_or_damaged_object_is_damage(s3: S3) -> None:
    damaged = put(s3, "b.parquet", b"PAR1 and nothing else")
    reader = FileReader(read_parquet, tuple(zip(SCHEMA.names, SCHEMA.types, strict=True)), 1 << 20, damaged.access)
    for path in (damaged.path, f"s3a://{s3.bucket}/none.parquet"):
        (found,) = reader.contents(InputFile(path, damaged.access))
        assert isinstance(found, Damage)
        assert found.detail.startswith(f"{path}: ")


@pytest.mark.hdfs
def test_files_of_hdfs_are_read_by_ranges(hdfs: Hdfs) -> None:
    parquet = io.BytesIO()
    pq.write_table(ROWS, parquet, row_group_size=30_000)
    lines = b"".join(b'{"k": %d, "s": "x"}\n' % number for number in range(1000))
    client = hdfs_native.Client(hdfs.url)
    client.mkdirs("/input files/ü", create_parent=True)
    for name, data in (("a.parquet", parquet.getvalue()), ("a.json.gz", gzip.compress(lines)), ("e.json", b"")):
        with client.create(f"/input files/ü/{name}") as file:
            file.write(data)
    given = {name: InputFile(f"{hdfs.url}/input files/ü/{name}") for name in ("a.parquet", "a.json.gz", "e.json")}
    assert pa.Table.from_batches(read_parquet(given["a.parquet"], SCHEMA, 1 << 20)) == ROWS
    found = pa.Table.from_batches(read_batches(given["a.json.gz"], SCHEMA, 1 << 20))
    assert found.column("k").to_pylist() == list(range(1000))
    assert pa.Table.from_batches(read_batches(given["e.json"], SCHEMA, 1 << 20), SCHEMA).num_rows == 0
    reader = FileReader(read_parquet, tuple(zip(SCHEMA.names, SCHEMA.types, strict=True)), 1 << 20)
    (missing,) = reader.contents(InputFile(f"{hdfs.url}/none.parquet"))
    assert isinstance(missing, Damage)
    assert missing.detail.startswith(f"{hdfs.url}/none.parquet: ")
