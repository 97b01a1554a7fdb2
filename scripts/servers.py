"""Real servers for tests and the demo: a Kafka broker, PostgreSQL, Redis, an S3 server, HDFS. They run on free ports of
loopback, with their data in a temporary folder, and end when their block ends. `python scripts/servers.py` runs Kafka
and PostgreSQL until Ctrl-C.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

ROOT = Path(__file__).resolve().parents[1]
JARS = ROOT / ".tools" / "kafka"
HADOOP, YARN = ROOT / ".tools" / "hadoop", ROOT / ".tools" / "yarn"
LOOPBACK = "127.0.0.1"
_START_SECONDS, _STOP_SECONDS = 180, 20
_BROKER = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller}
advertised.listeners=PLAINTEXT://{host}:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
auto.create.topics.enable=false
log.retention.ms=-1
num.partitions=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
log.cleaner.backoff.ms=200
broker.session.timeout.ms=2000
broker.heartbeat.interval.ms=400
controlled.shutdown.enable=false
"""


_SECURED = """
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller},SECURED://{host}:{secured}
advertised.listeners=PLAINTEXT://{host}:{port},SECURED://{host}:{secured}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURED:SASL_SSL
sasl.enabled.mechanisms=PLAIN
listener.name.secured.plain.sasl.jaas.config={module} required user_{user}="{password}";
listener.name.secured.ssl.keystore.location={folder}/broker.p12
listener.name.secured.ssl.keystore.type=PKCS12
listener.name.secured.ssl.keystore.password={password}
listener.name.secured.ssl.key.password={password}
"""


AnyServer = TypeVar("AnyServer", bound="Server")


class UnavailableError(Exception):
    """This machine has no such server, and none can be brought; the message says what is needed."""


