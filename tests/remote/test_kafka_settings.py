"""Options of Kafka's Java client, as Spark takes them, become those of librdkafka, or are refused by name."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, Producer

from windowpane.remote.kafka import UntranslatableError, client_settings, connection_settings

BROKER = {"kafka.bootstrap.servers": "127.0.0.1:1"}
PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="a;b c";'
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required username='me' password=hush;"


def test_a_login_is_read_from_its_jaas_text() -> None:
    given = BROKER | {
        "kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": "PLAIN", "kafka.sasl.jaas.config": PLAIN,
    }  # fmt: skip
    found = client_settings(given, "consumer")
    assert (found["sasl.username"], found["sasl.password"]) == ("me", "a;b c")
    assert "sasl.jaas.config" not in found
    scram = client_settings(
        given | {"kafka.sasl.mechanism": "SCRAM-SHA-512", "kafka.sasl.jaas.config": SCRAM}, "producer"
    )
    assert (scram["sasl.username"], scram["sasl.password"]) == ("me", "hush")
    assert connection_settings(scram).keys() >= {"sasl.username", "sasl.mechanism", "bootstrap.servers"}
    Producer(dict(scram))
    Consumer({**found, "group.id": "x"})


def test_certificates_are_files_or_text_in_pem() -> None:
    stores = {
        "kafka.ssl.truststore.location": "ca.pem", "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.keystore.location": "me.p12", "kafka.ssl.keystore.type": "PKCS12",
        "kafka.ssl.keystore.password": "hush", "kafka.ssl.endpoint.identification.algorithm": "",
    }  # fmt: skip
    found = client_settings(BROKER | {"kafka.security.protocol": "SSL"} | stores, "consumer")
    assert (found["ssl.ca.location"], found["ssl.keystore.location"], found["ssl.keystore.password"]) == (
        "ca.pem", "me.p12", "hush",
    )  # fmt: skip
    assert found["ssl.endpoint.identification.algorithm"] == "none"


def test_every_option_is_renamed_kept_or_refused() -> None:
    given = BROKER | {
        "kafka.isolation.level": "read_committed", "kafka.fetch.max.wait.ms": "50", "kafka.max.poll.records": "5",
        "kafka.receive.buffer.bytes": "65536", "startingOffsets": "earliest",
    }  # fmt: skip
    found = client_settings(given, "consumer")
    assert found == {
        "bootstrap.servers": "127.0.0.1:1", "isolation.level": "read_committed", "fetch.wait.max.ms": "50",
        "socket.receive.buffer.bytes": "65536", "log_level": "2",
    }  # fmt: skip
    Consumer({**found, "group.id": "x"})


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"kafka.interceptor.classes": "X"}, "kafka.interceptor.classes"),
        ({"kafka.isolation.level": "read_committed"}, "kafka.isolation.level"),
        ({"kafka.ssl.truststore.location": "ca.jks"}, "kafka.ssl.truststore.type"),
        ({"kafka.security.protocol": "SASL_SSL"}, "kafka.sasl.mechanism"),
        ({"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "PLAIN"}, "kafka.sasl.jaas.config"),
    ],
)
def test_what_librdkafka_does_not_have_is_named(options: dict[str, str], named: str) -> None:
    with pytest.raises(UntranslatableError) as refused:
        client_settings(BROKER | options, "producer")
    assert refused.value.option == named
