"""A store in memory, shared by everything that is below one root: the contract of `Store` without a file system."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

from windowpane.checkpoint.folder import FolderStore
from windowpane.checkpoint.lease import StoreLease
from windowpane.checkpoint.store import Store, adopt_by_reading, exchange_by_comparison, unwritable


@dataclass
class MemoryStore:
    """Objects by their whole names."""

    root: str = "memory:"
    objects: dict[str, bytes] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)
    fence: ClassVar[int] = 0

    def address(self, name: str = "") -> str:
        return f"{self.root}/{name}" if name else self.root

    def spark_path(self, name: str = "") -> str:
        return self.address(name)

    def make_folder(self, name: str) -> None:
        pass

    def below(self, name: str) -> Self:
        return type(self)(self.address(name), self.objects, self.lock)

    def create(self, name: str, data: bytes) -> bool:
        with self.lock:
            if self.exists(name):
                return False
            self.replace(name, data)
            return True

    def replace(self, name: str, data: bytes, *, durable: bool = True) -> None:
        with self.lock:
            if self.below(name).names():
                raise unwritable(self.address(name), "it is a folder")
            self.objects[self.address(name)] = data

    def exchange(self, name: str, data: bytes, known: bytes | None) -> bool:
        with self.lock:
            return exchange_by_comparison(self, name, data, known)

    def read(self, name: str) -> bytes | None:
        return self.objects.get(self.address(name))

    def exists(self, name: str) -> bool:
        return self.address(name) in self.objects or bool(self.below(name).names())

    def names(self) -> list[str]:
        with self.lock:
            inside = f"{self.root}/"
            return sorted({key.removeprefix(inside).split("/")[0] for key in self.objects if key.startswith(inside)})

    def move(self, name: str, to: str) -> None:
        with self.lock:
            data = self.read(name)
            if data is not None:
                self.replace(to, data)
                self.delete(name)

    def copy(self, name: str, to: str) -> None:
        with self.lock:
            whole, inside = self.address(name), f"{self.address(name)}/"
            found = {key: data for key, data in self.objects.items() if key == whole or key.startswith(inside)}
            for key, data in found.items():
                self.objects[self.address(to) + key.removeprefix(whole)] = data

    def adopt(self, source: Store, name: str, to: str) -> bool:
        return adopt_by_reading(self, source, name, to)

    def sizes(self, name: str) -> dict[str, int]:
        with self.lock:
            inside = f"{self.address(name)}/" if name else f"{self.root}/"
            return {key.removeprefix(inside): len(data) for key, data in self.objects.items() if key.startswith(inside)}

    def delete(self, name: str, *, durable: bool = True) -> None:
        self.objects.pop(self.address(name), None)

    def clear(self, name: str) -> None:
        with self.lock:
            self.delete(name)
            inside = f"{self.address(name)}/"
            for key in [key for key in self.objects if key.startswith(inside)]:
                del self.objects[key]

    def sync(self, name: str) -> None:
        pass

    def sweep(self) -> None:
        pass

    def lease(self, name: str) -> StoreLease:
        return StoreLease(self, f"{name}.lease", seconds=1.0)


ON_DISK = ("spark", "reinject", "results")


class SparkOnDisk(MemoryStore):
    """Keeps everything in memory but the folders that Spark and its workers read and write, which are below `root`."""

    def below(self, name: str) -> Any:
        if name in ON_DISK:
            return FolderStore(Path(self.address(name)))
        return super().below(name)

    def spark_path(self, name: str = "") -> str:
        assert name in ON_DISK
        return str((Path(self.root) / name).resolve())

    def make_folder(self, name: str) -> None:
        if name in ON_DISK:
            FolderStore(Path(self.root)).make_folder(name)

    def clear(self, name: str) -> None:
        if name == "reinject":
            FolderStore(Path(self.root)).clear(name)
        super().clear(name)
