"""What the page reads from a checkpoint, and what it sends when something changes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.ui.synthetic import Synthetic
from windowpane.checkpoint.folder import FolderStore
from windowpane.checkpoint.recent import KEPT_EVENTS, EventLog, RecentFile, event_now
from windowpane.cli.app import app
from windowpane.errors import StateError
from windowpane.ui.feed import HISTORY, Feed, changes, restarted


def test_the_document_has_the_status_of_the_command(made: Synthetic) -> None:
    (made.folder / "pipeline.toml").write_text("", encoding="utf-8")
    printed = CliRunner().invoke(app, ["status", str(made.folder / "pipeline.toml"), "--json"])
    assert Feed(made.store).read()["status"] == json.loads(printed.stdout)


def test_the_document_has_plans_batches_and_partitions(made: Synthetic) -> None:
    found = Feed(made.store).read()
    assert found["plans"]["busiest"]["streams"] == ["bids"]
    assert found["plans"]["busiest"]["sinks"] == ["results"]
    assert found["plans"]["busiest"]["lateness_us"] == [5_000_000]
    assert [point["batch_id"] for point in found["history"]["turnover"]] == list(range(30))
    unread = [point["unread"] for point in found["history"]["turnover"]]
    assert unread == [None] * 29 + [{"files": 3, "messages": 1_200}], "what older batches had left is not known"
    assert found["partitions"]["busiest"]["held_by"] == "bids/3"
    assert set(found["partitions"]["busiest"]["maxima"]) == {f"bids/{number}" for number in range(4)}
    assert found["problems"] == []


def test_only_changes_are_sent(made: Synthetic) -> None:
    feed = Feed(made.store)
    before = feed.read()
    made.run(2)
    after = feed.read()
    found = changes(before, after)
    assert not restarted(before, after)
    assert [point["batch_id"] for point in found["history"]["busiest"]] == [30, 31]
    assert all(point["unread"] for point in found["history"]["busiest"]), "no gaps while the page is open"
    assert "plans" not in found
    assert "events" not in found
    assert found["partitions"]["busiest"]["batch_id"] == 31
    assert set(changes(after, after)) == set()


def test_entries_are_read_once(made: Synthetic, monkeypatch: pytest.MonkeyPatch) -> None:
    feed, read = Feed(made.store), list[str]()
    feed.read()
    original = FolderStore.read

    def noted(self: FolderStore, name: str) -> bytes | None:
        read.append(name)
        return original(self, name)

    monkeypatch.setattr(FolderStore, "read", noted)
    made.run(1)
    feed.read()
    assert [name for name in read if name.startswith("0000")].count("000000000030.json") == 2
    assert len([name for name in read if name.startswith("0000")]) == 2


def test_the_history_is_bounded(made: Synthetic) -> None:
    feed = Feed(made.store)
    made.run(HISTORY)
    assert len(feed.read()["history"]["busiest"]) == HISTORY


def test_another_process_makes_the_page_begin_anew(made: Synthetic) -> None:
    feed = Feed(made.store)
    before = feed.read()
    made.started_us += 1
    made.run(1)
    after = feed.read()
    assert restarted(before, after)
    assert [point["batch_id"] for point in after["history"]["busiest"]] == list(range(31))


def test_a_checkpoint_without_anything(tmp_path: Path) -> None:
    found = Feed(FolderStore(tmp_path / "state")).read()
    assert found["status"] is None
    assert found["plans"] == {}
    assert found["problems"] == []


@pytest.mark.parametrize("name", ["status.json", "recent.json", "events.json", "busiest/plan.json"])
def test_a_damaged_file_is_named_and_the_rest_is_shown(made: Synthetic, name: str) -> None:
    (made.folder / "state" / name).write_text("{", encoding="utf-8")
    found = Feed(made.store).read()
    assert len(found["problems"]) == 1
    assert name in found["problems"][0]


def test_changed_queries_are_events(made: Synthetic) -> None:
    path = made.folder / "state" / "busiest" / "plan.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    again = record["plans"][0] | {"change": "taken_over", "what": ["HAVING"], "since_us": 7}
    path.write_text(json.dumps(record | {"plans": [*record["plans"], again]}), encoding="utf-8")
    assert {"at_us": 7, "kind": "evolve", "text": "busiest: taken over (HAVING)"} in Feed(made.store).read()["events"]


def test_events_are_bounded_and_survive_damage(tmp_path: Path) -> None:
    log = EventLog(FolderStore(tmp_path))
    for number in range(KEPT_EVENTS + 5):
        log.add([event_now("warning", str(number))])
    assert [each["text"] for each in log.read()] == [str(number) for number in range(5, KEPT_EVENTS + 5)]
    (tmp_path / "events.json").write_text("[]", encoding="utf-8")
    with pytest.raises(StateError, match="damaged"):
        log.read()
    log.add([event_now("stopped", "again")])
    assert [each["text"] for each in log.read()] == ["again"]


def test_recent_rows_are_kept(tmp_path: Path) -> None:
    file = RecentFile(FolderStore(tmp_path))
    assert file.read() == {}
    file.write({"t": {"results": []}})
    assert file.read() == {"t": {"results": []}}
