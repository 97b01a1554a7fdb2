"""The identities of the Kafka topics that a checkpoint has read. A topic that is created anew gets another one."""

from __future__ import annotations

from collections.abc import Mapping

from windowpane.checkpoint.records import FORMAT, change_record, read_object
from windowpane.checkpoint.store import Store

TOPICS_FILE = "topics.json"


class TopicIdentities:
    """Identities by stream and topic: `bids/eu-bids`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def known(self) -> dict[str, str]:
        found = read_object(self._store, TOPICS_FILE, {"topics": dict}, "remove it: topics are looked up again")
        return {str(name): str(identity) for name, identity in found["topics"].items()} if found else {}

    def record(self, found: Mapping[str, str]) -> None:
        """Durable when this returns. Topics that are not in `found` keep their identities."""
        known = self._store.read(TOPICS_FILE)
        change_record(self._store, TOPICS_FILE, {"format": FORMAT, "topics": {**self.known(), **found}}, known)
