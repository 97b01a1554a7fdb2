"""Makes few large objects of the many small ones that a stopped pipeline has written to file sinks in a bucket.

A bucket has no step in which files change places. The merged object takes the name of the last one of its group, then
the others are deleted. A mark beside them says what is to be deleted, so that the next compaction ends what one that
was killed has begun.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from windowpane.connectors.file_names import BATCH_FILE
from windowpane.connectors.merged_files import merge
from windowpane.remote.access import Access
from windowpane.remote.objects import client, key_of, obstore_module
from windowpane.runtime.compaction_groups import Files

_MARK = "_compacting.json"


@dataclass(frozen=True)
class _Folder:
    """The objects whose names begin with an address."""

    address: str
    access: Access

    def _key(self, name: str) -> str:
        return f"{key_of(self.address)}/{name}".lstrip("/")

    @property
    def _api(self) -> tuple[Any, Any]:
        return obstore_module(), client(self.address, self.access)

    def sizes(self) -> dict[str, int]:
        """The sizes of objects by name, without those of folders below."""
        api, store = self._api
        prefix = self._key("")
        found = {}
        for page in api.list(store, prefix=prefix or None):
            for each in page:
                name = str(each["path"]).removeprefix(prefix)
                if "/" not in name:
                    found[name] = int(each["size"])
        return found

    def get(self, name: str) -> bytes:
        api, store = self._api
        return bytes(api.get(store, self._key(name)).bytes())

    def put(self, name: str, content: bytes | Path) -> None:
        api, store = self._api
        api.put(store, self._key(name), content)

    def delete(self, names: Sequence[str]) -> None:
        api, store = self._api
        if names:
            api.delete(store, [self._key(name) for name in names])


def compact_objects(address: str, access: Access, files: Files, *, header: bool = False) -> tuple[int, int]:
    """Compact the objects of a folder. How many there were, and how many there are. May be repeated if it is killed."""
    folder = _Folder(address, access)
    _finish(folder)
    sizes = folder.sizes()
    before = sum(files.covers(name) for name in sizes)
    with TemporaryDirectory(prefix="windowpane-compact-") as temporary:
        local, merged = Path(temporary) / "objects", Path(temporary) / "merged"
        local.mkdir()
        merged.mkdir()
        for name, size in sizes.items():
            if files.covers(name) and size < files.target_bytes // 2:
                (local / name).write_bytes(folder.get(name))
        groups = files.groups(local)
        for group in groups:
            target = merged / group[-1].name
            merge(group, target, header=header)
            _replace(folder, [file.name for file in group], target)
    return before, before - sum(len(group) - 1 for group in groups)


def _replace(folder: _Folder, names: Sequence[str], merged: Path) -> None:
    *replaced, last = names
    mark = {"merged": last, "size": merged.stat().st_size, "replaced": replaced}
    folder.put(_MARK, json.dumps(mark).encode())
    folder.put(last, merged)
    folder.delete(replaced)
    folder.delete([_MARK])


def _finish(folder: _Folder) -> None:
    """End what a compaction has begun: the size of the merged object tells whether it is there."""
    sizes = folder.sizes()
    if _MARK not in sizes:
        return
    mark = json.loads(folder.get(_MARK))
    if sizes.get(mark["merged"]) == mark["size"]:
        folder.delete([name for name in mark["replaced"] if name in sizes and BATCH_FILE.fullmatch(name)])
    folder.delete([_MARK])
