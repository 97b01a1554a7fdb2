"""Spark's logs in the checkpoint: which files a micro-batch has."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from windowpane.checkpoint.folder import FolderStore
from windowpane.checkpoint.offset_log import OffsetLog


def plan(folder: Path, batch_id: int, *offsets: object) -> None:
    lines = ["v1", json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 1000 + batch_id, "conf": {}})]
    path = folder / "offsets" / str(batch_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*lines, *map(json.dumps, offsets)]), encoding="utf-8")


def log(folder: Path, source: int, name: str, files: Mapping[str, int]) -> None:
    path = folder / "sources" / str(source) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    entries = [{"path": file, "timestamp": 500, "batchId": batch} for file, batch in files.items()]
    path.write_text("\n".join(["v1", *map(json.dumps, entries)]), encoding="utf-8")


def test_the_log_of_files_is_read_after_it_was_made_compact(tmp_path: Path) -> None:
    log(tmp_path, 0, "9.compact", {f"file:///in/{batch}.json": batch for batch in range(10)})
    for batch in (4, 5, 8, 9):
        plan(tmp_path, batch, {"logOffset": batch}, 17)
    log_of_query = OffsetLog(FolderStore(tmp_path))
    assert log_of_query.batch_files(9) == ["file:///in/9.json"]
    assert log_of_query.batch_files(5) == ["file:///in/5.json"], "its own file is gone"
