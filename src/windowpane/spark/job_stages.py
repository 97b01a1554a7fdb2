"""The stages of all transforms that one Spark query runs. Workers import this.

Each transform has a tag. Messages, state entries and outputs of several transforms travel together, marked by tag. The
first transform of a query may have the empty tag: its entries and outputs are not marked, nor are messages as long as
it is the only one. Versions of a transform, of which one hands its windows over to the next, have a tag each.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from windowpane.core.blob import Blob
from windowpane.core.state import EntryMap
from windowpane.spark.stages import Stages

ALONE = ""
"""The tag of a transform that is a job by itself."""
_BEFORE_TAG, _AFTER_TAG = "@", ":"
_LENGTH, _ALIGNMENT = 4, 64
"""Bytes that hold the length of a description, and the multiple at which each part begins."""


@dataclass(frozen=True)
class JobStages:
    """Stages by tag, in the order of the job."""

    members: Mapping[str, Stages]
    last_step: int
    """How many shuffles the query has. A transform may have fewer."""
    is_tagged: bool = True
    """Whether messages are marked by tag."""
    follows: Mapping[str, str] = field(default_factory=dict)
    """For versions of a transform, the one before: a new version goes on at the time that this one has reached."""

    @classmethod
    def of(
        cls, members: Mapping[str, Stages], *, steps: int = 0, follows: Mapping[str, str] | None = None
    ) -> JobStages:
        """`steps`: how many shuffles the query has at least."""
        last_step = max(steps, *(stages.last_step for stages in members.values()))
        return cls(members, last_step, list(members) != [ALONE], dict(follows or {}))

    @classmethod
    def alone(cls, stages: Stages) -> JobStages:
        """One transform."""
        return cls.of({ALONE: stages})

    @property
    def shards(self) -> int:
        return next(iter(self.members.values())).shards

    @property
    def feedback(self) -> bool:
        return next(iter(self.members.values())).feedback

    def only(self, tags: Collection[str]) -> JobStages:
        """The same query with some of its transforms."""
        return replace(self, members={tag: stages for tag, stages in self.members.items() if tag in tags})

    def at(self, step: int) -> dict[str, Stages]:
        """The transforms that have a stage at this step."""
        return {tag: stages for tag, stages in self.members.items() if step <= stages.last_step}

    def pack(self, parts: Mapping[str, bytes]) -> bytes:
        """What one sender sends to one shard, of all transforms."""
        return pack_parts(parts) if self.is_tagged else parts[ALONE]

    def unpack(self, message: Blob) -> dict[str, Blob]:
        """What `pack` was given."""
        return unpack_parts(message) if self.is_tagged else {ALONE: message}


def tagged(kind: str, tag: str) -> str:
    """The kind of an output row of a transform."""
    return f"{kind}{_BEFORE_TAG}{tag}" if tag else kind


def untagged(kind: str) -> tuple[str, str]:
    """Kind and tag of what `tagged` has given."""
    bare, _, tag = kind.partition(_BEFORE_TAG)
    return bare, tag


def entries_of(entries: EntryMap, tag: str) -> EntryMap:
    """The state entries of a transform."""
    return entries.below(f"{tag}{_AFTER_TAG}") if tag else entries.unmarked(_AFTER_TAG)


def pack_parts(parts: Mapping[str, bytes]) -> bytes:
    """Blobs by name as one, each where its columns can be used in place. An object with several names is in it once."""
    distinct = {id(data): data for data in parts.values()}
    numbers = {identity: number for number, identity in enumerate(distinct)}
    sizes, names = [len(data) for data in distinct.values()], {name: numbers[id(each)] for name, each in parts.items()}
    description = json.dumps([sizes, names], separators=(",", ":")).encode()
    description += b" " * (-(_LENGTH + len(description)) % _ALIGNMENT)
    padded = [piece for data in distinct.values() for piece in (data, bytes(-len(data) % _ALIGNMENT))]
    return b"".join([len(description).to_bytes(_LENGTH, "little"), description, *padded])


def unpack_parts(data: Blob) -> dict[str, Blob]:
    """What `pack_parts` was given, as views."""
    whole = pa.py_buffer(data)
    length = int.from_bytes(whole.slice(0, _LENGTH).to_pybytes(), "little")
    sizes, names = json.loads(whole.slice(_LENGTH, length).to_pybytes())
    at, found = _LENGTH + length, list[Blob]()
    for size in sizes:
        found.append(whole.slice(at, size))
        at += size + -size % _ALIGNMENT
    return {name: found[number] for name, number in names.items()}
