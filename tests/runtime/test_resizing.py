"""The limits of a transform while it runs: for whom they move, what is remembered, and what of it survives damage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from windowpane.checkpoint.transform import Checkpoint
from windowpane.config import parse_pipeline
from windowpane.connectors.limits import FILE_BYTES, KAFKA_RECORDS, Limits
from windowpane.plan.pipeline import plan_pipeline
from windowpane.runtime.resizing import SIZE_FILE, Resizing, resizing

FILES = {"format": "json", "path": "in", "schema": "k STRING", "options": {}}
KAFKA = {"format": "kafka", "schema": "k STRING", "options": {"kafka.bootstrap.servers": "h:1", "subscribe": "t"}}
QUERY = "SELECT k, count(*) AS n FROM {} GROUP BY tumblingwindow('ss', 10), k"
UNION = "(SELECT k FROM files UNION ALL SELECT k FROM topic) AS u"


def made(folder: Path, source: str = "files", files: Any = FILES, **options: Any) -> Resizing | None:
    settings = {
        "streams": {"files": files, "topic": KAFKA},
        "options": options,
        "transforms": {"q": {"sql": QUERY.format(source), "sink": "out"}},
        "sinks": {"out": {"format": "console"}},
    }
    config = parse_pipeline(settings, base_dir=folder)
    return resizing(config, plan_pipeline(config)[0], Checkpoint(folder / "state" / "q"))


def begun(folder: Path, source: str = "files", **options: Any) -> Resizing:
    found = made(folder, source, **options)
    assert found is not None
    found.begun()
    return found


def plan_file(folder: Path, batch_id: int, size: int) -> None:
    """What Spark writes before a micro-batch of one file."""
    spark = folder / "state" / "q" / "spark"
    data = folder / "in" / f"{batch_id}.json"
    for path in (spark / "offsets", spark / "sources" / "0", data.parent):
        path.mkdir(parents=True, exist_ok=True)
    with data.open("wb") as file:
        file.truncate(size)
    entry = {"path": data.as_uri(), "timestamp": 1, "batchId": batch_id}
    (spark / "sources" / "0" / str(batch_id)).write_text(f"v1\n{json.dumps(entry)}", encoding="utf-8")
    metadata = json.dumps({"batchTimestampMs": 1000})
    (spark / "offsets" / str(batch_id)).write_text(f'v1\n{metadata}\n{{"logOffset":{batch_id}}}', encoding="utf-8")


def run(found: Resizing, folder: Path, seconds: list[float], size: int = FILE_BYTES) -> int | None:
    """Micro-batches of one file each; gives the batch before which the query is to begin again."""
    for batch_id, took in enumerate(seconds):
        plan_file(folder, batch_id, size)
        if found.is_to_change(batch_id):
            return batch_id
        found.took(took)
    return None


def test_a_limit_grows_is_told_and_is_there_after_a_restart(tmp_path: Path) -> None:
    found = begun(tmp_path)
    assert found.told() == {"target_us": 5_000_000, "bytes": FILE_BYTES}
    assert run(found, tmp_path, [9.0, 0.5, 0.5, 0.5, 0.5, 0.5]) == 4
    told = found.told()
    assert (told["bytes"], told["changed"]["from"], told["changed"]["after_batch"]) == (
        4 * FILE_BYTES,
        {"bytes": FILE_BYTES},
        3,
    )
    assert begun(tmp_path).told() == told


def test_a_stream_that_is_caught_up_keeps_its_limit(tmp_path: Path) -> None:
    assert run(begun(tmp_path), tmp_path, [0.5] * 20, size=1000) is None
    assert not (tmp_path / "state" / "q" / SIZE_FILE).exists()


def test_a_batch_whose_sink_was_away_says_nothing(tmp_path: Path) -> None:
    found = begun(tmp_path)
    for batch_id in range(10):
        plan_file(tmp_path, batch_id, FILE_BYTES)
        assert not found.is_to_change(batch_id), "no one has said how long the one before took"


DAMAGED = (
    "", "{", "[]", "{}", '{"scale": "much"}', '{"scale": null}', '{"scale": NaN}', '{"scale": 2, "changed": 7}',
    '{"scale": 2, "changed": {"at_us": 1}}', '{"scale": 2, "changed": {"at_us": 1, "after_batch": 1, "from": 1}}',
)  # fmt: skip


@pytest.mark.parametrize("text", DAMAGED)
def test_a_file_that_cannot_be_read_is_as_good_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "state" / "q").mkdir(parents=True)
    (tmp_path / "state" / "q" / SIZE_FILE).write_text(text, encoding="utf-8")
    assert begun(tmp_path).limits == Limits(FILE_BYTES, KAFKA_RECORDS)


def test_a_checkpoint_that_looks_otherwise_changes_nothing(tmp_path: Path) -> None:
    found = begun(tmp_path)
    assert not found.is_to_change(0)
    plan_file(tmp_path, 1, FILE_BYTES)
    (tmp_path / "state" / "q" / "spark" / "offsets" / "1").write_text("v9\nnothing known", encoding="utf-8")
    found.took(0.1)
    assert not found.is_to_change(1)


def test_for_whom_limits_move(tmp_path: Path) -> None:
    own = FILES | {"options": {"maxFilesPerTrigger": 1}}
    assert made(tmp_path, files=own) is None
    assert made(tmp_path, batch_target="off") is None
    assert made(tmp_path, "topic", max_rows_per_batch=10) is None
    assert begun(tmp_path, "topic", batch_target="30s").told() == {"target_us": 30_000_000, "records": KAFKA_RECORDS}
    assert set(begun(tmp_path, UNION).told()) == {"target_us", "bytes", "records"}
    assert set(begun(tmp_path, UNION, max_rows_per_batch=10).told()) == {"target_us", "bytes"}
    mixed = made(tmp_path, UNION, own)
    assert mixed is not None
    assert set(mixed.told()) == {"target_us", "records"}
