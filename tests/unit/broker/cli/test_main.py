"""The command line, as processes: serve, status, token, check."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from dbg_wire.messages import Goodbye
from dbg_wire.version import PROTOCOL_MAJOR, PROTOCOL_MINOR, RELEASE
from tests.support.memory_bus import MemoryNats
from tests.support.serving import Serve, environment, run, tokens
from tests.unit.broker.hub.cluster.brokers import join_cluster, presence
from tests.unit.broker.peers import registration, running_broker, trusting_context

# --------------------------------------------------------------------------------------------------------- in general


def test_help_and_version_load_neither_asyncio_nor_websockets(home: Path) -> None:
    for option in ("--help", "--version"):
        code = (
            "import sys\nfrom dbg_broker.cli.main import main\n"
            f"try:\n    main([{option!r}])\nexcept SystemExit: pass\n"
            "sys.exit(' '.join({'asyncio', 'websockets', 'ssl'} & set(sys.modules)) or None)"
        )
        done = subprocess.run([sys.executable, "-c", code], env=environment(home), capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, b"")
        assert done.stdout


def test_version_names_release_python_and_protocol(home: Path) -> None:
    expected = f"dbg-broker {RELEASE} (Python {sys.version.split()[0]}, protocol {PROTOCOL_MAJOR}.{PROTOCOL_MINOR})\n"
    assert run(home, "--version").stdout == expected


@pytest.mark.parametrize("arguments", [(), ("dance",), ("token", "--role", "king"), ("serve", "--no-such-option")])
def test_wrong_usage_is_status_2(home: Path, arguments: tuple[str, ...]) -> None:
    assert run(home, *arguments).returncode == 2


def test_help_of_a_verb_is_its_own(home: Path) -> None:
    assert run(home, "help", "run").stdout == run(home, "run", "--help").stdout
    assert run(home, "help").stdout == run(home, "--help").stdout
    assert "type one of serve, run, status" in run(home).stderr


def test_errors_are_one_line(home: Path) -> None:
    done = run(home, "serve", "--listen", "\x1b[31m")
    assert done.returncode == 2
    assert done.stderr.startswith("dbg-broker: --listen ")
    assert "\x1b" not in done.stderr
    assert done.stderr.count("\n") == 1


# -------------------------------------------------------------------------------------------------------------- serve


def test_serve_says_what_to_paste_and_no_token(home: Path, serve: Serve) -> None:
    serving = serve()
    written = json.loads((home / "broker.json").read_text())
    assert written["schema"] == 1
    assert (written["url"], written["pid"], written["host"]) == (serving.url, serving.pid, socket.gethostname())
    assert list(written["tokens"]) == ["rank"]
    assert list(json.loads((home / "driver.json").read_text())["tokens"]) == ["driver", "watcher"]
    status, output, errors = serving.end()
    assert (status, errors) == (0, "")
    assert not (home / "broker.json").exists()
    assert not (home / "driver.json").exists()
    assert f"export DBG_HOME={home}" in output
    assert f"DBG_BROKER='127.0.0.1:{serving.port}#{written['fingerprint']}'" in output
    assert f"DBG_TOKEN_FILE={home}/tokens/rank" in output
    assert f"ssh -L {serving.port}:127.0.0.1:{serving.port} {socket.gethostname()}" in output
    assert "--listen 0.0.0.0" in output
    assert not any(token in output for token in tokens(home))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_serve_ends_in_order_by_signal(home: Path, serve: Serve, number: int) -> None:
    serving = serve()
    assert serving.end(number)[0] == 0
    assert not (home / "broker.json").exists()


def test_serve_on_all_addresses_names_the_host(home: Path, serve: Serve) -> None:
    serving = serve("--listen", "0.0.0.0:0")
    assert socket.gethostname() in serving.url or re.search(r"//\d+\.\d+\.\d+\.\d+:", serving.url)
    assert "loopback" not in serving.end()[1]


def test_serve_without_tls_warns(home: Path, serve: Serve) -> None:
    serving = serve("--listen", "127.0.0.1:0", "--insecure")
    assert serving.url.startswith("ws://")
    assert json.loads((home / "broker.json").read_text())["fingerprint"] is None
    assert run(home, "status").returncode == 0
    assert run(home, "check").returncode == 0
    second = run(home, "serve", "--listen", "127.0.0.1:0")
    assert second.returncode == 1
    assert "in the clear" in serving.end()[2]


def test_port_that_was_given_and_is_taken_is_an_error(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = run(home, "serve", "--listen", f"127.0.0.1:{port}")
    assert done.returncode == 1
    assert done.stderr.startswith(f"dbg-broker: port {port} on 127.0.0.1 is taken; `ss -ltnp 'sport = :{port}'`")
    assert done.stderr.count("\n") == 1
    assert not (home / "broker.json").exists()


def test_usual_port_that_is_taken_is_replaced_by_a_free_one(home: Path, serve: Serve) -> None:
    with taken(6900):
        serving = serve("-v")
    assert serving.port not in (0, 6900)


@contextmanager
def taken(port: int) -> Iterator[None]:
    """Take a port, unless another process has it already."""
    try:
        with socket.create_server(("127.0.0.1", port)):
            yield
    except OSError:
        yield


def test_second_serve_on_the_home_is_refused_naming_the_first(home: Path, serve: Serve) -> None:
    serving = serve()
    done = run(home, "serve", "--listen", "127.0.0.1:0")
    assert done.returncode == 1
    for name in (serving.url, f"pid {serving.pid}", socket.gethostname()):
        assert name in done.stderr
    assert json.loads((home / "broker.json").read_text())["pid"] == serving.pid


def test_first_is_found_by_its_answer_where_the_lock_does_not_tell(home: Path, serve: Serve) -> None:
    serving = serve()
    (home / "serve.lock").unlink()
    done = run(home, "serve", "--listen", "127.0.0.1:0")
    assert done.returncode == 1
    assert f"pid {serving.pid}" in done.stderr


def test_killed_broker_does_not_block_and_its_secrets_are_kept(home: Path, serve: Serve) -> None:
    first = serve()
    before = json.loads((home / "broker.json").read_text())
    assert first.end(signal.SIGKILL)[0] == -signal.SIGKILL
    assert (home / "broker.json").exists()
    second = serve("--listen", f"127.0.0.1:{first.port}")
    after = json.loads((home / "broker.json").read_text())
    assert (after["url"], after["pid"]) == (first.url, second.pid)
    assert (after["fingerprint"], after["tokens"]) == (before["fingerprint"], before["tokens"])


@pytest.mark.parametrize("left_over", ["{", json.dumps({"schema": 99})])
def test_broken_broker_json_does_not_block(home: Path, serve: Serve, left_over: str) -> None:
    home.mkdir(mode=0o700)
    (home / "broker.json").write_text(left_over)
    (home / "broker.json").chmod(0o600)
    assert run(home, "status").returncode == 2
    assert json.loads((home / "broker.json").read_text() if serve() else "")["schema"] == 1


def test_home_that_others_can_read_is_refused(home: Path) -> None:
    home.mkdir(mode=0o755)
    home.chmod(0o755)
    done = run(home, "serve", "--listen", "127.0.0.1:0")
    assert done.returncode == 2
    assert "chmod 700" in done.stderr


def resident(pid: int) -> int:
    """Return the KiB of memory that a process holds."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Rss:"):
            return int(line.split()[1])
    raise AssertionError("no Rss")


