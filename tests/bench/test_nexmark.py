"""The benchmark's streams: the same from a seed, as disordered, late and skewed as asked for, in every format."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pytest

from bench.nexmark.datasets import write_dataset
from bench.nexmark.generator import COLUMNS, Shape, chunk, flush_row
from bench.nexmark.queries import QUERIES
from bench.nexmark.result_check import Mismatch, compare, connect
from windowpane.testing import Harness

ROWS = 20_000


def behind_ms(shape: Shape) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """How far each row is behind the latest before it."""
    times_us = chunk("bids", shape, 0, ROWS)["ts"].cast("int64").to_numpy()
    return np.asarray((np.maximum.accumulate(times_us) - times_us) // 1000)


def test_chunks_of_a_stream_are_the_same_again_and_differ_from_one_another() -> None:
    assert chunk("bids", Shape(), 500, 100).equals(chunk("bids", Shape(), 500, 100))
    assert not chunk("bids", Shape(), 0, 100).equals(chunk("bids", Shape(seed=8), 0, 100))
    assert chunk("persons", Shape(), 500, 100)["id"].to_pylist() == list(range(500, 600))


def test_disorder_stays_within_its_bound_and_late_rows_beyond_it() -> None:
    assert not behind_ms(Shape(out_of_order=0)).any()
    disordered = behind_ms(Shape(disorder_ms=2_000))
    assert 0 < disordered.max() < 2_000
    late = behind_ms(Shape(late=0.1, late_ms=30_000)) > 2_000
    assert 0.08 < late.mean() < 0.12


@pytest.mark.parametrize(("skew", "share"), [(0.0, 0.001), (1.0, 0.134)])
def test_skew_gives_the_first_key_its_share(skew: float, share: float) -> None:
    keys = chunk("bids", Shape(skew=skew), 0, ROWS)["auction"].to_numpy()
    assert (keys == 0).mean() == pytest.approx(share, abs=0.01)


def test_json_and_the_readers_files_hold_the_same_rows_as_parquet(tmp_path: Path) -> None:
    for file_format in ("parquet", "json"):
        data = write_dataset(
            tmp_path / file_format, ("bids",), Shape(), ROWS, file_rows=ROWS // 4, file_format=file_format,
            for_readers=True, flush=True,
        )  # fmt: skip
        assert len(list(data.folders["bids"].iterdir())) == 5
        assert len(list(data.reader_folders["bids"].iterdir())) == 2
    sums = "count(*), sum(price), sum(epoch_us(ts)), max(url)"
    counted = {
        connect({"bids": tmp_path / name / folder}, name).execute(f"SELECT {sums} FROM bids").fetchone()
        for name in ("parquet", "json")
        for folder in ("bids", "bids-readers")
    }
    assert len(counted) == 1
    first = (tmp_path / "json" / "bids" / "000000.json").read_text(encoding="utf-8").splitlines()[0]
    assert set(json.loads(first)) == {"auction", "bidder", "price", "channel", "url", "ts"}


def test_the_row_that_completes_all_has_the_types_of_its_stream() -> None:
    for stream in COLUMNS:
        assert flush_row(stream, 10, Shape()).schema == chunk(stream, Shape(), 0, 1).schema


@pytest.mark.parametrize("change", ["", "WHERE n > 1", "UNION ALL (FROM kept ORDER BY window_end LIMIT 1)"])
def test_results_are_compared_row_by_row(tmp_path: Path, change: str) -> None:
    query = QUERIES["session"]
    shape = replace(query.shape, per_second=50)
    data = write_dataset(tmp_path / "data", ("bids",), shape, ROWS, file_rows=ROWS, flush=True)
    (tmp_path / "results").mkdir()
    database = duckdb.connect()
    database.execute(f"CREATE VIEW bids AS FROM read_parquet('{data.folders['bids']}/*')")
    stamped = (
        "SELECT * REPLACE (make_timestamp(window_start) AS window_start, make_timestamp(window_end) AS window_end)"
    )
    database.execute(f"CREATE TABLE kept AS {stamped} FROM ({query.duckdb})")
    database.execute(f"COPY (FROM kept {change}) TO '{tmp_path}/results/part.parquet'")
    if change:
        with pytest.raises(Mismatch, match="missing"):
            compare(query, data, tmp_path / "results")
    else:
        assert compare(query, data, tmp_path / "results") > 1000


def test_flinks_spelling_of_hot_items_runs_here_and_gives_the_same() -> None:
    query, rows = QUERIES["q5"], chunk("bids", Shape(per_second=20, keys=5), 0, 200)
    assert query.windowpane != query.flink
    found = []
    for sql in (query.windowpane, query.flink):
        schema = "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, ts TIMESTAMP"
        bids = {"schema": schema, "eventtime": {"column": "ts", "type": "timestamp"}}
        harness = Harness(sql, streams={"bids": bids}, options={"eventtime.enabled": True, "max_future_skew": "off"})
        found.append(harness.push(rows.to_pylist()).rows + harness.end().rows)
    assert found[0]
    assert found[0] == found[1]
