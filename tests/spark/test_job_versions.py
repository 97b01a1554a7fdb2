"""Versions of a transform in a job: which run, end and are alone in a micro-batch, and their common account."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from tests.checkpoint.memory_store import MemoryStore
from windowpane.checkpoint.ledger import Entry, Ledger
from windowpane.core.accounting import Accounting
from windowpane.core.side import RESULT, STAGE, not_read
from windowpane.core.windows.cut import Cut
from windowpane.spark.job_versions import Standing, Version, own_rows, united

OLD = Version("", "", Cut(until_us=100), ends_us=120)
NEW = Version("~2", "", Cut(from_us=100))


def entry(watermark_us: int | None = None, skipped: int = 0, **counts: int) -> Entry:
    account = Accounting(**counts).as_dict()
    more: dict[str, Any] = {"maxima": {"s/0": 90}, "arrivals": 7, "skipped": skipped}
    return Entry(3, 5, watermark_us, account, account, results=1, **more)


def test_a_hand_over_begins_where_the_old_version_stands() -> None:
    found = Standing.of([OLD, NEW], {"": entry(80, in_=4, buffered=4)}, {})
    assert found.before[""] == entry(80, in_=4, buffered=4)
    new = found.before["~2"]
    assert new is not None
    assert (new.watermark_us, new.maxima, new.arrivals) == (80, {"s/0": 90}, 7)
    assert not any(new.accounting.values())
    assert (found.ending, found.alone) == ((), ())


def test_the_old_version_ends_when_its_last_window_is_closed() -> None:
    both = {"": entry(119), "~2": entry(119)}
    assert Standing.of([OLD, NEW], {"": entry(119)}, both).ending == ()
    both = {"": entry(120), "~2": entry(120)}
    found = Standing.of([OLD, NEW], {"": entry(120)}, both)
    assert (list(found.before), found.ending, found.alone) == (["", "~2"], ("",), ("~2",))
    after = Standing.of([OLD, NEW], {"": entry(130)}, {"": replace(both[""], ended=True), "~2": entry(130)})
    assert (list(after.before), after.ending, after.alone) == (["~2"], (), ("~2",))
    restarted = Standing.of([NEW], {"": entry(130, in_=9)}, {"~2": entry(130)})
    assert restarted.before == {"~2": entry(130, in_=9)}, "totals are those of the transform"


def test_versions_end_one_after_the_other() -> None:
    middle = Version("~2", "", Cut(100, 110), ends_us=115)
    last = Version("~3", "", Cut(from_us=110))
    known = {"": entry(117), "~2": entry(117)}
    found = Standing.of([OLD, middle, last], {"": entry(117)}, known)
    assert (list(found.before), found.ending, found.alone) == (["", "~2", "~3"], (), ())


def test_a_version_may_be_changed_before_it_has_run() -> None:
    """The state is that of the oldest version, which goes on: its windows would be lost without it."""
    middle = Version("~2", "", Cut(100, 110), ends_us=115)
    last = Version("~3", "", Cut(from_us=110))
    found = Standing.of([OLD, middle, last], {"": entry(80, in_=4, buffered=4)}, {})
    assert found.before[""] == entry(80, in_=4, buffered=4)
    begun = [found.before["~2"], found.before["~3"]]
    assert [each and (each.watermark_us, each.accounting["in_"]) for each in begun] == [(80, 0), (80, 0)]
    fourth = Version("~4", "", Cut(from_us=115))
    cut = replace(last, cut=Cut(110, 115), ends_us=119)
    known = {"": entry(90), "~2": entry(90, in_=3)}
    assert list(Standing.of([OLD, middle, cut, fourth], {"": entry(90)}, known).before) == ["", "~2", "~3", "~4"]


def test_rows_before_the_start_of_a_transform_are_not_late() -> None:
    """There is no version before it whose rows they could be."""
    first = Version("b", "b", Cut(from_us=100), begins=True)
    assert Standing.of([first], {"b": entry(1)}, {}).alone == ()
    cut = replace(first, cut=Cut(100, 200), ends_us=210)
    found = Standing.of([cut, Version("b~2", "b", Cut(from_us=200))], {"b": entry(1)}, {})
    assert (list(found.before), found.alone) == (["b", "b~2"], ())


def test_a_removed_transform_ends_at_once() -> None:
    gone = Version("b", "b", leaves=True)
    assert Standing.of([gone], {"b": entry(1)}, {}).ending == ("b",)
    assert not Standing.of([gone], {}, {"b": replace(entry(1), ended=True)}).before


def test_each_row_is_read_once_and_made_for_the_second_version() -> None:
    """Of ten rows, the old version takes six and the new one seven: three are in windows of both."""
    old, new = entry(in_=6, aggregated=5, late=1, skipped=4), entry(in_=7, aggregated=6, buffered=1, skipped=3)
    whole = united([old, new], entry(in_=10, aggregated=10))
    counts = Accounting(**whole.accounting)
    assert (counts.read, counts.made, counts.in_, counts.buffered) == (10, 3, 13, 1)
    counts.check(0)
    assert (whole.totals["in_"], whole.totals["made"], whole.results) == (23, 3, 2)


def test_side_rows_come_from_the_version_on_whose_side_they_are() -> None:
    rows = pa.RecordBatch.from_pydict({"event_us": pa.array([99, 100, None]), "kind": ["late", "late", "error"]})
    kept, others, _ = own_rows([rows], OLD.cut)
    assert ([batch.num_rows for batch in kept], others) == ([1], {"late": 1, "error": 1})
    kept, others, _ = own_rows([rows], NEW.cut)
    assert ([batch.num_rows for batch in kept], others) == ([2], {"late": 1})


def test_side_rows_that_were_not_read_leave_the_account_as_it_is() -> None:
    """A result that cannot be computed stays with its version; a row of an inner window goes, but was not counted."""
    rows = pa.RecordBatch.from_pydict({"event_us": pa.array([None, 200], pa.int64()), "kind": ["error", "error"]})
    kept, others, counted = own_rows([not_read(rows, RESULT)], OLD.cut)
    assert ([batch.num_rows for batch in kept], others, counted) == ([2], {}, {})
    kept, others, counted = own_rows([not_read(rows, STAGE)], OLD.cut)
    assert ([batch.num_rows for batch in kept], others.total(), counted.total()) == ([0], 2, 0)


def test_the_ledger_has_the_entries_of_versions_beside_that_of_the_transform() -> None:
    ledger = Ledger(MemoryStore())
    ledger.write_all({"": entry(in_=9)}, {"": entry(in_=4), "~2": entry(in_=5)})
    assert ledger.read(3) == entry(in_=9)
    assert ledger.read_with_versions(3) == ({"": entry(in_=9)}, {"": entry(in_=4), "~2": entry(in_=5)})
