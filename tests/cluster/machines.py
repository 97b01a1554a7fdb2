"""Machines on one machine: each has its own address, host name, temporary folders and view of the disk.

A machine has namespaces of its own for network, mounts, host name and processes, which end with the process that
holds them. All machines are connected by a bridge.
Workers see neither the project, nor its virtual environment, nor the Python it is made from: only Java, and Spark
in a folder of their own. Nothing that one machine writes is seen by another.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyspark
import pytest

ROOT = Path(__file__).resolve().parents[2]
MOUNTS = "/mnt"
"""A folder of every system that is for this."""
SPARK_HOME = f"{MOUNTS}/spark"
SCRATCH = f"{MOUNTS}/scratch"
_UNSHARE = ("setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--net", "--uts", "--pid", "--fork")
"""Namespaces that end with us, even if we are killed."""
_BRIDGE = f"wpb{os.getpid()}"
DEADLINE = 900.0
"""Seconds for one step on a busy machine."""


@dataclass(frozen=True)
class Machine:
    """`first` is the process of the machine with which all others end, and `holder` the one that has started it."""

    name: str
    address: str
    holder: subprocess.Popen[bytes]
    first: int
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def command(self, *arguments: str, environment: Mapping[str, str] | None = None) -> list[str]:
        """The command that runs another one here, with nothing of our environment."""
        given = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": SCRATCH, "TMPDIR": SCRATCH,
                 "SPARK_LOCAL_DIRS": SCRATCH}  # fmt: skip
        given |= {name: os.environ[name] for name in ("JAVA_HOME",) if name in os.environ}
        variables = [f"{name}={value}" for name, value in (given | dict(environment or {})).items()]
        enter = ["nsenter", "--target", str(self.first), "--mount", "--net", "--uts", "--pid"]
        return [*enter, "env", "-i", "-C", SCRATCH, *variables, *arguments]

    def start(
        self, log: Path, *arguments: str, environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        with log.open("ab") as output:
            command = self.command(*arguments, environment=environment)
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        self.started.append(process)
        return process

    def run(self, *arguments: str, given: str = "") -> str:
        command = self.command(*arguments)
        done = subprocess.run(command, input=given, capture_output=True, text=True, check=False, timeout=600)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def processes(self, wanted: str = "") -> list[int]:
        """Processes here whose command line contains this text."""
        own, found = Path(f"/proc/{self.first}/ns/net").stat().st_ino, list[int]()
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                is_here = (path / "ns" / "net").stat().st_ino == own and int(path.name) != self.first
                if is_here and wanted in (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"):
                    found.append(int(path.name))
        return sorted(found)

    def signal(self, number: int, wanted: str = "") -> int:
        """Send a signal to processes here; returns to how many."""
        found = self.processes(wanted)
        for process in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, number)
        return len(found)

    def pause(self) -> None:
        """Stop every process here.

        Not the `nsenter` of a command: it stops itself when it finds its command stopped. If it were stopped before
        that, it would stop itself after it has been continued.
        """
        wait_until(self._is_paused, f"{self.name} does not stop")

    def _is_paused(self) -> bool:
        """A shell whose new child was stopped before it began waits for it and cannot stop: the child has to begin."""
        if self._in_state("D"):
            self._send(signal.SIGCONT, self._in_state("T"))
            time.sleep(0.05)
        return self._send(signal.SIGSTOP, self._in_state(*"RSD"))

    def resume(self) -> None:
        """Continue every process here, `nsenter` too."""
        wait_until(lambda: self._send(signal.SIGCONT, self._in_state("T")), f"{self.name} does not go on")

    def _send(self, number: int, processes: list[int]) -> bool:
        """Whether there is no process to which the signal should go. `nsenter` continues its command by itself."""
        entered = {process.pid for process in self.started}
        for process in processes:
            if number == signal.SIGCONT or process not in entered:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, number)
        return not processes

    def _in_state(self, *letters: str) -> list[int]:
        return [process for process in self.processes() if _state(process) in letters]

    def crash(self) -> None:
        """The power goes: every process ends at once, and its disk is lost with the namespaces."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.first, signal.SIGKILL)
        for process in (self.holder, *self.started):
            process.wait()


