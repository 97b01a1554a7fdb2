"""The hash chain over the ledger: what was changed afterwards is found, and named."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from windowpane.checkpoint.folder import FolderStore
from windowpane.checkpoint.ledger import Entry, Ledger
from windowpane.checkpoint.ledger_chain import CHAIN, digest_of

ENTRY = Entry(0, 1, 5, {"in_": 3}, {"in_": 3}, 1, lateness={"bids/0": "3 0:1"})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for batch_id in range(5):
        Ledger(FolderStore(tmp_path)).write(replace(ENTRY, batch_id=batch_id))
    return tmp_path


def _change(folder: Path, batch_id: int, *, redigested: bool = False) -> None:
    file = folder / f"{batch_id:012}.json"
    content = json.loads(file.read_text())
    content["results"] = 99
    if redigested:
        content[CHAIN]["own"] = digest_of(content, content[CHAIN]["before"])
    file.write_text(json.dumps(content))


def test_an_unchanged_ledger_has_no_findings(folder: Path) -> None:
    check = Ledger(FolderStore(folder)).check_chain()
    assert (check.first, check.last, check.unchained, check.findings) == (0, 4, 0, [])
    assert Ledger(FolderStore(folder)).read(2) == replace(ENTRY, batch_id=2)


@pytest.mark.parametrize("redigested", [False, True])
def test_a_changed_entry_is_named(folder: Path, redigested: bool) -> None:
    """Also if whoever changed it has computed its digest again."""
    _change(folder, 2, redigested=redigested)
    assert [batch for batch, _ in Ledger(FolderStore(folder)).check_chain().findings] == [2]


def test_a_replayed_batch_keeps_the_chain(folder: Path) -> None:
    Ledger(FolderStore(folder)).write(replace(ENTRY, batch_id=4, results=7))
    Ledger(FolderStore(folder)).write(replace(ENTRY, batch_id=5))
    assert Ledger(FolderStore(folder)).check_chain().findings == []


def test_an_entry_of_an_earlier_version_is_accepted(folder: Path) -> None:
    """A chain begins behind it."""
    for batch_id in (0, 1, 2, 3, 4):
        file = folder / f"{batch_id:012}.json"
        content = json.loads(file.read_text())
        del content[CHAIN], content["lateness"]
        file.write_text(json.dumps(content))
    ledger = Ledger(FolderStore(folder))
    assert ledger.read(4) == replace(ENTRY, batch_id=4, lateness={})
    ledger.write(replace(ENTRY, batch_id=5))
    ledger.write(replace(ENTRY, batch_id=6))
    check = ledger.check_chain()
    assert (check.first, check.unchained, check.findings) == (5, 5, [])


def test_a_removed_digest_is_found(folder: Path) -> None:
    file = folder / f"{2:012}.json"
    content = json.loads(file.read_text())
    del content[CHAIN]
    file.write_text(json.dumps(content))
    assert [batch for batch, _ in Ledger(FolderStore(folder)).check_chain().findings] == [2]
