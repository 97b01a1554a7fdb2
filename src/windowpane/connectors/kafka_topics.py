"""Asks brokers for the topics of a stream and their identities, which show that a topic was created anew."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

from windowpane.config import Stream
from windowpane.remote.kafka import UntranslatableError, client_module, client_settings, connection_settings, has_client

_PATIENCE_S = 5.0


def topic_identities(stream: Stream) -> dict[str, str]:
    """The identity of each topic of a stream. Empty if nobody knows: Kafka has identities since version 2.8.

    A broker that does not answer is no error here: the reader of the stream will notice, and give the reason.
    """
    if not has_client():
        return {}
    module = client_module()
    try:
        settings = connection_settings(client_settings(stream.spark_options, "consumer"))
        admin = _admin(tuple(sorted(settings.items())))
        topics = _topics(stream, admin)
        asked = admin.describe_topics(module.TopicCollection(topics), request_timeout=_PATIENCE_S) if topics else {}
        return {topic: identity for topic, answer in asked.items() if (identity := _identity(answer, module))}
    except (UntranslatableError, module.KafkaException):
        return {}


@cache
def _admin(settings: tuple[tuple[str, str], ...]) -> Any:
    """Stays for the life of the process: a new one has to connect first."""
    return client_module("admin").AdminClient(dict(settings))


def _identity(answer: Any, module: Any) -> str:
    """Empty for a topic that the broker does not know, or that has no identity."""
    try:
        identity = answer.result().topic_id
    except module.KafkaException:
        return ""
    is_known = identity.get_most_significant_bits() or identity.get_least_significant_bits()
    return str(identity) if is_known else ""


def _topics(stream: Stream, admin: Any) -> list[str]:
    options = {name.lower(): value for name, value in stream.spark_options.items()}
    if "subscribe" in options:
        return [name.strip() for name in options["subscribe"].split(",") if name.strip()]
    if "assign" in options:
        return list(json.loads(options["assign"]))
    try:
        pattern = re.compile(options.get("subscribepattern", "$^"))
    except re.error:  # Java's expressions are not all Python's
        return []
    return [name for name in admin.list_topics(timeout=_PATIENCE_S).topics if pattern.fullmatch(name)]
