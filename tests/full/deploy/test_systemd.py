"""systemd takes the units and judges them as the page says, and a broker that is locked down like that serves."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbg_broker.cli.main import parse
from dbg_broker.settings import parse_listen
from dbg_dial.endpoint import DEFAULT_PORT
from tests.support.manifests import DEPLOY
from tests.support.pods import ROOT_IN_ROOT, SYSTEM, python_paths
from tests.support.processes import Child, Processes
from tests.support.ranks import attach_command
from tests.support.requirements import missing_for, needs_systemd
from tests.support.time_unit import seconds

USER_UNIT = DEPLOY / "systemd/user/dbg-broker.service"
SOCKET = USER_UNIT.with_suffix(".socket")
SYSTEM_UNIT = DEPLOY / "systemd/system/dbg-broker@.service"
CLUSTER = DEPLOY / "systemd/system/dbg-broker@.service.d/cluster.conf"
"""What makes the broker of that unit one of several."""
NATS_UNIT = DEPLOY / "systemd/system/dbg-broker-nats.service"
PAGE = (DEPLOY.parent / "docs/clusters/login-node.md").read_text()
COMMAND = re.compile(r"^ExecStart=(\S+) (.*)$", re.MULTILINE)

OWNER = 65532
"""The number of the user for whom the broker runs; this host has no such user."""

pytestmark = needs_systemd


def analyze(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=dict(os.environ) | {"XDG_RUNTIME_DIR": str(folder)},
        timeout=seconds(30),
    )


def copied(unit: Path, folder: Path, name: str) -> str:
    """Copy a unit under a name, with a command that exists on this machine, and return its path."""
    path = folder / name
    path.write_text(COMMAND.sub(r"ExecStart=/bin/true \2", unit.read_text()))
    return str(path)


@pytest.mark.parametrize(
    ("unit", "name", "option"),
    [
        (USER_UNIT, "dbg-broker.service", "--user"),
        (SYSTEM_UNIT, "dbg-broker@root.service", "--system"),
        (NATS_UNIT, "dbg-broker-nats.service", "--system"),
    ],
    ids=["user", "system", "nats"],
)
def test_systemd_accepts_the_unit(unit: Path, name: str, option: str, tmp_path: Path) -> None:
    result = analyze(option, "verify", copied(unit, tmp_path, name), folder=tmp_path)
    # An unknown option is a warning and status 0, so silence is what counts.
    assert (result.returncode, result.stdout + result.stderr) == (0, "")


def test_systemd_accepts_the_cluster_settings(tmp_path: Path) -> None:
    path = copied(SYSTEM_UNIT, tmp_path, "dbg-broker@root.service")
    (tmp_path / "dbg-broker@root.service.d").mkdir()
    copied(CLUSTER, tmp_path / "dbg-broker@root.service.d", "cluster.conf")
    result = analyze("--system", "verify", path, folder=tmp_path)
    assert (result.returncode, result.stdout + result.stderr) == (0, "")
    # A second command would be one too many for a service that reports when it is ready.
    assert "\nExecStart=\nExecStart=/" in CLUSTER.read_text()


def test_systemd_accepts_the_socket_and_gives_it_to_the_service(tmp_path: Path) -> None:
    copied(USER_UNIT, tmp_path, "dbg-broker.service")
    path = copied(SOCKET, tmp_path, "dbg-broker.socket")
    result = analyze("--user", "verify", path, folder=tmp_path)
    assert (result.returncode, result.stdout + result.stderr) == (0, "")
    # The broker takes one socket, of TCP.
    (address,) = re.findall(r"^Listen\w+=(.*)$", SOCKET.read_text(), re.MULTILINE)
    assert parse_listen(address).port == DEFAULT_PORT


@pytest.mark.parametrize("unit", [USER_UNIT, SYSTEM_UNIT, CLUSTER], ids=["user", "system", "cluster"])
def test_serve_accepts_the_options_of_the_unit(unit: Path) -> None:
    found = COMMAND.search(unit.read_text())
    assert found is not None
    assert parse(found[2].split()).verb == "serve"


def test_the_home_is_the_directory_that_systemd_makes() -> None:
    text = SYSTEM_UNIT.read_text()
    assert "\nStateDirectory=dbg-broker/%i\nStateDirectoryMode=0700\n" in text
    assert "\nEnvironment=DBG_HOME=/var/lib/dbg-broker/%i " in text
    assert "/var/lib/dbg-broker/$USER" in PAGE


def confined(unit: Path, folder: Path, *command: str, manager: str = "") -> list[str]:
    """Return a command line that runs a command as ``OWNER``, under what the unit forbids.

    All but the state directory is read-only, and no home directory is there.
    """
    state = folder / "state"
    if not state.exists():
        state.mkdir(mode=0o700)
        os.chown(state, OWNER, OWNER)
    root = folder / f"root-{len(list(folder.iterdir()))}"
    root.mkdir()
    binds = [(path, path, "ro") for path in (*SYSTEM, *python_paths())]
    binds += [("/proc", "/proc", "rw"), ("/dev", "/dev", "rw"), (str(state), "/var/lib/dbg-broker/owner", "rw")]
    words = [word for bind in binds for word in bind]
    script = [str(root), "yes", str(OWNER), str(OWNER), str(OWNER), *words, "--"]
    home = ["env", "-i", "PATH=/usr/bin:/bin", "DBG_HOME=/var/lib/dbg-broker/owner", "HOME=/var/lib/dbg-broker/owner"]
    home.append(f"NOTIFY_SOCKET={manager}")
    wrapped = [*home, sys.executable, str(DEPLOY.parent / "tests/support/confined.py"), str(unit), "--", *command]
    return ["unshare", "--mount", "sh", "-c", ROOT_IN_ROOT, "sh", *script, *wrapped]


needs_root = pytest.mark.skipif(
    missing_for(("unshare", "setpriv"), as_root=True) is not None, reason="only root can start another user's broker"
)

FORBIDDEN = """\
import mmap, os, socket
def attempt(name, call):
    try:
        call()
    except OSError as error:
        print(name, "is refused")
    else:
        print(name, "works")
