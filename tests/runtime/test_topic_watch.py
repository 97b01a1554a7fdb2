"""Topics that were created anew are noticed by their identities, in whatever way a checkpoint knows them."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from windowpane.checkpoint.folder import FolderStore
from windowpane.checkpoint.topic_identities import TopicIdentities
from windowpane.config import Stream
from windowpane.errors import SourceError
from windowpane.runtime import topic_watch
from windowpane.runtime.topic_watch import TopicWatch


@pytest.fixture(autouse=True)
def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_watch, "_EVERY_S", 0.0)


def stream(**options: str) -> Stream:
    return Stream(format="kafka", schema="v BIGINT", options={"subscribe": "a", **options})


class Cluster:
    """The topics of a broker, as they are at the moment."""

    def __init__(self, path: Path) -> None:
        self.topics: dict[str, str] = {}
        self.identities = TopicIdentities(FolderStore(path))

    def watch(self, **options: str) -> TopicWatch:
        return TopicWatch({"s": stream(**options)}, self.identities, lambda _: self.topics)


def test_a_topic_created_anew_is_an_error_until_the_user_agrees(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = Cluster(tmp_path)
    running = cluster.watch()
    cluster.topics = {"a": "1"}
    running.check()
    cluster.topics = {}
    running.check()
    cluster.topics = {"a": "1", "b": "7"}
    running.check()
    assert cluster.identities.known() == {"s/a": "1", "s/b": "7"}
    cluster.topics = {"a": "2", "b": "7"}
    for watch in (running, cluster.watch()):
        with pytest.raises(SourceError) as lost:
            watch.check()
        assert lost.value.code == "DATA_LOST"
        assert "topic `a` of stream `s`" in lost.value.message
    with caplog.at_level(logging.WARNING):
        cluster.watch(failOnDataLoss="false").check()
    assert "was deleted and created anew" in caplog.text
    cluster.watch().check()
    assert cluster.identities.known() == {"s/a": "2", "s/b": "7"}


def test_brokers_that_know_no_identities_are_not_watched(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    cluster.watch().check()
    assert cluster.identities.known() == {}
    assert not list(tmp_path.iterdir())
