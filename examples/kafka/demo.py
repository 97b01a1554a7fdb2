# ruff: noqa: INP001, T201  # a script, which prints
"""What `make demo-kafka` shows: a broker and a database are started, a topic is filled with bids that are out of order,
late and broken, the pipeline runs, and what it left behind is printed. Nothing stays when it ends.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import psycopg
from bids import some_messages
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[1]))

from scripts.servers import Kafka, Postgres, UnavailableError, connector_jars, running  # noqa: E402  # after its place is known

WINDOWPANE = Path(sys.executable).with_name("windowpane")
TOPICS = {"bids": 2, "updates": 1, "dlq": 1}
TOP = """
SELECT to_char(window_start AT TIME ZONE 'UTC', 'HH24:MI:SS') AS "window", auction, bids, top, mean::float8 AS mean,
       _emit_epoch AS epoch, _is_final AS final
FROM (SELECT *, row_number() OVER (PARTITION BY window_start ORDER BY bids DESC, auction) AS place FROM auctions) AS a
WHERE place <= 2 ORDER BY window_start, place
"""
BATCHES = 'SELECT target AS "table", transform, batch_id, final FROM windowpane_batches ORDER BY entry'


def main() -> int:
    shutil.rmtree(HERE / "state", ignore_errors=True)
    try:
        say("Starting Kafka and PostgreSQL …")
        with running(Kafka) as kafka, running(Postgres) as postgres:
            return show(kafka.address, postgres.url)
    except UnavailableError as missing:
        print(missing, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def show(kafka: str, database: str) -> int:
    counts = fill(kafka)
    told = ", ".join(f"{count:,} {sort}" for sort, count in counts.items())
    say(f"Topic bids has {sum(counts.values()):,} messages in two partitions: {told}.")
    known = os.environ | {
        "KAFKA": kafka,
        "DATABASE": database,
        "KAFKA_CONNECTOR": str(Path(connector_jars()[0]).parent),
    }
    for arguments in (["check"], ["run", "--drain"]):
        say(f"$ windowpane {' '.join(arguments)}")
        done = subprocess.run([WINDOWPANE, *arguments], cwd=HERE, env=known, check=False)  # noqa: S603  # our own command
        if done.returncode:
            return done.returncode
    show_results(kafka, database)
    return 0


def fill(kafka: str) -> dict[str, int]:
    client = AdminClient({"bootstrap.servers": kafka})
    for made in client.create_topics([NewTopic(name, count, 1) for name, count in TOPICS.items()]).values():
        made.result(30)
    producer = Producer({"bootstrap.servers": kafka})
    counts: Counter[str] = Counter()
    for number, (sort, text) in enumerate(some_messages()):
        producer.produce("bids", text, partition=number % 2)
        counts[sort] += 1
    producer.flush(30)
    return dict(counts)


def show_results(kafka: str, database: str) -> None:
    with psycopg.connect(database) as connection:
        total = connection.execute("SELECT count(*) FROM auctions").fetchone() or (0,)
        updates = messages(kafka, "updates")
        keys = {message.key() for message in updates}
        say(f"Table auctions: {total[0]} rows, one per window and auction; the two busiest of each window")
        show_table(connection, TOP)
        say(f"Topic updates: {len(updates)} emissions with {len(keys)} keys. A compacted topic keeps the last of each:")
        print(f"  {updates[-1].key().decode()}\n  {updates[-1].value().decode()}")
        say("Table windowpane_batches: what has been written, in the same transactions")
        show_table(connection, BATCHES)
    records = [json.loads(message.value()) for message in messages(kafka, "dlq")]
    say(f"Topic dlq: {len(records)} records; the first of each reason, shortened")
    reasons = Counter((record["kind"], record["reason"]) for record in records)
    for (kind, reason), count in sorted(reasons.items()):
        first = next(record for record in records if (record["kind"], record["reason"]) == (kind, reason))
        print(f"{count:4}  {kind}: {reason}\n      {json.dumps(first['original_event'])}")


def messages(kafka: str, topic: str) -> list[Any]:
    """All messages of a topic with one partition."""
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": "demo", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), 10)
    found = []
    while len(found) < end:
        found += consumer.consume(end - len(found), 10)
    consumer.close()
    return found


def show_table(connection: psycopg.Connection[Any], query: str) -> None:
    found = connection.execute(query)
    table = Table()
    for column in found.description or ():
        table.add_column(column.name)
    for row in found:
        table.add_row(*(str(value) for value in row))
    Console().print(table)


def say(text: str) -> None:
    print(f"\n\x1b[1m{text}\x1b[0m" if sys.stdout.isatty() else f"\n{text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