def test_connection_through_tls_costs_little_memory(home: Path, serve: Serve) -> None:
    """Stock asyncio takes 290 KiB for each connection; a job of ten thousand ranks would not fit a login node."""
    serving = serve()
    context = trusting_context()
    count = 200
    with ExitStack() as stack:
        before = 0
        for number in range(count + 20):
            if number == 20:
                before = resident(serving.pid)
            plain = stack.enter_context(socket.create_connection(("127.0.0.1", serving.port)))
            secured = stack.enter_context(context.wrap_socket(plain))
            secured.sendall(b"GET /healthz HTTP/1.1\r\n")
        assert run(home, "status").returncode == 0
        assert (resident(serving.pid) - before) / count < 64


# -------------------------------------------------------------------------------------------------------------- token


def test_token_prints_the_one_of_its_role(home: Path) -> None:
    printed = [run(home, "token", "--role", role).stdout for role in ("rank", "driver", "watcher")]
    assert [line.strip() for line in printed] == tokens(home)
    assert run(home, "token").stdout == printed[0]
    assert len(set(printed)) == 3


# ------------------------------------------------------------------------------------------------------------- status


def test_status_of_nothing_is_4(home: Path) -> None:
    done = run(home, "status", "--json")
    assert done.returncode == 4
    assert json.loads(done.stdout)["up"] is False
    assert "dbg-broker serve" in done.stderr


