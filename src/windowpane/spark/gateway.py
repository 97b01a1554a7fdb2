"""Starts the JVM that Spark runs in. Signals meant for this process do not reach the JVM, and it never outlives us.

systemd and `timeout` send SIGTERM to every process of a service or group at once. A JVM that obeyed would take Spark
away while the pipeline still needs it to stop in order. So the JVM ignores these signals, has a session of its own,
and ends when this process does: it reads from a pipe that breaks then.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from pyspark import SparkConf, SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway
from pyspark.serializers import UTF8Deserializer, read_int

from windowpane.errors import SparkError
from windowpane.spark.java import java_problem
from windowpane.temporary import lock_of, make_temporary, remove_temporary

START_FAILED = "SPARK_START"
"""The code of the error if Java or Spark ends before it has started."""
_DEAF = 'trap "" INT TERM HUP; exec "$@"'
"""Ignored signals stay ignored in whatever a shell executes, and the JVM leaves them so."""
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_POLL_SECONDS = 0.05
_END_SECONDS = 10.0


@dataclass(frozen=True)
class JvmStart:
    """How the JVM is started, beside Spark's settings."""

    environment: Mapping[str, str]
    """Variables beside ours."""
    proxy_user: str | None = None
    folder: Path | None = None
    """Its working folder instead of ours. Relative paths in Spark's settings still start from ours."""


def launch_jvm(config: Mapping[str, str], start: JvmStart, log: Path | None) -> None:
    """Start the JVM for this process and make PySpark use it. Nothing happens when PySpark has one already.

    With `log`, everything that the JVM and the Python workers print goes to that file.
    """
    if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:  # noqa: SLF001
        return
    conf = SparkConf(loadDefaults=False)
    for name, value in config.items():
        conf.set(name, value)
    if log is None:
        gateway = _launch(config, start, None)
    else:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            os.fchmod(output.fileno(), log.parent.stat().st_mode & 0o666)  # it may quote rows
            gateway = _launch(config, start, output)
    SparkContext._ensure_initialized(gateway=gateway, conf=conf)  # noqa: SLF001  # what SparkContext itself calls


def _launch(config: Mapping[str, str], start: JvmStart, output: IO[bytes] | None) -> Any:
    """As pyspark.java_gateway.launch_gateway does, which gives no hold on the process while it starts."""
    folder = make_temporary("jvm")
    address = folder / "address"
    settings = folder / "settings"
    settings.touch(0o600)
    settings.write_text(properties(_in_folder(config, start.folder)), encoding="utf-8")
    own = {"SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(address)}
    process = subprocess.Popen(  # noqa: S603  # Spark's own script
        ["/bin/sh", "-c", _DEAF, "sh", *_command(settings, start.proxy_user)],
        stdin=subprocess.PIPE, stdout=output, stderr=output,
        env=os.environ | start.environment | own, cwd=start.folder, start_new_session=True,
        # Without the folder, a JVM that is still starting when we are killed would fail and never end.
        pass_fds=(lock_of(folder),),
    )  # fmt: skip
    try:
        port, secret = _wait_for(address, process)
        gateway = _connect(port, secret)
    except BaseException:
        _kill(process)
        raise
    finally:
        remove_temporary(folder)
    gateway.proc = process
    atexit.register(_end, process)
    return gateway


def _command(settings: Path, proxy_user: str | None) -> list[str]:
    """Settings may hold passwords, and everybody on the machine sees a command line: they go by a file of our own."""
    script = str(Path(_find_spark_home()) / "bin" / "spark-submit")
    given = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
    options = [] if proxy_user is None else ["--proxy-user", proxy_user]
    return [script, "--load-spark-defaults", "--properties-file", str(settings), *options, *given]


def _in_folder(config: Mapping[str, str], folder: Path | None) -> Mapping[str, str]:
    """Java takes `user.dir` as the start of relative paths, and the working folder for programs that it executes."""
    if folder is None:
        return config
    options = f'{config.get(_JAVA_OPTIONS, "")} "-Duser.dir={Path.cwd()}"'
    return {**config, _JAVA_OPTIONS: options.strip()}


def properties(config: Mapping[str, str]) -> str:
    """Settings as a properties file of Java has them, which Spark reads as UTF-8."""
    return "".join(f"{_escaped(name)}={_escaped(value)}\n" for name, value in config.items())


def _escaped(text: str) -> str:
    """Everything but letters and digits by its number, as Java escapes it, so that none has a meaning of its own."""
    units = text.encode("utf-16-be")
    codes = [int.from_bytes(units[at : at + 2]) for at in range(0, len(units), 2)]
    return "".join(chr(code) if code < 128 and chr(code).isalnum() else f"\\u{code:04x}" for code in codes)


def _wait_for(address: Path, process: subprocess.Popen[bytes]) -> tuple[int, str]:
    """Port and secret of the JVM; it renames the file into place once it listens."""
    while not address.is_file():
        if process.poll() is not None:
            raise java_problem() or SparkError(START_FAILED, "Java ended before Spark had started")
        time.sleep(_POLL_SECONDS)
    with address.open("rb") as file:
        return read_int(file), UTF8Deserializer().loads(file)  # type: ignore[no-untyped-call]


def _connect(port: int, secret: str) -> Any:
    """PySpark finds a JVM that runs already by these two variables."""
    variables = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
    os.environ.update(variables)
    try:
        return launch_gateway()  # type: ignore[no-untyped-call]
    finally:
        for name in variables:
            del os.environ[name]


def _end(process: subprocess.Popen[bytes]) -> None:
    """The JVM ends when its standard input does; whoever waits for this process need not wait for another."""
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """The JVM, and the scripts that start it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
