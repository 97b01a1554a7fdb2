"""Options that Java's client and librdkafka share are translated, unless there is a reason not to."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from scripts.servers import JARS, _java, bring
from tests.remote.test_librdkafka import properties
from tests.servers.conftest import available
from windowpane.remote import kafka

pytestmark = pytest.mark.kafka

GROUPS = {
    "allow.auto.create.topics", "auto.commit.interval.ms", "auto.offset.reset", "enable.auto.commit", "group.id",
    "group.instance.id", "group.protocol", "group.remote.assignor", "heartbeat.interval.ms",
    "partition.assignment.strategy", "session.timeout.ms", "share.acknowledgement.mode",
}  # fmt: skip
"""Spark's source, or windowpane, decides which partitions and offsets are read."""
EXACTLY_ONCE = {"acks", "enable.idempotence", "max.in.flight.requests.per.connection", "retries", "transactional.id"}
"""The guarantee of the sink depends on them."""
OTHER_LOGINS = re.compile(r"sasl\.(oauthbearer|kerberos)\..*|ssl\.cipher\.suites")
"""Java sets these logins up by JAAS, and has its own names for cipher suites."""


def java_options(role: kafka.Role) -> set[str]:
    """From the documentation that Kafka's own class prints."""
    available(lambda: bring("scripts/kafka-jars"))
    name = f"org.apache.kafka.clients.{role}.{role.capitalize()}Config"
    command = [_java(), "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", f"{JARS / 'broker'}/*", name]
    shown = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout
    return set(re.findall(r'<h4><a id="(?:\w+_)?([a-z0-9.]+)"', shown))


@pytest.mark.parametrize(("role", "letter"), [("consumer", "C"), ("producer", "P")])
def test_options_that_both_clients_have_are_translated(role: kafka.Role, letter: str, tmp_path: Path) -> None:
    given, known = java_options(role), properties(tmp_path)
    assert len(given) > 80
    shared = {name for name in given if known.get(name) in ("*", letter)}
    assert {"bootstrap.servers", "client.rack" if role == "consumer" else "linger.ms"} <= shared
    refused = set()
    for name in shared:
        try:
            kafka.client_settings({"kafka.ssl.keystore.type": "PEM", f"kafka.{name}": "1"}, role)
        except kafka.UntranslatableError:
            refused.add(name)
    unexplained = {name for name in refused if not OTHER_LOGINS.fullmatch(name)}
    assert unexplained == shared & (GROUPS if role == "consumer" else EXACTLY_ONCE)
