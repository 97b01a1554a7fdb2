"""Results of a sink that is away wait in the checkpoint, in order and bounded, and reach it once when it is back."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.runtime.test_channels import Taking
from windowpane.checkpoint.folder import FolderStore
from windowpane.checkpoint.result_outbox import ResultOutbox, ResultPart, WaitingResults
from windowpane.connectors.retrying import RetryingSink
from windowpane.connectors.sinks import SinkBatch
from windowpane.errors import SinkError, StateError
from windowpane.spark.result_channel import HELD_SECONDS, ResultChannel

ODD = pa.table({"k": ["é", None], "v": [float("nan"), -0.0], "t": pa.array([-1, None], pa.timestamp("us", "UTC"))})


def batch(number: int, rows: int = 2, *, final: bool = False) -> SinkBatch:
    frame: Any = None
    table = pa.table({"v": pa.array(range(rows), pa.int64())})
    return SinkBatch(number, lambda: frame, transform="q", table=table, rows=rows, run="r", final=final)


def keep(given: SinkBatch) -> WaitingResults:
    return WaitingResults(
        batch_id=given.batch_id, since_us=1_000_000, columns="{}", run=given.run, identified=given.identified,
        was_unnamed=False, table=given.arrow(),
    )  # fmt: skip


def again(waiting: WaitingResults) -> SinkBatch:
    frame: Any = None
    return SinkBatch(waiting.batch_id, lambda: frame, transform="q", table=waiting.table, rows=waiting.rows)


Make = Callable[..., ResultChannel]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[ResultChannel] = []

    def make(sink: Taking, *, max_bytes: int = 10**6, committed: int = 10**9) -> ResultChannel:
        stopping = threading.Event()
        channel = ResultChannel(
            RetryingSink(sink, stopping, (0.001,)), ResultOutbox(FolderStore(tmp_path / sink.name)), keep=keep,
            build=again, max_bytes=max_bytes, stopping=stopping, pauses=(0.01, 0.02),
        )  # fmt: skip
        channel.begin(committed)
        made.append(channel)
        return channel

    yield make
    for channel in made:
        channel.close()


def test_a_sink_that_works_is_written_to_directly(make: Make, tmp_path: Path) -> None:
    channel = make(sink := Taking(failures=1))
    channel.write(batch(0))
    assert sink.taken == [(0, 2)]
    assert (channel.handed_over(0), channel.undelivered(), (tmp_path / "dlq").exists()) == (None, 0, False)
    assert channel.status() == {
        "up": True, "error": None, "waiting_batches": 0, "waiting_rows": 0, "waiting_bytes": 0,
        "waiting_since_us": None,
    }  # fmt: skip


def test_batches_wait_behind_the_first_that_failed_and_then_are_written_directly_again(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "windowpane.sinks"):
        channel = make(sink := Taking(failures=2))
        sink.gate.set()
        channel.write(batch(0, 3))  # fails twice, and waits
        sink.gate.clear()
        channel.write(batch(1, 2))
        channel.write(batch(2, 0))
        assert (channel.undelivered(), channel.handed_over(2)) == (5, 5)
        sink.gate.set()
        assert channel.caught_up(10)
    assert sink.taken == [(0, 3), (1, 2), (2, 0)]
    channel.write(batch(3))
    assert sink.taken[-1] == (3, 2)
    assert (channel.undelivered(), channel.handed_over(3)) == (0, 5)
    said = [record.getMessage() for record in caplog.records if "attempt" not in record.getMessage()]
    assert len(said) == 2
    assert "sink `dlq` is away: ConnectionError: the broker is away. Its results wait in the checkpoint" in said[0]
    assert "sink `dlq` is back and has caught up: 5 results of 3 batches waited since 1970-01-01T00:00:01" in said[1]


def test_a_sink_that_is_away_holds_up_a_micro_batch_for_seconds_only(tmp_path: Path) -> None:
    """However many attempts its settings allow. Rows that cannot wait get all of them."""
    stopping = threading.Event()
    sink = RetryingSink(taking := Taking(failures=10**6), stopping, (0.01, 60.0, 60.0))
    channel = ResultChannel(
        sink, ResultOutbox(FolderStore(tmp_path)), keep=keep, build=again, max_bytes=10**6, stopping=stopping,
        pauses=(60.0,),
    )  # fmt: skip
    channel.begin(-1)
    began = time.monotonic()
    channel.write(batch(0))
    assert time.monotonic() - began < HELD_SECONDS
    assert (sink.retries, channel.undelivered()) == (1, 2)
    taking.failures = 0
    channel.close()


def test_the_next_start_delivers_what_was_committed_before_anything_new(make: Make) -> None:
    dead = make(Taking(failures=10**6))
    for number in range(4):
        dead.write(batch(number))
    assert dead.status()["up"] is False
    dead.close()
    back = make(sink := Taking(), committed=2)
    back.write(batch(3, 1))
    assert back.caught_up(10)
    assert sink.taken == [(0, 2), (1, 2), (2, 2), (3, 1)]


def test_a_batch_that_was_delivered_but_never_committed_comes_again(make: Make) -> None:
    """Otherwise an end that was interrupted would hide the results that come under its number."""
    first = make(Taking(failures=2))
    first.write(batch(0))
    assert first.caught_up(10)
    first.close()
    again = make(Taking(failures=10**6), committed=-1)
    again.write(batch(0, 3))
    again.close()
    last = make(sink := Taking(), committed=0)
    assert last.caught_up(10)
    assert (sink.taken, last.handed_over(0)) == ([(0, 3)], 3)


def test_a_query_that_is_restarted_repeats_a_batch_without_effect(make: Make) -> None:
    channel = make(sink := Taking(failures=2))
    sink.gate.set()
    channel.write(batch(0))
    channel.write(batch(0))  # it waits, or is delivered by now
    assert channel.caught_up(10)
    channel.write(batch(0))
    assert (sink.taken, channel.handed_over(0)) == ([(0, 2)], 2)


def test_when_there_is_no_room_the_query_ends_and_says_how_much_waits(make: Make) -> None:
    size = keep(batch(0)).size
    channel = make(Taking(failures=10**6), max_bytes=2 * size)
    channel.write(batch(0))
    channel.write(batch(1))
    with pytest.raises(SinkError, match="4 results of 2 batches wait since 1970-01-01T00:00:01") as full:
        channel.write(batch(2))
    assert (full.value.code, "there is no room for batch 2" in full.value.message) == ("SINK_FAILED", True)
    assert "the broker is away" in full.value.message
    assert channel.undelivered() == 4
    too_large = make(Taking(failures=10**6), max_bytes=size - 1, committed=-1)
    with pytest.raises(SinkError, match="no room for batch 5"):
        too_large.write(batch(5))


def test_a_slow_sink_is_waited_for_instead(make: Make) -> None:
    channel = make(sink := Taking(failures=2), max_bytes=keep(batch(0)).size + 1)
    channel.write(batch(0))
    sink.gate.clear()
    threading.Timer(0.1, sink.gate.set).start()
    channel.write(batch(1))
    assert channel.caught_up(10)
    assert sink.taken == [(0, 2), (1, 2)]


@pytest.mark.parametrize("can_wait", [True, False])
def test_without_room_or_for_a_sink_of_code_the_first_failure_ends_the_query(make: Make, *, can_wait: bool) -> None:
    sink = Taking(failures=10**6)
    sink.can_wait = can_wait
    channel = make(sink, max_bytes=0 if can_wait else 10**6)
    with pytest.raises(SinkError, match="could not take batch 0, tried 2 times"):
        channel.write(batch(0))
    assert channel.undelivered() == 0


def test_what_waits_is_delivered_also_if_nothing_may_wait_any_more(make: Make) -> None:
    dead = make(Taking(failures=10**6))
    dead.write(batch(0))
    dead.close()
    back = make(sink := Taking(), max_bytes=0)
    back.write(batch(1))
    assert sink.taken == [(0, 2), (1, 2)]


def test_the_end_waits_for_a_while_and_is_refused_if_results_are_left(make: Make) -> None:
    channel = make(sink := Taking(failures=10**6))
    channel.write(batch(0))
    channel.ending_seconds = 0.3
    with pytest.raises(SinkError, match="2 results of 1 batch wait since") as left:
        channel.caught_up(10)
    assert str(Path(channel._outbox.address())) in left.value.message
    with pytest.raises(SinkError, match="before those of the end"):
        channel.write(batch(1, final=True))
    channel.ending_seconds, sink.failures = 60, 0
    assert channel.caught_up(10)
    sink.failures = 10
    with pytest.raises(SinkError, match="could not take batch 1"):
        channel.write(batch(1, final=True))


class Refusing(Taking):
    """Is away, and has another password when it is back."""

    def write(self, batch: SinkBatch) -> None:
        if self.tries >= 2:
            raise SinkError("SINK_WRITE", "sink `dlq`: password authentication failed for user me", passing=False)
        super().write(batch)


def test_a_mistake_does_not_fill_the_outbox(make: Make) -> None:
    channel = make(Refusing(failures=2))
    channel.write(batch(0))
    with pytest.raises(SinkError, match=r"password authentication failed.*2 results of 1 batch wait"):
        channel.caught_up(10)
    with pytest.raises(SinkError, match="password"):
        channel.write(batch(1))
    assert channel.undelivered() == 2
    sink = Refusing()
    sink.tries = 2
    with pytest.raises(SinkError, match="password") as refused:
        make(sink, committed=-1).write(batch(0))
    assert "would not help" in str(refused.value.hint) or not refused.value.passing


def test_a_damaged_file_is_not_left_out(make: Make, tmp_path: Path) -> None:
    dead = make(Taking(failures=10**6))
    for number in range(2):
        dead.write(batch(number))
    dead.close()
    first, _ = sorted((tmp_path / "dlq").glob("*.arrow"))
    whole = first.read_bytes()
    first.write_bytes(whole[:-20])
    back = make(sink := Taking())
    with pytest.raises(StateError) as broken:
        back.caught_up(10)
    assert broken.value.code == "CHECKPOINT_CORRUPT"
    assert sink.taken == []
    back.close()
    first.write_bytes(whole)
    repaired = make(sink)
    assert repaired.caught_up(10)
    assert sink.taken == [(0, 2), (1, 2)]


def test_results_come_out_as_they_went_in(tmp_path: Path) -> None:
    outbox = ResultOutbox(FolderStore(tmp_path))
    part = ResultPart(name="000000000007-a.arrow", rows=10**9, size=10**10)
    assert outbox.parts_folder() == str(tmp_path / "parts")
    for table, parts in ((ODD, ()), (ODD.slice(0, 0), ()), (pa.table({}), (part,))):
        given = WaitingResults(
            batch_id=7, since_us=5, columns='{"a": "é"}', run="r", identified=True, was_unnamed=True, table=table,
            parts=parts,
        )  # fmt: skip
        outbox.put(given)
        found = outbox.read(7)
        assert (found.rows, found.parts, found.columns, found.table.schema) == (
            given.rows, given.parts, given.columns, table.schema,
        )  # fmt: skip
        assert str(found.table.to_pylist()) == str(table.to_pylist())
        (file,) = outbox.files()
        assert (file.rows, file.size, file.since_us) == (given.rows, given.size, 5)


def test_parts_leave_with_their_batch_and_those_of_no_batch_are_removed(tmp_path: Path) -> None:
    outbox = ResultOutbox(FolderStore(tmp_path))
    folder = Path(str(outbox.parts_folder()))
    names = ["000000000001-a.arrow", "000000000001-b.arrow", "000000000002-a.arrow", "000000000003-a.arrow"]
    for name in names:
        (folder / name).write_bytes(b"")
    for number, name in ((1, names[1]), (2, names[2])):
        outbox.put(
            WaitingResults(
                batch_id=number,
                since_us=5,
                columns="{}",
                run="r",
                identified=False,
                was_unnamed=False,
                table=pa.table({}),
                parts=(ResultPart(name=name, rows=1, size=1),),
            )
        )
    assert sorted(path.name for path in folder.iterdir()) == names[1:]
    outbox.forget_after(2)
    assert sorted(path.name for path in folder.iterdir()) == names[1:3]
    outbox.note_delivered(1, 1)
    assert sorted(path.name for path in folder.iterdir()) == names[2:3]
