"""What bad rows cost: files and Kafka values of JSON, read by the columnar scan, with more and more bad rows in them.

    python bench/bad_rows.py [--rows 1000000] [--kind broken] …

Prints rows a second for each share of bad rows, and how many times longer than clean ones they take. `broken` are the
usual kinds of bad rows; the other kinds are rows that Spark reads in a way of its own.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from windowpane.config.models import MAX_RECORD_BYTES
from windowpane.remote.input_file import InputFile
from windowpane.scan.codec import decode_values
from windowpane.scan.json.codec import JsonCodec
from windowpane.scan.json.files import read_file

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.string()), ("v", pa.int64()), ("x", pa.float64())])
SHARES = (0.0, 0.001, 0.01, 0.1, 0.5)
KINDS = {
    "broken": (
        '{"ts":170000', '{"ts":1700000000000,"k":"a","v":"many","x":1.5}', "not json", '{"ts":1,"k":"a","v":1.5}',
    ),
    "number-as-string": ('{"ts":1700000000000,"k":17,"v":1,"x":1.5}', '{"ts":1700000000000,"k":true,"v":1,"x":1.5}'),
    "fraction-as-string": ('{"ts":1700000000000,"k":1.25,"v":1,"x":1.5}',),
    "repeated-name": ('{"ts":1700000000000,"k":"a","v":1,"v":2,"x":1.5}',),
    "trailing-comma": ('{"ts":1700000000000,"k":"a","v":1,"x":1.5,}',),
    "long-integer": ('{"ts":1700000000000,"k":"a","v":99999999999999999999,"x":1.5}',),
    "negative-zero": ('{"ts":1700000000000,"k":"a","v":1,"x":-0}',),
}  # fmt: skip
LIMIT = 3.0


def records(rows: int, share: float, bad: tuple[str, ...]) -> list[bytes]:
    """Good records, and among them bad ones of a kind, evenly spread."""
    found = [f'{{"ts":{1_700_000_000_000 + n},"k":"k{n % 50}","v":{n % 1000},"x":1.5}}'.encode() for n in range(rows)]
    for number in range(round(rows * share)):
        found[int(number / share)] = bad[number % len(bad)].encode()
    return found


def of_files(rows: list[bytes], folder: Path) -> Callable[[], int]:
    path = folder / "rows.json"
    path.write_bytes(b"\n".join(rows) + b"\n")
    return lambda: sum(len(part.bad) for part in read_file(InputFile(str(path)), SCHEMA, MAX_RECORD_BYTES))


def of_values(rows: list[bytes], _folder: Path) -> Callable[[], int]:
    values = pa.array(rows, pa.binary())
    return lambda: len(decode_values(JsonCodec(), values, SCHEMA, MAX_RECORD_BYTES).bad)


def seconds(work: Callable[[], int], rows: int) -> float:
    """The best of three."""
    found = []
    for _ in range(3):
        started = time.process_time()
        assert work() == rows
        found.append(time.process_time() - started)
    return min(found)


def main(rows: int, kinds: list[str]) -> int:
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for kind, (name, make) in itertools.product(kinds, (("files", of_files), ("values", of_values))):
            clean = 0.0
            for share in SHARES:
                took = seconds(make(records(rows, share, KINDS[kind]), Path(folder)), rows)
                clean = clean or took
                worst = max(worst, took / clean)
                print(f"{kind} {name:7} {share:6.1%} {rows / took:12,.0f} rows/s {took / clean:5.2f} times clean")
    print(f"worst: {worst:.2f} times clean, and {LIMIT} is the goal")
    return int(worst > LIMIT)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--kind", choices=KINDS, action="append")
    given = parser.parse_args()
    sys.exit(main(given.rows, given.kind or ["broken"]))
