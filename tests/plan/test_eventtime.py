"""Event-time types: exact microseconds from numbers, text, timestamps; what cannot be read fails, NULL does not."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windowpane.errors import PlanError
from windowpane.plan.eventtime import types as eventtime
from windowpane.plan.eventtime.types import EventtimeParser, builtin_types
from windowpane.testing import Harness

FAILED = object()


def parse(name: str, values: pa.Array) -> list[object]:
    arrow = builtin_types().resolve(name).parser.arrow
    assert arrow is not None
    us, failed = arrow(values)
    assert us.type == pa.int64()
    assert len(us) == len(failed) == len(values)
    assert failed.null_count == 0
    pairs = zip(us.to_pylist(), failed.to_pylist(), strict=True)
    assert all(value is None for value, bad in zip(us.to_pylist(), failed.to_pylist(), strict=True) if bad)
    return [FAILED if bad else value for value, bad in pairs]


def test_integers() -> None:
    assert parse("unixtimestamp_s", pa.array([0, 1, -1, None, 2**62])) == [0, 1_000_000, -1_000_000, None, FAILED]
    assert parse("unixtimestamp_ms", pa.array([1_700_000_000_123, -1], pa.int64())) == [1_700_000_000_123_000, -1_000]
    assert parse("unixtimestamp_us", pa.array([2**63 - 1, -(2**63) + 1])) == [2**63 - 1, -(2**63) + 1]
    assert parse("unixtimestamp_s", pa.array([7], pa.uint8())) == [7_000_000]
    assert parse("unixtimestamp_us", pa.array([2**64 - 1, 5], pa.uint64())) == [FAILED, 5]


def test_floats_mean_their_shortest_decimal_and_are_floored() -> None:
    values = [0.3, 1.1, -0.5, 1_700_000_000.123456, -0.0000001, 1e-7, float("nan"), float("inf"), 1e300, None]
    expected = [300_000, 1_100_000, -500_000, 1_700_000_000_123_456, -1, 0, FAILED, FAILED, FAILED, None]
    assert parse("unixtimestamp_s", pa.array(values)) == expected
    assert parse("unixtimestamp_us", pa.array([1.9, -1.1])) == [1, -2]
    assert parse("unixtimestamp_ms", pa.array([0.5], pa.float32())) == [500]


def test_numbers_in_text() -> None:
    texts = ["12", " -12.5 ", "+0.0000019", "-0.0000001", "1.7e9", "", " ", "x", "1.2.3", ".5", "5.", ".", "-", None]
    expected = [
        12_000_000, -12_500_000, 1, -1, 1_700_000_000_000_000, FAILED, FAILED, FAILED, FAILED,
        500_000, 5_000_000, FAILED, FAILED, None,
    ]  # fmt: skip
    assert parse("unixtimestamp_s", pa.array(texts)) == expected


def test_text_at_the_ends_of_int64() -> None:
    texts = [
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
        "-9223372036854775809",
        "0" * 40 + "1",
    ]
    assert parse("unixtimestamp_us", pa.array(texts)) == [2**63 - 1, FAILED, -(2**63), FAILED, 1]
    seconds = [
        "9223372036854.775807",
        "9223372036854.775808",
        "-9223372036854.775808",
        "-9223372036854.7758081",
        "9" * 30,
    ]
    assert parse("unixtimestamp_s", pa.array(seconds)) == [2**63 - 1, FAILED, -(2**63), FAILED, FAILED]


def test_decimals() -> None:
    values = pa.array([Decimal("1.1234567"), Decimal("-1.1234567"), None], pa.decimal128(20, 7))
    assert parse("unixtimestamp_s", values) == [1_123_456, -1_123_457, None]


@given(st.decimals(min_value=-(10**12), max_value=10**12, places=9))
def test_text_agrees_with_exact_arithmetic(value: Decimal) -> None:
    expected = (Fraction(value) * 1_000_000).__floor__()
    assert parse("unixtimestamp_s", pa.array([f"{value:f}"])) == [expected]


@given(st.integers(-8_000_000_000_000_000, 8_000_000_000_000_000))
def test_a_float_of_whole_microseconds_gives_them_back(us: int) -> None:
    assert parse("unixtimestamp_s", pa.array([us / 1_000_000])) == [us]


@given(st.floats(-9e12, 9e12))
def test_floats_are_floored(seconds: float) -> None:
    (us,) = parse("unixtimestamp_s", pa.array([seconds]))
    assert isinstance(us, int)
    exact = Fraction(seconds) * 1_000_000
    assert us == exact.__floor__() or us / 1_000_000 == seconds


def test_iso8601() -> None:
    cases: dict[str | None, object] = {
        "1970-01-01T00:00:00Z": 0,
        "1970-01-01": 0,
        "1970-01-01 00:00:01": 1_000_000,
        "1970-01-01T00:01": 60_000_000,
        "1970-01-01T01:00:00+01:00": 0,
        "1969-12-31T19:00:00-0500": 0,
        "1970-01-01T05:30:00+05:30": 0,
        "1970-01-01T02:00:00+02": 0,
        "1969-12-31T23:59:59.999999999Z": -1,
        "1970-01-01T00:00:00.1": 100_000,
        "2024-02-29T00:00:00Z": 1_709_164_800_000_000,
        "0001-01-01T00:00:00Z": -62_135_596_800_000_000,
        "9999-12-31T23:59:59.999999Z": 253_402_300_799_999_999,
        "  2024-02-29  ": 1_709_164_800_000_000,
        "2023-02-29": FAILED,
        "1900-02-29": FAILED,
        "2024-13-01": FAILED,
        "2024-00-01": FAILED,
        "2024-01-00": FAILED,
        "2024-04-31": FAILED,
        "2024-01-01T24:00:00Z": FAILED,
        "2024-01-01T00:60:00Z": FAILED,
        "2024-01-01T00:00:60Z": FAILED,
        "2024-01-01T00:00:00+19:00": FAILED,
        "2024-01-01T00:00:00+01:60": FAILED,
        "2024-01-01T00:00:00.1234567890Z": FAILED,
        "2024-01-01T": FAILED,
        "2024-01-01T10": FAILED,
        "2024-01-01T10Z": FAILED,
        "2024-01-01T10+00:00": FAILED,
        "now": FAILED,
        "": FAILED,
        None: None,
    }
    assert parse("iso8601", pa.array(list(cases), pa.string())) == list(cases.values())
    for text, wanted in cases.items():
        # Among texts that are written alike there is a faster way.
        assert parse("iso8601", pa.array([None, text, text], pa.string())) == [None, wanted, wanted]


@given(st.datetimes(timezones=st.just(dt.UTC)), st.integers(-1080, 1080))
def test_iso8601_agrees_with_datetime(when: dt.datetime, offset: int) -> None:
    aware = when.replace(tzinfo=dt.timezone(dt.timedelta(minutes=offset)))
    expected = (aware - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)
    assert parse("iso8601", pa.array([aware.isoformat()])) == [expected]


def test_timestamps_and_dates() -> None:
    instants = [dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.UTC), None]
    assert parse("timestamp", pa.array(instants, pa.timestamp("us", tz="Europe/Berlin"))) == [-1, None]
    assert parse("timestamp", pa.array([-1, 1_999], pa.timestamp("ns"))) == [-1, 1]
    assert parse("timestamp", pa.array([-1, 2**62], pa.timestamp("s"))) == [-1_000_000, FAILED]
    assert parse("timestamp", pa.array([5], pa.timestamp("ms"))) == [5_000]
    assert parse("timestamp", pa.array([dt.date(1969, 12, 31)])) == [-86_400_000_000]
    assert parse("iso8601", pa.array([0], pa.timestamp("us"))) == [0]


@pytest.mark.parametrize("name", builtin_types().list())
def test_values_of_a_wrong_type_fail_row_by_row(name: str) -> None:
    assert parse(name, pa.array([True, None])) == [FAILED, None]
    assert parse(name, pa.array([None, None], pa.null())) == [None, None]


@pytest.mark.parametrize("name", builtin_types().list())
@pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), pa.string(), pa.timestamp("us"), pa.decimal128(10, 2)])
def test_no_rows(name: str, kind: pa.DataType) -> None:
    assert parse(name, pa.array([], kind)) == []


def test_slices_are_read_from_their_start() -> None:
    assert parse("unixtimestamp_s", pa.array([9, 1, None, 2])[1:]) == [1_000_000, None, 2_000_000]
    assert parse("iso8601", pa.array(["x", "1970-01-01", None])[1:]) == [0, None]


def test_spark_sql() -> None:
    types = builtin_types()
    seconds = types.resolve("unixtimestamp_s").parser
    assert seconds.spark_sql("ts", "BIGINT") == "try_multiply(CAST(ts AS BIGINT), 1000000L)"
    assert seconds.spark_sql("ts", "STRING").startswith("try_cast(floor(try_cast(ts AS DECIMAL(38,18)) * 1000000)")
    assert types.resolve("timestamp").parser.spark_sql("`a b`") == "unix_micros(CAST(`a b` AS TIMESTAMP))"
    assert "RLIKE" in types.resolve("iso8601").parser.spark_sql("ts", "STRING")


def test_registry() -> None:
    types = builtin_types()
    assert types.list() == ["iso8601", "timestamp", "unixtimestamp_ms", "unixtimestamp_s", "unixtimestamp_us"]
    types.register("epoch_days", "{column} * 86400000000")
    assert types.resolve("epoch_days").parser.spark_sql("d") == "d * 86400000000"
    types.register("nothing", EventtimeParser())
    with pytest.raises(PlanError, match="EVENTTIME_NO_SQL"):
        types.resolve("nothing").parser.spark_sql("d")
    with pytest.raises(PlanError) as caught:
        types.resolve("unixtimestamp")
    assert caught.value.code == "UNKNOWN_EVENTTIME_TYPE"
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("registered: unixtimestamp_")
    assert "epoch_days" not in eventtime.list()


@pytest.mark.parametrize(
    ("template", "problem"), [("now()", "does not mention {column}"), ("{column} +* 2", "cannot be used")]
)
def test_a_type_of_ones_own_that_cannot_be_used_is_refused_when_the_query_is_planned(
    template: str, problem: str
) -> None:
    streams = {"s": {"schema": "ts BIGINT", "eventtime": {"column": "ts", "type": "mine"}}}
    options = {"eventtime": {"enabled": True, "types": {"mine": template}}}
    with pytest.raises(PlanError) as refused:
        Harness("SELECT count(*) AS n FROM s GROUP BY tumblingwindow('ss', 10)", streams=streams, options=options)
    assert refused.value.code == "BAD_EVENTTIME_TYPE"
    assert problem in refused.value.message
    assert refused.value.key == "streams.s.eventtime.type"


def test_a_type_of_ones_own_in_the_harness_by_its_template() -> None:
    streams = {"s": {"schema": "ts BIGINT", "eventtime": {"column": "ts", "type": "minutes", "strict": True}}}
    options = {"eventtime": {"enabled": True, "types": {"minutes": "{column} * 60000000"}}}
    sql = "SELECT window_start, count(*) AS n FROM s GROUP BY tumblingwindow('mi', 1)"
    step = Harness(sql, streams=streams, options=options).push([{"ts": 1}, {"ts": 3}, {"ts": 2**62}, {"ts": None}])
    assert [(row["window_start"], row["n"]) for row in step.rows] == [(dt.datetime(1970, 1, 1, 0, 1, tzinfo=dt.UTC), 1)]
    assert [record["reason"] for record in step.side] == ["event_time_parse", "event_time_null"]


def test_an_arrow_table_may_hold_times_that_python_has_no_datetime_for() -> None:
    streams = {"s": {"schema": "ts TIMESTAMP", "eventtime": {"column": "ts", "type": "timestamp"}}}
    sql = "SELECT count(*) AS n FROM s GROUP BY tumblingwindow('ss', 10)"
    harness = Harness(sql, streams=streams, options={"eventtime.enabled": True})
    harness.push(pa.table({"ts": pa.array([5, 2**61], pa.timestamp("us", "UTC"))}))
    assert [row["n"] for row in harness.end().rows] == [1, 1]
