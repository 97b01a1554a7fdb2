"""The benchmark's topics: all rows are there, and both partitions come forward in time together."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.nexmark.datasets import write_dataset
from bench.nexmark.generator import Shape
from bench.nexmark.topics import TopicWriter, fill
from bench.nexmark.write_streams import write_topics
from tests.servers.world import Broker

pytestmark = pytest.mark.kafka
ROWS = 4_000


def test_a_topic_has_the_lines_of_the_files_and_the_last_in_each_partition(kafka: Broker, tmp_path: Path) -> None:
    data = write_dataset(tmp_path, ("bids",), Shape(), ROWS, file_rows=ROWS // 2, file_format="json", flush=True)
    topic = fill(kafka.server, "bench-lines", data.folders["bids"], data.rows)
    times = [message.value["ts"] for message in kafka.read(topic.name)]
    assert len(times) == ROWS + 2
    last = max(times)
    assert times.count(last) == 2
    assert {min(times[: ROWS // 2])[:19], min(times[ROWS // 2 + 1 :])[:19]} == {"2023-11-14T22:13:20"}


def test_streams_are_written_to_topics_of_their_names_and_added_to(kafka: Broker) -> None:
    for _ in range(2):
        written = write_topics(
            kafka.server.address, ("persons", "auctions"), Shape(), rows=ROWS, chunk_rows=ROWS // 2
        )  # fmt: skip
        assert written == ROWS
    assert {len(kafka.read("persons")), len(kafka.read("auctions"))} == {ROWS // 2, ROWS + ROWS // 2}
    assert TopicWriter(kafka.server.address, "persons").written == 0