@dataclass
class Network:
    """Machines that reach each other, and that we reach."""

    folder: Path
    subnet: str
    names: tuple[str, ...]
    machines: list[Machine] = field(default_factory=list)

    def add(self, name: str, *, sees_project: bool = False, shared: Mapping[str, Path] | None = None) -> Machine:
        """A machine. `shared`: folders of ours that it can read, by the path it gives them."""
        number = self.names.index(name) + 10
        address = f"{self.subnet}.{number}"
        script = self.folder / f"{name}.sh"
        script.write_text(_mounts(self, name, sees_project=sees_project, shared=shared or {}), encoding="utf-8")
        holder = subprocess.Popen(
            [*_UNSHARE, "--kill-child", "--mount-proc", "sh", str(script)],
            stdout=subprocess.PIPE,
        )  # fmt: skip
        assert holder.stdout is not None
        with holder.stdout as said:
            assert said.readline() == b"ready\n", "its mounts cannot be made"
        first = Path(f"/proc/{holder.pid}/task/{holder.pid}/children").read_text(encoding="ascii")
        machine = Machine(name, address, holder, int(first))
        self.machines.append(machine)
        near = f"{_BRIDGE}n{number}"
        _do("ip", "link", "add", near, "type", "veth", "peer", "name", "eth0", "netns", first.strip())
        _do("ip", "link", "set", near, "master", _BRIDGE, "up")
        inside = ["nsenter", "--target", first.strip(), "--net", "ip"]
        _do(*inside, "address", "add", f"{address}/24", "dev", "eth0")
        _do(*inside, "link", "set", "eth0", "up")
        _do(*inside, "link", "set", "lo", "up")
        return machine


@contextlib.contextmanager
def network(folder: Path, names: tuple[str, ...]) -> Iterator[Network]:
    """A bridge for machines of these names. Skips the test where namespaces are not permitted."""
    subnet = f"198.18.{os.getpid() % 250}"
    _skip_unless_permitted()
    _remove_leftovers()
    made = Network(folder, subnet, names)
    try:
        _do("ip", "link", "add", _BRIDGE, "type", "bridge")
        _do("ip", "address", "add", f"{subnet}.1/24", "dev", _BRIDGE)
        _do("ip", "link", "set", _BRIDGE, "up")
        yield made
    finally:
        for machine in made.machines:
            machine.crash()
        subprocess.run(["ip", "link", "del", _BRIDGE], check=False, capture_output=True)


def wait_until(is_so: Callable[[], bool], otherwise: str, process: subprocess.Popen[bytes] | None = None) -> None:
    """Wait until something is so, while a process runs."""
    deadline = time.monotonic() + DEADLINE
    while not is_so():
        assert process is None or process.poll() is None, f"{otherwise}: the run has ended"
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.1)


def _state(process: int) -> str:
    """A letter: T is stopped. Empty if it has ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
    except OSError:
        return ""


def _mounts(within: Network, name: str, *, sees_project: bool, shared: Mapping[str, Path]) -> str:
    """The script that builds a machine's view of the disk, and then sleeps for as long as the machine exists."""
    spark = shlex.quote(str(Path(pyspark.__file__).parent))
    hosts = "\n".join(f"{within.subnet}.{10 + at} {each}" for at, each in enumerate(within.names))
    lines = [
        "set -e", f"hostname {name}",
        f"mount -t tmpfs -o size=4g tmpfs {MOUNTS}", f"mkdir {SPARK_HOME} {SCRATCH} {MOUNTS}/etc",
        f"mount --bind {spark} {SPARK_HOME}",
        f"printf '127.0.0.1 localhost\\n%s\\n' {shlex.quote(hosts)} > {MOUNTS}/etc/hosts",
        f"mount --bind {MOUNTS}/etc/hosts /etc/hosts",
    ]  # fmt: skip
    for place, folder in shared.items():
        lines += [f"mkdir -p {place}", f"mount --bind {shlex.quote(str(folder))} {place}"]
        lines += [f"mount -o remount,ro,bind {place}"]
    hidden = [Path("/tmp"), *([] if sees_project else _of_the_project())]
    lines += [f"mount -t tmpfs tmpfs {shlex.quote(str(path))}" for path in hidden]
    return "\n".join([*lines, "echo ready", "exec sleep 86400"])


def _of_the_project() -> list[Path]:
    """Where the project and its Python are. A Python of the system stays: workers must not find windowpane there."""
    places = {path.resolve() for path in (ROOT, Path(sys.base_prefix), Path.home(), Path(sys.prefix)) if path.is_dir()}
    own = {path for path in places if not path.is_relative_to("/usr") and path != Path("/")}
    return sorted(path for path in own if not any(path != each and path.is_relative_to(each) for each in own))


def _skip_unless_permitted() -> None:
    for program in ("ip", "setpriv", "unshare", "nsenter"):
        if shutil.which(program) is None:
            pytest.skip(f"`{program}` is not installed (Debian: iproute2, util-linux)")
    tried = [["ip", "link", "add", _BRIDGE, "type", "bridge"], ["ip", "link", "del", _BRIDGE],
             [*_UNSHARE, "sh", "-c", f"mount -t tmpfs tmpfs {MOUNTS}"]]  # fmt: skip
    for command in tried:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"namespaces cannot be used here: {done.stderr.strip()}")


def _remove_leftovers() -> None:
    """Bridges of test runs that were killed."""
    for path in Path("/sys/class/net").glob("wpb*"):
        if path.name[3:].isdigit() and not Path("/proc", path.name[3:]).exists():
            subprocess.run(["ip", "link", "del", path.name], check=False, capture_output=True)


def _do(*command: str) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