class Server:
    """A server process. `stop` and `start` are a restart: port and data stay."""

    def __init__(self, name: str, user: str | None = None) -> None:
        self.port = free_port()
        self.folder = Path(tempfile.mkdtemp(prefix=f"windowpane-{name}-"))
        self.log = self.folder / "server.log"
        self._name, self._user = name, user
        self._process: subprocess.Popen[bytes] | None = None
        if user is not None:
            shutil.chown(self.folder, user)

    @property
    def pid(self) -> int:
        """Of the process, which runs."""
        assert self._process is not None
        return self._process.pid

    def command(self) -> list[str]:
        raise NotImplementedError

    def answers(self) -> bool:
        """Whether the server, which has been started, takes requests by now."""
        raise NotImplementedError

    def start(self) -> None:
        with self.log.open("ab") as log:
            # A session of its own: Ctrl-C is for the test run, which then ends its servers in order.
            self._process = subprocess.Popen(  # noqa: S603  # a server that this project has brought
                self.command(), stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True,
                user=self._user, cwd=self.folder,
            )  # fmt: skip
        process = self._process
        self._wait(lambda: self.answers() or process.poll() is not None, _START_SECONDS)
        if process.poll() is not None:
            raise RuntimeError(f"{self._name} did not start: {self.log.read_text(errors='replace')[-2000:]}")

    def stop(self) -> None:
        """End the process, as a machine that is shut down would."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGINT if self._name == "postgres" else signal.SIGTERM)
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, command: list[str]) -> None:
        done = subprocess.run(command, check=False, capture_output=True, text=True, user=self._user, cwd=self.folder)  # noqa: S603
        if done.returncode != 0:
            raise RuntimeError(f"{command[0]} failed: {(done.stdout + done.stderr)[-2000:]}")

    def _wait(self, happened: Callable[[], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not happened():
            if time.monotonic() > deadline:
                self.stop()
                raise TimeoutError(f"{self._name} has not answered for {seconds} s: see {self.log}")
            time.sleep(0.1)


class Kafka(Server):
    """An Apache Kafka broker that is its own controller (KRaft)."""

    def __init__(self) -> None:
        bring("scripts/kafka-jars")
        super().__init__("kafka")
        self.address = f"{LOOPBACK}:{self.port}"
        settings = _BROKER.format(host=LOOPBACK, port=self.port, controller=free_port(), data=self.folder / "data")
        (self.folder / "server.properties").write_text(settings, encoding="utf-8")
        cluster = ["--cluster-id", "d2luZG93cGFuZS10ZXN0cw", "--ignore-formatted"]
        self.run([*self._java("kafka.tools.StorageTool"), "format", "--config", "server.properties", *cluster])

    def secure(self) -> dict[str, str]:
        """Before the start: add an address with TLS and login. Gives the options with which a client reaches it."""
        user, password, port = "tester", "secret of tests", free_port()
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        file = self.folder / "server.properties"
        kept = [line for line in file.read_text().splitlines() if not line.startswith(("listener", "advertised"))]
        controller = next(line for line in kept if line.startswith("controller.quorum")).rpartition(":")[2]
        secured = _SECURED.format(
            host=LOOPBACK, port=self.port, controller=controller, secured=port, module=module, user=user,
            password=password, folder=self.folder,
        )  # fmt: skip
        file.write_text("\n".join(kept) + secured, encoding="utf-8")
        keytool, store = str(Path(_java()).with_name("keytool")), ["-keystore", "broker.p12", "-storepass", password]
        names = ["-dname", "CN=broker", "-ext", f"san=ip:{LOOPBACK}", "-alias", "broker"]
        self.run([keytool, "-genkeypair", "-keyalg", "EC", "-storetype", "PKCS12", *names, *store])
        self.run([keytool, "-exportcert", "-rfc", "-file", "broker.pem", "-alias", "broker", *store])
        return {
            "kafka.bootstrap.servers": f"{LOOPBACK}:{port}",
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.jaas.config": f'{module} required username="{user}" password="{password}";',
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.location": str(self.folder / "broker.pem"),
        }

    def command(self) -> list[str]:
        return [*self._java("kafka.Kafka"), "server.properties"]

    def answers(self) -> bool:
        return listens(self.port)

    def _java(self, main: str) -> list[str]:
        return [_java(), "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{JARS / 'broker'}/*", main]


class Postgres(Server):
    """A PostgreSQL server with a database `test`. As root it runs as the user postgres, since it refuses to be root."""

    def __init__(self) -> None:
        self._programs = Path(bring("scripts/postgres-bin"))
        super().__init__("postgres", _unprivileged())
        self.url = f"postgresql://test@{LOOPBACK}:{self.port}/postgres"
        self.run(
            [str(self._programs / "initdb"), "--pgdata", "data", "--username", "test", "--auth", "trust",
             "--encoding", "UTF8", "--no-sync"]
        )  # fmt: skip

    def command(self) -> list[str]:
        settings = ["fsync=off", "max_connections=20", "shared_buffers=32MB", f"listen_addresses={LOOPBACK}"]
        flags = [part for setting in settings for part in ("-c", setting)]
        programs = str(self._programs / "postgres")
        return [programs, "-D", "data", "-p", str(self.port), "-k", str(self.folder), *flags]

    def answers(self) -> bool:
        ready = [str(self._programs / "pg_isready"), "-h", LOOPBACK, "-p", str(self.port), "-q"]
        return subprocess.run(ready, check=False).returncode == 0  # noqa: S603


class Redis(Server):
    """A Redis server that writes nothing to disk."""

    def __init__(self) -> None:
        self._program = bring("scripts/redis-bin")
        super().__init__("redis")
        self.url = f"redis://{LOOPBACK}:{self.port}/0"

    def command(self) -> list[str]:
        return [self._program, "--port", str(self.port), "--bind", LOOPBACK, "--save", "", "--appendonly", "no"]

    def answers(self) -> bool:
        return listens(self.port)


class S3(Server):
    """An S3 server, moto, with one bucket. It keeps its objects in memory."""

    bucket = "windowpane"

    def __init__(self, host: str = LOOPBACK) -> None:
        super().__init__("s3")
        self._host = host
        self.url = f"http://{host}:{self.port}"

    def command(self) -> list[str]:
        return [sys.executable, str(ROOT / "scripts" / "s3_server.py"), "-H", self._host, "-p", str(self.port)]

    def answers(self) -> bool:
        return listens(self.port, self._host)

    def start(self) -> None:
        super().start()
        self.make_bucket()

    def make_bucket(self) -> None:
        request = urllib.request.Request(f"{self.url}/{self.bucket}", method="PUT")  # noqa: S310  # our own server
        with urllib.request.urlopen(request):  # noqa: S310
            pass

    @property
    def settings(self) -> dict[str, str]:
        """Spark's configuration for it."""
        return {
            "spark.hadoop.fs.s3a.endpoint": self.url,
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.access.key": "key-of-tests",
            "spark.hadoop.fs.s3a.secret.key": "secret-of-tests",
        }