def test_status_of_a_killed_broker_is_4(home: Path, serve: Serve) -> None:
    serving = serve()
    serving.end(signal.SIGKILL)
    done = run(home, "status")
    assert done.returncode == 4
    assert serving.url in done.stderr
    assert "Connection refused" in done.stderr


async def test_status_tells_of_ranks_and_their_terminals(made_home: Path) -> None:
    async with running_broker(made_home, tls=True) as broker:
        await broker.rank(3)
        await broker.seated(registration(3).identity.key, "ann@login1")
        place = {"DBG_BROKER": str(broker.endpoint).removeprefix("wss://"), "DBG_TOKEN": broker.tokens.watcher}
        shown, document = await both(made_home, place)
    assert "ranks: 1 (1 stopped)\n" in shown.stdout
    assert (
        "4711.0/gpu013:3  stopped  breakpoint /home/me/train.py:41  session pudb  driver ann@login1\n" in shown.stdout
    )
    status = json.loads(document.stdout)
    assert (status["schema"], status["up"], status["pid"]) == (1, True, 4711)
    assert status["states"]["stopped"] == 1
    assert status["ranks"][0]["driver"] == "ann@login1"
    assert status["ranks"][0]["where"] == {"file": "/home/me/train.py", "line": 41, "function": "step"}


async def test_status_tells_of_the_other_brokers_and_of_nats_that_is_gone(made_home: Path) -> None:
    nats = MemoryNats()
    async with running_broker(made_home, tls=True) as broker:
        place = {"DBG_BROKER": str(broker.endpoint).removeprefix("wss://"), "DBG_TOKEN": broker.tokens.watcher}
        _, alone = await both(made_home, place)
        cluster = join_cluster(broker.hub, nats, "one")
        await cluster.begin()
        cluster.members.saw(presence("two"))
        shown, document = await both(made_home, place)
        nats.go()
        during, _ = await both(made_home, place)
        await cluster.end()
    assert "cluster" not in json.loads(alone.stdout)
    assert json.loads(document.stdout)["cluster"] == {
        "brokers": ["wss://one:6900", "wss://two:6900"],
        "nats_silent": None,
    }
    assert "brokers: 2 (with wss://two:6900)\n" in shown.stdout
    assert "NATS" not in shown.stdout
    assert "NATS has not answered for 0 s: ranks of other brokers can't be reached" in during.stdout


async def test_status_says_how_a_rank_ended_as_the_list_does_and_sorts(made_home: Path) -> None:
    async with running_broker(made_home, tls=True) as broker:
        for number in (10, 9):
            await broker.rank(number)
        gone = await broker.rank(4)
        await gone.say(Goodbye(exit=-9, detail=""))
        await broker.seated(registration(9).identity.key, "ann@login1")
        place = {"DBG_BROKER": str(broker.endpoint).removeprefix("wss://"), "DBG_TOKEN": broker.tokens.watcher}
        shown, _ = await both(made_home, place)
    rows = [line.split() for line in shown.stdout.splitlines()[2:]]
    assert [row[0] for row in rows] == ["4711.0/gpu013:4", "4711.0/gpu013:9", "4711.0/gpu013:10"]
    assert rows[0][1:4] == ["killed", "by", "SIGKILL"]


@pytest.mark.parametrize("words", [("token",), ("completion", "bash")])
def test_a_full_disk_is_one_sentence(home: Path, words: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "dbg_broker", *words, "--home", str(home)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=30,
        )
    reason = "the answer can't be written to stdout (No space left on device); redirect stdout to another file"
    assert (done.returncode, done.stderr) == (1, f"dbg-broker: {reason}\n")


def test_a_locale_that_lacks_a_character_gets_one_that_looks_alike() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dbg_broker", "run", "--help"],
        env={**os.environ, "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "-- COMMAND ..." in done.stdout


async def both(
    home: Path, place: dict[str, str]
) -> tuple[subprocess.CompletedProcess[str], subprocess.CompletedProcess[str]]:
    """Run status as text and as JSON beside this event loop."""
    return await asyncio.gather(
        asyncio.to_thread(run, home, "status", changes=place),
        asyncio.to_thread(run, home, "status", "--json", changes=place),
    )
