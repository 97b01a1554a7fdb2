"""Notices that a Kafka topic was deleted and created anew, although its offsets look like those of the old one."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

from windowpane.checkpoint.topic_identities import TopicIdentities
from windowpane.config import Stream
from windowpane.connectors.kafka import fails_on_loss
from windowpane.connectors.kafka_topics import topic_identities
from windowpane.errors import SourceError

_log = logging.getLogger("windowpane.run")
_EVERY_S = 1.0
"""How often brokers are asked. It takes 1 to 2 ms, and a batch that comes too early is noticed with the next one."""
_HINT = (
    "begin anew with the topic as it is now: windowpane reset. To go on at the offsets of the old topic, start once "
    "with failOnDataLoss = false in the options of the stream"
)


class TopicWatch:
    """Compares the topics of Kafka streams with those that the checkpoint has read."""

    def __init__(
        self,
        streams: Mapping[str, Stream],
        identities: TopicIdentities,
        ask: Callable[[Stream], Mapping[str, str]] = topic_identities,
    ) -> None:
        self._streams = {name: stream for name, stream in streams.items() if stream.source_format.is_messages}
        self._identities, self._ask = identities, ask
        self._known: dict[str, str] | None = None
        self._asked_s = float("-inf")

    def check(self) -> None:
        """Before a micro-batch reads: SourceError if a topic is not the one that earlier micro-batches have read."""
        if not self._streams or time.monotonic() - self._asked_s < _EVERY_S:
            return
        known = self._identities.known() if self._known is None else self._known
        found: dict[str, str] = {}
        for name, stream in self._streams.items():
            for topic, identity in self._ask(stream).items():
                if known.get(f"{name}/{topic}", identity) != identity:
                    _report(name, topic, stream)
                found[f"{name}/{topic}"] = identity
        if not found.items() <= known.items():
            self._identities.record(found)
        self._known, self._asked_s = {**known, **found}, time.monotonic()


def _report(name: str, topic: str, stream: Stream) -> None:
    what = f"topic `{topic}` of stream `{name}` was deleted and created anew since the checkpoint has read it"
    if fails_on_loss(stream):
        raise SourceError("DATA_LOST", f"{what}. Its offsets belong to other messages now", _HINT)
    _log.warning("%s; the stream goes on at the offsets of the old topic, because failOnDataLoss is false", what)
