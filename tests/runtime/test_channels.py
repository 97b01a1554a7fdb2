"""A side channel takes rows without waiting and delivers them itself: sinks that fail, hang, come back, or never do."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from windowpane.checkpoint.folder import FolderStore
from windowpane.checkpoint.outbox import Outbox, PendingBatch
from windowpane.checkpoint.reinjection_queue import ReinjectionQueue
from windowpane.connectors.sinks import Sink, SinkBatch
from windowpane.core import columns as c
from windowpane.core.side import side_batch
from windowpane.spark.channels import SideChannel
from windowpane.spark.reinjection import Reinjection
from windowpane.spark.side_output import SideOutput
from windowpane.spark.unpacking import SideRecords

SIDE_RECORDS = SideRecords("plan", "t", ("late", "error"), ("late",), (("late", 3),))


class Taking(Sink):
    """Fails its first `failures` writes, and holds each until `gate` is open."""

    def __init__(self, failures: int = 0) -> None:
        super().__init__("dlq")
        self.failures, self.taken, self.tries = failures, list[tuple[int, int]](), 0
        self.gate = threading.Event()
        self.gate.set()

    def write(self, batch: SinkBatch) -> None:
        self.tries += 1
        self.gate.wait()
        if self.failures:
            self.failures -= 1
            raise ConnectionError("the broker is away")
        self.taken.append((batch.batch_id, batch.arrow().num_rows))


def side_rows(kind: str, count: int, **columns: Any) -> pa.RecordBatch:
    rows = pa.RecordBatch.from_pydict(
        {c.EVENT_TIME: pa.array(range(count), pa.int64()), c.EVENT: [f'{{"v":{n}}}' for n in range(count)], **columns}
    )
    return side_batch(kind, "a reason", rows, clock_us=0, watermark_us=None)


def as_batch(waiting: PendingBatch, max_bytes: int | None) -> SinkBatch:
    frame: Any = None
    side_records = replace(SIDE_RECORDS, max_bytes=max_bytes)
    table = pa.table({"value": [*side_records.texts(waiting.batches), *side_records.fitted(waiting.texts)]})
    return SinkBatch(waiting.batch_id, lambda: frame, side_records=True, table=table)


Make = Callable[..., SideChannel]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[SideChannel] = []

    def make(sink: Sink, *, max_pending: int = 1000, committed: int = 10**9) -> SideChannel:
        outbox = Outbox(FolderStore(tmp_path / "outbox" / sink.name))
        channel = SideChannel(sink, SIDE_RECORDS, outbox, as_batch, max_pending=max_pending, pauses=(0.01, 0.01, 0.05))
        channel.begin(committed)
        made.append(channel)
        return channel

    yield make
    for channel in made:
        channel.close()


def hand_over(channel: SideChannel, batch_id: int, count: int = 2) -> None:
    channel.hand_over(PendingBatch(batch_id, [side_rows("late", count)]))


def test_batches_arrive_in_order_and_leave_nothing_behind(make: Make) -> None:
    channel = make(sink := Taking())
    for number in range(5):
        hand_over(channel, number, number + 1)
    assert channel.settle(10) == 0
    assert sink.taken == [(number, number + 1) for number in range(5)]
    assert channel.outbox.pending() == {}
    assert channel.status() == {"waiting": 0, "delivered": 15, "up": True, "error": None}


def test_a_sink_that_fails_for_a_while_gets_all_of_it_and_is_told_of_once(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "windowpane"):
        channel = make(sink := Taking(failures=6))
        hand_over(channel, 0)
        hand_over(channel, 1)
        assert channel.settle(10, tries=100) == 0
    assert sink.taken == [(0, 2), (1, 2)]
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2
    assert "side sink `dlq` fails: ConnectionError: the broker is away" in said[0]
    assert "accepts rows again" in said[1]


def test_a_dead_sink_holds_up_nothing_and_the_next_start_delivers(make: Make) -> None:
    dead = make(Taking(failures=10**6))
    started = time.monotonic()
    for number in range(20):
        hand_over(dead, number)
    assert dead.settle(10) == 40
    assert time.monotonic() - started < 5
    assert dead.status()["up"] is False
    assert dead.undelivered() == 40
    dead.close()
    back = make(sink := Taking())
    assert back.settle(10) == 0
    assert sink.taken == [(number, 2) for number in range(20)]


def test_what_was_never_committed_comes_again_and_is_not_delivered_from_the_outbox(make: Make) -> None:
    dead = make(Taking(failures=10**6))
    for number in range(3):
        hand_over(dead, number)
    dead.close()
    back = make(sink := Taking(), committed=1)
    assert back.settle(10) == 0
    assert sink.taken == [(0, 2), (1, 2)]


def test_a_sink_that_hangs_is_not_waited_for_beyond_the_time_given(make: Make) -> None:
    sink = Taking()
    sink.gate.clear()
    channel = make(sink)
    hand_over(channel, 0)
    started = time.monotonic()
    assert channel.settle(0.3) == 2
    assert time.monotonic() - started < 2
    sink.gate.set()
    assert channel.settle(10) == 0


def test_at_a_graceful_end_a_dead_sink_is_tried_a_few_times(make: Make) -> None:
    sink = Taking(failures=10**6)
    channel = make(sink)
    hand_over(channel, 0)
    assert channel.settle(60, tries=4) == 2
    assert 4 <= sink.tries < 10
    assert "".join(channel.undelivered_records()).count('"kind": "late"') == 2


def test_limits_and_room_are_shared_among_kinds_and_what_is_beyond_is_not_taken(make: Make) -> None:
    channel = make(Taking(failures=10**6), max_pending=10)
    output = SideOutput({"dlq": channel})
    dlq = {"late": 8, "error": 9, "duplicate": 4}
    assert output.allowed(dlq, 0) == {"late": 3, "error": 7, "duplicate": 4}, "3 a second, and room for 10"
    assert output.allowed(dlq, 2_000_000) == {"late": 6, "error": 4, "duplicate": 4}
    rows = [side_rows("late", 5), side_rows("error", 9)]
    output.hand_over(0, rows, {"late": 3, "error": 5}, error_records=lambda _: ["{}"], clear=False)
    waiting = channel.outbox.read(0)
    assert [(batch.num_rows, batch.column("kind")[0].as_py()) for batch in waiting.batches] == [
        (3, "late"),
        (5, "error"),
    ]
    assert waiting.batches[0].column("original_event").null_count == 0
    assert waiting.batches[1].column("original_event").null_count == 5, "not asked for"
    assert waiting.texts == ("{}",)
    assert channel.room() == 1


def test_rows_go_round_with_their_count_until_it_is_enough(tmp_path: Path) -> None:
    again = Reinjection(ReinjectionQueue(FolderStore(tmp_path)), "s", {"late": 2}, {"late": 4})
    counts = pa.array([None, 1, 2, None, None, None], pa.int32())
    rows = [side_rows("late", 6, **{c.REINJECTIONS: counts}), side_rows("error", 2)]
    parted = again.split(rows, seconds=1)
    assert parted.counts == {"late": 4}, "the third has gone round twice, the last is beyond the rate"
    assert parted.lines == {
        "s": [
            f'{{"v":{value},"_shard":"s/0","_reinjections":{count}}}'
            for value, count in ((0, 1), (1, 2), (3, 1), (4, 1))
        ]
    }
    assert [batch.num_rows for batch in parted.rows] == [2, 2]
    again.queue.put(7, parted.lines)
    assert (tmp_path / "s" / "000000000007.json").read_text().count("\n") == 4
    again.queue.forget_after(6)
    assert (tmp_path / "s" / "000000000007.json").read_text() == "\n"


def test_a_record_that_is_not_utf8_or_no_json_elsewhere_is_delivered_with_what_is_behind_it(make: Make) -> None:
    """Bytes that are no text, half a surrogate pair, numbers that JSON does not have or Python does not read."""
    odd = [b'{"v":"\xff\xfe"}', b'{"v":"\\ud800"}', b'{"v":NaN,"w":1e999}', b'{"v":' + b"9" * 5000 + b"}", b"\xc3{"]
    events = pa.Array.from_buffers(
        pa.string(), len(odd), pa.array(odd, pa.binary()).buffers()
    )  # as a source hands them over, unchecked
    channel = make(sink := Taking())
    rows = side_rows("late", len(odd), **{c.EVENT: events})
    channel.hand_over(PendingBatch(0, [rows]))
    hand_over(channel, 1)
    assert channel.settle(10) == 0
    assert sink.taken == [(0, 5), (1, 2)]
    texts = SIDE_RECORDS.texts([rows])

    def refuse(text: str) -> None:
        raise AssertionError(f"{text} is no JSON")

    found = [json.loads(text, parse_constant=refuse)["original_event"] for text in texts]
    assert [found[0]["v"], found[1]["v"], found[2]] == ["\ufffd\ufffd", "\ufffd", {"v": "NaN", "w": "1e999"}]
    assert found[3] == {c.CORRUPT: odd[3].decode()}
    assert found[4] == {c.CORRUPT: "\ufffd{"}
    assert "\\ud8" not in "".join(texts)


def test_a_damaged_file_is_set_aside_and_what_is_behind_it_is_delivered(
    make: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    dead = make(Taking(failures=10**6))
    for number in range(7):
        hand_over(dead, number)
    dead.close()
    folder = tmp_path / "outbox" / "dlq"
    files = sorted(folder.glob("*.side"))
    for path, content in zip(files, (b"", b"[]", b"null", b"\xff\x00", files[4].read_bytes()[:-9]), strict=False):
        path.write_bytes(content)
    files[5].unlink()
    files[5].mkdir()
    for stray in ("notes.side", "000000000009-x.side", "notes.txt"):
        (folder / stray).write_text("a stray file")
    with caplog.at_level(logging.ERROR, "windowpane"):
        back = make(sink := Taking())
        assert back.settle(10) == 0
    assert sink.taken == [(6, 2)]
    assert back.status()["damaged"] == [f"{path.name}.damaged" for path in files[:6]]
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert len(said) == 6
    assert "000000000000-2.side.damaged" in said[0]
    assert (folder / "notes.side").exists()


class Strict(Taking):
    """A server that takes records up to a length."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__()
        self.max_bytes, self.records = max_bytes, list[dict[str, Any]]()

    def write(self, batch: SinkBatch) -> None:
        texts = batch.arrow().column("value").to_pylist()
        if max(map(len, texts)) > self.max_bytes:
            self.tries += 1
            raise RuntimeError("org.apache.kafka.common.errors.RecordTooLargeException: The message is 2000000 bytes")
        self.records += map(json.loads, texts)
        super().write(batch)


