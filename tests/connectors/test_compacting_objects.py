"""Small result files in a bucket become few: every row is there once, also after a compaction that was killed."""

from __future__ import annotations

import json

import pytest

from scripts.servers import S3
from tests.runtime.test_compacting import files, name
from windowpane.remote.access import Access
from windowpane.runtime import compacting_objects
from windowpane.runtime.compacting_objects import _Folder, compact_objects

pytestmark = [pytest.mark.slow, pytest.mark.s3]


@pytest.fixture
def folder(s3: S3, request: pytest.FixtureRequest) -> _Folder:
    """Five batches, of which the last may be written again, and what others have there."""
    made = _Folder(f"s3a://{s3.bucket}/compact/{request.node.name}", Access.of_spark(s3.settings))
    for batch in range(5):
        made.put(name(batch), json.dumps({"n": batch}).encode() + b"\n")
    made.put("other.json", b'{"n": 99}\n')
    made.put("below/" + name(0), b'{"n": 98}\n')
    return made


def rows(folder: _Folder) -> list[int]:
    names = sorted(each for each in folder.sizes() if not each.startswith("_"))
    return [json.loads(line)["n"] for each in names for line in folder.get(each).splitlines()]


def test_rows_stay_in_order_and_once(folder: _Folder) -> None:
    assert compact_objects(folder.address, folder.access, files()) == (5, 2)
    assert rows(folder) == [99, 0, 1, 2, 3, 4]
    assert sorted(folder.sizes()) == ["other.json", name(3), name(4)]
    assert folder.get(name(3)) == b'{"n": 0}\n{"n": 1}\n{"n": 2}\n{"n": 3}\n'
    assert compact_objects(folder.address, folder.access, files()) == (2, 2)


@pytest.mark.parametrize("at", ["merged", "deleted"])
def test_a_compaction_that_is_killed(folder: _Folder, monkeypatch: pytest.MonkeyPatch, at: str) -> None:
    """Before or after the merged object is there: the next one ends it."""

    class KilledError(BaseException):
        pass

    put, delete = _Folder.put, _Folder.delete

    def killing_put(self: _Folder, key: str, content: object) -> None:
        if at == "merged" and key == name(3):
            raise KilledError
        put(self, key, content)  # type: ignore[arg-type]

    def killing_delete(self: _Folder, names: list[str]) -> None:
        if names and names != [compacting_objects._MARK]:
            delete(self, names[:1])
            raise KilledError
        delete(self, names)

    with monkeypatch.context() as patched:
        patched.setattr(_Folder, "put", killing_put)
        patched.setattr(_Folder, "delete", killing_delete)
        with pytest.raises(KilledError):
            compact_objects(folder.address, folder.access, files())
    compact_objects(folder.address, folder.access, files())
    assert rows(folder) == [99, 0, 1, 2, 3, 4]
    assert compacting_objects._MARK not in folder.sizes()