class Hdfs(Server):
    """A real HDFS, its namenode and a datanode in one process."""

    def __init__(self) -> None:
        bring("scripts/hadoop-jars")
        super().__init__("hdfs")
        self.url = f"hdfs://{LOOPBACK}:{self.port}"

    def command(self) -> list[str]:
        return hdfs_command(str(self.folder / "data"), LOOPBACK, self.port)

    def answers(self) -> bool:
        return self.log.exists() and "\nready" in f"\n{self.log.read_text(errors='replace')}"


def hdfs_command(folder: str, host: str, port: int) -> list[str]:
    """Starts an HDFS that listens on an address. It prints "ready" when it can be used."""
    import pyspark  # noqa: PLC0415  # whose jars have the rest of Hadoop

    jars = (str(HADOOP / "hdfs"), str(Path(pyspark.__file__).parent / "jars"))
    return hadoop_command(str(ROOT / "scripts" / "MiniHdfs.java"), jars, folder, host, str(port))


def hadoop_command(source: str, jars: Iterable[str], *arguments: str) -> list[str]:
    """Runs a program of Java with the jars of some folders."""
    classes = ":".join(f"{folder}/*" for folder in jars)
    return [_java(), "-Xmx384m", "-XX:TieredStopAtLevel=1", "-cp", classes, source, *arguments]


@contextlib.contextmanager
def running(kind: Callable[[], AnyServer]) -> Iterator[AnyServer]:
    """A server for the length of a block."""
    server = kind()
    try:
        server.start()
        yield server
    finally:
        server.remove()


def bring(script: str) -> str:
    """What a script of the project prints when it has found or installed what it is for."""
    done = subprocess.run([ROOT / script], check=False, capture_output=True, text=True)  # noqa: S603  # our own
    if done.returncode != 0:
        told = done.stderr.strip().splitlines()
        raise UnavailableError(told[-1] if told else f"{script} failed")
    return done.stdout.strip()


def connector_jars() -> list[str]:
    """Spark's Kafka connector, for `[spark]` jars."""
    bring("scripts/kafka-jars")
    return sorted(str(path) for path in (JARS / "connector").glob("*.jar"))


def hadoop_jars() -> list[str]:
    """Hadoop's S3A and Spark's way to write checkpoints there, for `[spark]` jars."""
    bring("scripts/hadoop-jars")
    return sorted(str(path) for path in (HADOOP / "s3a").glob("*.jar"))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def listens(port: int, host: str = LOOPBACK) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=1):
        return True
    return False


def _java() -> str:
    return str(Path(os.environ["JAVA_HOME"]) / "bin" / "java") if "JAVA_HOME" in os.environ else "java"


def _unprivileged() -> str | None:
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres").pw_name
    except KeyError:
        raise UnavailableError("PostgreSQL does not run as root, and there is no user postgres") from None


def main() -> int:
    with running(Kafka) as kafka, running(Postgres) as postgres:
        print(f"kafka.bootstrap.servers = {kafka.address}\nurl = {postgres.url}\nCtrl-C ends them.")
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()
    return 0


if __name__ == "__main__":
    sys.exit(main())
