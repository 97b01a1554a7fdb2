"""Which files a path of a stream stands for, on a disk and in a bucket: as Spark lists them, oldest first."""

from __future__ import annotations

import os
from pathlib import Path

import obstore
import pytest

from scripts.servers import S3
from windowpane.errors import ConfigError
from windowpane.remote.access import Access
from windowpane.remote.objects import client
from windowpane.remote.source_files import _root, expanded, source_files

NAMES = ("b.json", "a.json", "c.csv", "_hidden.json", ".hidden.json", "dt=1/d.json", "_tmp/e.json", "below/f.json")


def names(path: str, **more: object) -> list[str]:
    return [file.path.removeprefix(path.rstrip("/*")).lstrip("/") for file in source_files(path, **more)]  # type: ignore[arg-type]


def test_files_of_a_folder(tmp_path: Path) -> None:
    for age, name in enumerate(NAMES):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")
        os.utime(tmp_path / name, (1e9 + age, 1e9 + age))
    assert names(str(tmp_path)) == ["b.json", "a.json", "c.csv", "dt=1/d.json"]
    assert names(str(tmp_path), recursive=True) == ["b.json", "a.json", "c.csv", "dt=1/d.json", "below/f.json"]
    assert names(str(tmp_path), name_filter="*.{json,txt}") == ["b.json", "a.json", "dt=1/d.json"]
    assert [file.name for file in source_files(f"{tmp_path}/*.json")] == ["b.json", "a.json"]
    assert [file.name for file in source_files(f"{tmp_path}/{{a,c}}.*")] == ["a.json", "c.csv"]
    assert [file.name for file in source_files(f"file:{tmp_path}/a.json")] == ["a.json"]


@pytest.mark.parametrize(
    ("key", "pattern", "root"),
    [
        ("in/a.json", "in", "in"), ("in/dt=1/a.json", "in", "in"), ("in/a.json", "in/a.json", "in"),
        ("in/dt=1/a.json", "in/dt=*", "in/dt=1"), ("in/dt=1/a.json", "in/*.json", None), ("into/a", "in", None),
        ("a.json", "", ""), ("in/a.json", "in/*.json", "in"),
    ],
)  # fmt: skip
def test_the_folder_of_an_object(key: str, pattern: str, root: str | None) -> None:
    assert _root(key, [pattern]) == root


def test_braces() -> None:
    assert expanded("{a,b}/{c,d}") == ["a/c", "a/d", "b/c", "b/d"]
    assert expanded("a{") == ["a{"]


def test_files_of_a_bucket(s3: S3) -> None:
    access, root = Access.of_spark(s3.settings), f"s3a://{s3.bucket}/listed"
    for name in NAMES:
        obstore.put(client(root, access), f"listed/{name}", b"{}")
    assert set(names(root, access=access)) == {"b.json", "a.json", "c.csv", "dt=1/d.json"}
    assert {file.name for file in source_files(f"{root}/*.json", access)} == {"a.json", "b.json"}
    assert {file.name for file in source_files(f"{root}/dt=*", access)} == {"d.json"}
    assert [file.path for file in source_files(f"{root}/a.json", access)] == [f"{root}/a.json"]
    with pytest.raises(ConfigError, match="there is no object"):
        source_files(f"{root}-none", access)
