"""Nothing but a store opens a path of the checkpoint, and two modules know Spark's logs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "windowpane"
STORES = ("checkpoint/folder.py", "checkpoint/object_store.py", "checkpoint/hadoop_store.py")
OPENING = {
    "Path", "open", "read_text", "read_bytes", "write_text", "write_bytes", "unlink", "mkdir", "rmdir", "iterdir",
    "glob", "rglob", "rmtree", "rename", "chmod", "touch", "exists", "is_file", "is_dir", "stat", "replace",
}  # fmt: skip
ADDRESSES = ("address(", "spark_path", "checkpoint.spark")


@cache
def texts() -> dict[str, str]:
    return {str(path.relative_to(SOURCE)): path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")}


def opening_calls(text: str) -> Iterator[ast.Call]:
    """Calls of functions that make a path or open one, by their names."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in OPENING:
                yield node


def test_only_the_place_of_a_pipeline_chooses_a_store() -> None:
    for kind in ("folder", "object_store", "hadoop_store"):
        found = [name for name, text in texts().items() if f"checkpoint.{kind} " in text]
        assert found == ["runtime/location.py"], kind


def test_modules_of_the_checkpoint_touch_no_file() -> None:
    for name, text in texts().items():
        if name.startswith("checkpoint/") and name not in (*STORES, "checkpoint/addresses.py"):
            assert not [each for each in ("pathlib", "shutil", "durable", "tempfile") if f"{each} import" in text], name


def test_addresses_of_a_store_are_for_messages_and_for_spark() -> None:
    """No path is made of one, and no function that opens a file gets one."""
    for name, text in texts().items():
        if name not in STORES and any(each in text for each in ADDRESSES):
            for call in opening_calls(text):
                given = " ".join(ast.unparse(each) for each in [*call.args, *call.keywords])
                assert not any(each in given for each in ADDRESSES), f"{name}:{call.lineno}"


def test_spark_logs_are_read_in_one_module_and_carried_over_in_two_others() -> None:
    known = ("offsets/", '"offsets"', "commits/", '"commits"', "logOffset", "batchTimestampMs")
    found = {name for name, text in texts().items() if any(each in text for each in known)}
    assert found == {"checkpoint/offset_log.py", "checkpoint/generations.py", "checkpoint/spark_files.py"}
