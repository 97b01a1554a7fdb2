"""Measures what a Kafka message costs in a worker: `python -m bench.kafka_messages [--messages 1500000]`.

Processor time of this process per message, librdkafka's threads included, to fetch a partition from a broker on this
machine, and to decode its values as JSON, in each of the ways that a worker has.
"""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Callable, Iterator
from unittest.mock import patch

import pyarrow as pa

from bench.nexmark.topics import TopicWriter, broker
from scripts.servers import Kafka
from windowpane.native import compiled
from windowpane.remote.kafka_consumer import ConsumerClient
from windowpane.remote.librdkafka import Client
from windowpane.remote.message_batches import Wanted
from windowpane.scan.codec import decode_values
from windowpane.scan.json.codec import JsonCodec
from windowpane.scan.message_ranges import AnyClient, Fetching, Range, fetched

TOPIC, WARM_UP = "messages", 100_000
SCHEMA = pa.schema([("auction", pa.int64()), ("price", pa.int64()), ("ts", pa.string())])
"""Three of six fields, as in the query kafka-tumbling."""
_VALUE = (
    '{{"auction":{0},"bidder":{1},"price":{2},"channel":"channel-{0}",'
    '"url":"https://www.nexmark.com/item.htm?query=1&channel_id={0}","ts":"2023-11-14T22:{3:02}:{4:02}.{5:03}"}}'
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.kafka_messages", description=__doc__)
    parser.add_argument("--messages", type=int, default=1_500_000)
    count = parser.parse_args().messages
    with broker(wanted=True) as server:
        if isinstance(server, str):
            raise SystemExit(server)
        fill(server, count)
        settings = {"bootstrap.servers": server.address, "log_level": "2"}
        print(f"{'':24}{'fetch, µs':>12}{'decode, µs':>12}{'M/s':>8}")
        if compiled() is not None:
            show("compiled library", lambda: Client(settings), count)
        with without_library():
            show("ctypes, numpy and Arrow", lambda: Client(settings), count)
            show("consume", lambda: ConsumerClient(settings), count)


def fill(server: Kafka, count: int) -> None:
    """As many messages in the first partition."""
    with TopicWriter(server.address, TOPIC) as topic:
        for low in range(0, 2 * count, WARM_UP):
            topic.write([_value(number) for number in range(low, min(low + WARM_UP, 2 * count))])


def _value(number: int) -> bytes:
    auction, bidder, price = number * 7 % 1000, number * 11 % 1000, number * 7919 % 10_000_000
    second, millisecond = divmod(number, 1000)
    return _VALUE.format(auction, bidder, price, second // 60 % 60, second % 60, millisecond).encode()


@contextlib.contextmanager
def without_library() -> Iterator[None]:
    with (
        patch("windowpane.remote.messages_by_library.compiled", lambda: None),
        patch("windowpane.scan.json.compiled_parser.compiled", lambda: None),
    ):
        yield


def show(name: str, connect: Callable[[], AnyClient], count: int) -> None:
    client = connect()
    wanted, how = Wanted(time=True), Fetching(())
    list(fetched(client, Range(TOPIC, 0, 0, WARM_UP), wanted, how))
    began_s, began_cpu_s, decode_s = time.perf_counter(), time.process_time(), 0.0
    for messages in fetched(client, Range(TOPIC, 0, 0, count), wanted, how):
        before_s = time.thread_time()
        decode_values(JsonCodec(), messages.values, SCHEMA, 1 << 20)
        decode_s += time.thread_time() - before_s
    fetch_s = time.process_time() - began_cpu_s - decode_s
    rate = count / (time.perf_counter() - began_s)
    client.close()
    print(f"{name:24}{fetch_s / count * 1e6:12.2f}{decode_s / count * 1e6:12.2f}{rate / 1e6:8.2f}")


if __name__ == "__main__":
    main()
