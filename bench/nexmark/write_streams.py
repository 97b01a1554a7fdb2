"""Writes Nexmark's streams to files or Kafka topics: `python -m bench.nexmark.write_streams FOLDER --rows 1000000`.

To parquet or JSON files in FOLDER, or with `--format kafka` to topics of two partitions called as the streams.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pyarrow as pa

from bench.nexmark.datasets import Format, json_lines, rates, tables, write_dataset
from bench.nexmark.generator import Shape, Stream
from bench.nexmark.topics import TopicWriter

KAFKA = "kafka"


def main() -> None:
    given = _arguments()
    shape = Shape(
        given.keys, given.per_second, given.out_of_order, given.disorder_ms, given.late, given.late_ms, given.skew,
        given.seed,
    )  # fmt: skip
    if given.format == KAFKA:
        written = write_topics(given.servers, given.streams, shape, rows=given.rows, chunk_rows=given.file_rows)
        print(f"{written:,} messages to {given.servers}: {', '.join(given.streams)}")
        return
    data = write_dataset(
        Path(given.folder), given.streams, shape, given.rows, file_rows=given.file_rows, file_format=given.format
    )
    print(f"{data.rows:,} rows in {data.files} files of each stream: {', '.join(map(str, data.folders.values()))}")


def write_topics(servers: str, streams: tuple[Stream, ...], shape: Shape, *, rows: int, chunk_rows: int) -> int:
    """Every row as a message of JSON, in order of the rows. Topics that are not there are made."""
    with contextlib.ExitStack() as stack:
        topics = {stream: stack.enter_context(TopicWriter(servers, stream)) for stream in streams}
        for stream, table in _chunks(streams, shape, rows, chunk_rows):
            topics[stream].write(json_lines(table).splitlines())
    return sum(topic.written for topic in topics.values())


def _chunks(streams: tuple[Stream, ...], shape: Shape, rows: int, chunk_rows: int) -> Iterator[tuple[Stream, pa.Table]]:
    """The streams in turns, so that none is far ahead of the others."""
    each = [
        tables(stream, share, shape, max(1, rows // chunk_rows), chunk_rows, flush=False)
        for stream, share in rates(streams).items()
    ]
    for turn in zip(*each, strict=True):
        yield from zip(streams, turn, strict=True)


def _streams(text: str) -> tuple[Stream, ...]:
    known: dict[str, Stream] = {stream: stream for stream in get_args(Stream)}
    if unknown := set(text.split(",")) - set(known):
        raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: known are {', '.join(known)}")
    return tuple(known[name] for name in text.split(","))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.nexmark.write_streams",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    default = Shape()
    parser.add_argument("folder", nargs="?", default="data", help="where to; not for Kafka")
    parser.add_argument("--format", choices=[*get_args(Format), KAFKA], default="parquet")
    parser.add_argument("--streams", type=_streams, default=("bids",), help="some of bids,persons,auctions,offers,asks")
    parser.add_argument("--rows", type=int, default=1_000_000, help="bids, or persons and auctions together")
    parser.add_argument("--file-rows", type=int, default=500_000, help="rows of a file, or of a write to Kafka")
    parser.add_argument("--keys", type=int, default=default.keys, help="auctions, bidders")
    parser.add_argument("--per-second", type=int, default=default.per_second, help="rows per second of event time")
    parser.add_argument("--out-of-order", type=float, default=default.out_of_order, help="share of rows out of order")
    parser.add_argument("--disorder-ms", type=int, default=default.disorder_ms, help="by less than this")
    parser.add_argument("--late", type=float, default=default.late, help="share of rows that are behind by more")
    parser.add_argument("--late-ms", type=int, default=default.late_ms, help="by up to this much more")
    parser.add_argument("--skew", type=float, default=default.skew, help="Zipf's exponent; 0: all keys alike")
    parser.add_argument("--seed", type=int, default=default.seed)
    parser.add_argument("--servers", help="Kafka: bootstrap servers")
    arguments = parser.parse_args()
    if arguments.format == KAFKA and not arguments.servers:
        parser.error("--format kafka needs --servers HOST:PORT")
    return arguments


if __name__ == "__main__":
    main()