@pytest.mark.parametrize(("max_bytes", "tries"), [(1_048_000, 2), (70_000, 3), (1_500, 5)])
def test_a_record_that_the_sink_never_takes_is_cut_and_the_queue_goes_on(
    make: Make, max_bytes: int, tries: int
) -> None:
    channel = make(sink := Strict(max_bytes))
    long = [json.dumps({"v": "x" * 2_000_000}), '{"v":1}']
    channel.hand_over(PendingBatch(0, [side_rows("late", 2, **{c.EVENT: long})]))
    hand_over(channel, 1)
    assert channel.settle(30) == 0
    assert sink.taken == [(0, 2), (1, 2)]
    assert sink.tries == tries + 1, "each length once, and the next batch at once"
    cut, whole = sink.records[:2]
    assert cut["truncated"] == ["original_event"]
    assert cut["original_event"]["_truncated"].startswith('{"v": "xxx')
    assert (whole["original_event"], "truncated" in whole) == ({"v": 1}, False)
    assert {name: cut[name] for name in ("kind", "reason", "plan_id")} == {
        name: whole[name] for name in ("kind", "reason", "plan_id")
    }


def test_a_sink_that_is_away_gets_whole_records(make: Make) -> None:
    channel = make(sink := Taking(failures=2))
    channel.hand_over(PendingBatch(0, [side_rows("late", 1, **{c.EVENT: [json.dumps({"v": "x" * 2_000_000})]})]))
    assert channel.settle(30, tries=10) == 0
    assert (sink.tries, sink.taken) == (3, [(0, 1)])


def test_deliveries_are_counted_over_restarts_and_each_batch_once(make: Make) -> None:
    first = make(Taking())
    hand_over(first, 0)
    assert first.settle(10) == 0
    first.close()
    again = make(Taking())
    assert again.status()["delivered"] == 2
    hand_over(again, 0)  # replayed: it was not committed
    hand_over(again, 1, 3)
    assert again.settle(10) == 0
    assert again.status()["delivered"] == 5
