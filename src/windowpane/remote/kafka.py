"""Kafka's own client, librdkafka: its settings, translated from those of the Java client that Spark's options name."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from typing import Any, Literal

from windowpane.remote.optional_packages import optional_module

PREFIX = "kafka."
SERVERS = "kafka.bootstrap.servers"
_CONNECTION = frozenset({
    "bootstrap.servers", "client.id", "client.dns.lookup", "security.protocol", "sasl.mechanism", "ssl.key.password",
    "sasl.kerberos.service.name", "reconnect.backoff.ms", "reconnect.backoff.max.ms", "metadata.max.age.ms",
    "connections.max.idle.ms", "socket.connection.setup.timeout.ms", "retry.backoff.ms", "retry.backoff.max.ms",
    "metadata.recovery.strategy", "metadata.recovery.rebootstrap.trigger.ms", "enable.metrics.push",
})  # fmt: skip
_CONSUMER = frozenset(
    {"isolation.level", "fetch.min.bytes", "fetch.max.bytes", "max.partition.fetch.bytes", "check.crcs", "client.rack"}
)
_PRODUCER = frozenset({
    "compression.type", "linger.ms", "batch.size", "delivery.timeout.ms", "transaction.timeout.ms",
    "request.timeout.ms",
})  # fmt: skip
_RENAMED = {
    "consumer": {"fetch.max.wait.ms": "fetch.wait.max.ms", "request.timeout.ms": "socket.timeout.ms"},
    "producer": {"max.request.size": "message.max.bytes"},
}
_ANYWHERE = {
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
}
_WITHOUT_EFFECT = frozenset({"max.poll.records", "max.poll.interval.ms", "buffer.memory", "max.block.ms"})
"""How Java's client hands records over in its own memory."""
_LOGIN = re.compile(r"\s*[\w.]*\.(?:PlainLoginModule|ScramLoginModule)\s+required\b(?P<rest>.*?);?\s*", re.DOTALL)
_PAIR = re.compile(r"""(\w+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s;]+))""")
_STORES = ("ssl.truststore.", "ssl.keystore.")

Role = Literal["consumer", "producer"]


class UntranslatableError(Exception):
    """An option that librdkafka does not have, and why."""

    def __init__(self, option: str, why: str) -> None:
        super().__init__(f"{PREFIX}{option} {why}")
        self.option = f"{PREFIX}{option}"


def has_client() -> bool:
    """Whether confluent-kafka is installed."""
    return importlib.util.find_spec("confluent_kafka") is not None


def client_module(name: str = "") -> Any:
    """confluent-kafka, or one of its modules; ConfigError if it is not installed."""
    module = f"confluent_kafka.{name}" if name else "confluent_kafka"
    return optional_module(module, "Kafka messages without Spark", extra="kafka", everywhere=True)


def client_settings(options: Mapping[str, str], role: Role) -> dict[str, str]:
    """The options that begin with `kafka.` as librdkafka takes them; UntranslatableError if it has no such option."""
    given = {
        name.lower().removeprefix(PREFIX): value for name, value in options.items() if name.lower().startswith(PREFIX)
    }
    found = _login(given) | _certificates(given)
    for name, value in given.items():
        new = _translated(name, role)
        if new is not None:
            found[new] = value
    return {"log_level": "2"} | found


def translated_options(role: Role) -> frozenset[str]:
    """Options of librdkafka that those of Java's client become one by one, without logins and certificates."""
    kept = _CONNECTION | (_CONSUMER if role == "consumer" else _PRODUCER)
    return kept | frozenset(_RENAMED[role].values()) | frozenset(_ANYWHERE.values())


def connection_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Those of translated settings that say how to reach the brokers, for clients that neither read nor write."""
    return {
        name: value
        for name, value in settings.items()
        if name in _CONNECTION or name.startswith(("ssl.", "sasl.", "socket.")) or name == "log_level"
    }


def _translated(name: str, role: Role) -> str | None:
    """The name of an option in librdkafka; None if it is translated elsewhere, or has no meaning there."""
    renamed = _ANYWHERE.get(name) or _RENAMED[role].get(name)
    if renamed is not None:
        return renamed
    if name in _CONNECTION or name in (_CONSUMER if role == "consumer" else _PRODUCER):
        return name
    if name in _WITHOUT_EFFECT or name == "sasl.jaas.config" or name.startswith((*_STORES, "ssl.endpoint.")):
        return None
    raise UntranslatableError(name, f"has no equal in librdkafka for a {role}")


def _login(given: Mapping[str, str]) -> dict[str, str]:
    """User and password of the JAAS text of the mechanisms PLAIN and SCRAM."""
    mechanism = given.get("sasl.mechanism", "GSSAPI")
    if not given.get("security.protocol", "").upper().startswith("SASL"):
        return {}
    if mechanism.upper() not in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        raise UntranslatableError(
            "sasl.mechanism", f"{mechanism} is set up by Java's JAAS, which librdkafka does not read"
        )
    found = _LOGIN.fullmatch(given.get("sasl.jaas.config", ""))
    pairs = {key: a or b or c for key, a, b, c in _PAIR.findall(found["rest"])} if found else {}
    if not {"username", "password"} <= pairs.keys():
        raise UntranslatableError(
            "sasl.jaas.config", "does not name a PlainLoginModule or ScramLoginModule with a user"
        )
    return {"sasl.username": pairs["username"], "sasl.password": pairs["password"]}


def _certificates(given: Mapping[str, str]) -> dict[str, str]:
    """Files in PEM, and a key store in PKCS12. librdkafka does not read Java's own format."""
    found = {}
    trusted, own = given.get("ssl.truststore.location"), given.get("ssl.keystore.location")
    if trusted is not None:
        _check_type(given, "ssl.truststore", ("PEM",))
        found["ssl.ca.location"] = trusted
    if own is not None and _check_type(given, "ssl.keystore", ("PEM", "PKCS12")) == "PEM":
        found |= {"ssl.certificate.location": own, "ssl.key.location": own}
    elif own is not None:
        found |= {"ssl.keystore.location": own, "ssl.keystore.password": given.get("ssl.keystore.password", "")}
    if given.get("ssl.endpoint.identification.algorithm") == "":
        found["ssl.endpoint.identification.algorithm"] = "none"
    return found


def _check_type(given: Mapping[str, str], store: str, known: tuple[str, ...]) -> str:
    kind = given.get(f"{store}.type", "JKS").upper()
    if kind not in known:
        raise UntranslatableError(f"{store}.type", f"is {kind}, and librdkafka reads {' and '.join(known)}")
    return kind