attempt("writing outside", lambda: open("/etc/of-the-test", "w"))
attempt("a packet socket", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
attempt("memory for new code", lambda: mmap.mmap(-1, 4096, prot=7))
attempt("being nicer", lambda: os.nice(1))
attempt("another root", lambda: os.chroot("/"))
attempt("a tcp socket", lambda: socket.socket())
attempt("writing in the home", lambda: open(os.environ["DBG_HOME"] + "/note", "w"))
"""


@needs_root
def test_forbidden_actions_are_refused(tmp_path: Path) -> None:
    result = subprocess.run(
        confined(SYSTEM_UNIT, tmp_path, sys.executable, "-c", FORBIDDEN),
        capture_output=True,
        text=True,
        timeout=seconds(30),
        check=False,
    )
    lines = result.stdout.splitlines()
    assert [line.partition(" is refused")[0] for line in lines if line.endswith("refused")] == [
        *("writing outside", "a packet socket", "memory for new code", "being nicer", "another root")
    ], result.stderr
    assert len(lines) == 7


@pytest.fixture
def service_manager() -> Iterator[tuple[socket.socket, str]]:
    """Return the socket of a service manager, and its name as a variable has it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind("")  # the kernel chooses a name in the abstract namespace
        manager.settimeout(seconds(30))
        yield manager, f"@{manager.getsockname()[1:].decode()}"


@needs_root
@pytest.mark.parametrize("unit", [USER_UNIT, SYSTEM_UNIT], ids=["user", "system"])
def test_a_broker_serves_under_the_restrictions_of_the_unit(
    unit: Path, processes: Processes, tmp_path: Path, service_manager: tuple[socket.socket, str]
) -> None:
    serve = ["-m", "dbg_broker", "serve", "--listen", "127.0.0.1:0", "--classic", "127.0.0.1:0"]
    assert "\nType=notify\n" in unit.read_text()
    manager, name = service_manager
    broker = processes.start("broker", confined(unit, tmp_path, sys.executable, *serve, manager=name))
    assert manager.recv(100) == b"READY=1"
    broker.wait_for_output("ready at wss://")
    rendezvous = json.loads((tmp_path / "state/broker.json").read_text())
    address = f"{rendezvous['url'].removeprefix('wss://')}#{rendezvous['fingerprint']}"
    rank = rank_at(processes, address, rendezvous["tokens"]["rank"])
    token = (tmp_path / "state/tokens/driver").read_text().strip()
    environ = dict(os.environ) | {"DBG_BROKER": address, "DBG_TOKEN": token, "DBG_HOME": str(tmp_path / "none")}
    asked = subprocess.run(
        attach_command("eval", "0", "answer", "--wait", "--for", "60"),
        capture_output=True,
        text=True,
        check=False,
        env=environ,
    )
    assert "42" in asked.stdout, asked.stderr
    assert subprocess.run(attach_command("continue", "0"), check=False, env=environ).returncode == 0
    assert rank.wait() == 0
    audited = (tmp_path / "state/audit.jsonl").read_text()
    assert '"start"' in audited
    broker.terminate()
    assert broker.wait(seconds(5)) == 0
    while manager.recv(1000) != b"STOPPING=1":
        pass


def rank_at(processes: Processes, address: str, token: str) -> Child:
    """Start a rank that stops, with the broker's address and a token as a job without the home has them."""
    script = "from dbg_agent import set_trace\nanswer = 42\nset_trace()\n"
    environ = dict(os.environ) | {"DBG_BROKER": address, "DBG_TOKEN": token, "RANK": "0", "WORLD_SIZE": "1"}
    return processes.start("rank", [sys.executable, "-c", script], env=environ)
