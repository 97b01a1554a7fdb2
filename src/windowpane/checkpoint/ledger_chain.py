"""The hash chain over the ledger: each file has the digest of the file before it, and of itself.

A file that was changed no longer has its digest. One that was changed together with its digest no longer is the one
that the next file names. Ledgers of earlier versions have no digests; the chain begins with the first file that does.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

CHAIN = "chain"
"""The key of the digests in a file."""
_BEFORE, _OWN = "before", "own"


@dataclass(frozen=True)
class Link:
    """The digests of a file. Both None in files of earlier versions."""

    before: str | None = None
    own: str | None = None


@dataclass(frozen=True)
class ChainCheck:
    """What a walk along the chain has found."""

    first: int | None = None
    """The first batch that has a digest; None if none has."""
    last: int | None = None
    head: str | None = None
    """The digest of the last batch. Whoever notes it can later prove that nothing before it was changed."""
    unchained: int = 0
    """Files of earlier versions, without a digest."""
    findings: list[tuple[int, str]] = field(default_factory=list)
    """Batches that do not fit, each with the reason."""


def link_of(content: Mapping[str, Any]) -> Link:
    """The digests that a file has."""
    found = content.get(CHAIN)
    if not isinstance(found, Mapping):
        return Link()
    before, own = found.get(_BEFORE), found.get(_OWN)
    return Link(before if isinstance(before, str) else None, own if isinstance(own, str) else None)


def chained(content: Mapping[str, Any], before: str | None) -> dict[str, Any]:
    """The content of a file with its digests."""
    return {**content, CHAIN: {_BEFORE: before, _OWN: digest_of(content, before)}}


def digest_of(content: Mapping[str, Any], before: str | None) -> str:
    """SHA-256 over the canonical JSON of a file without its digests, and the digest before it."""
    bare = {key: value for key, value in content.items() if key != CHAIN}
    text = json.dumps([before, bare], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def check_chain(files: Iterable[tuple[int, Mapping[str, Any]]]) -> ChainCheck:
    """Walk along files in order of their batches."""
    first = last = head = None
    unchained, findings = 0, list[tuple[int, str]]()
    for batch_id, content in files:
        link = link_of(content)
        if link.own is None:
            unchained += 1
            if first is not None:
                findings.append((batch_id, "it has no digest, although an earlier entry has one"))
            continue
        if link.own != digest_of(content, link.before):
            findings.append((batch_id, "its content does not have the digest that was written with it"))
        elif head is not None and last == batch_id - 1 and link.before != head:
            findings.append((batch_id - 1, f"batch {batch_id} names another digest as that of the entry before it"))
        first = batch_id if first is None else first
        last, head = batch_id, link.own
    return ChainCheck(first, last, head, unchained, findings)
