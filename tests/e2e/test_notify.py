"""The scripts of ``examples/notify`` report a real event, and no text of a rank has an effect there."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT
from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.ranks import start_ranks
from tests.support.time_unit import seconds

SCRIPTS = ROOT / "examples/notify"

CRASHES = """\
import dbg_agent
dbg_agent.install(post_mortem=True, lease=0.2)
raise ValueError("<!channel> $(touch broken) `id` & #{pid} \\x1b[2J")
"""

needs_jq = pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")


class Chat(HTTPServer):
    """A chat on the loopback, which keeps what is posted."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Posted)
        self.posted: list[tuple[str, Any]] = []
        self.arrived = threading.Semaphore(0)


class _Posted(BaseHTTPRequestHandler):
    server: Chat

    def do_POST(self) -> None:
        """Keep the document."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.posted.append((self.path, json.loads(body)))
        self.send_response(200)
        self.end_headers()
        self.server.arrived.release()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def chat() -> Iterator[Chat]:
    with Chat() as chat:
        thread = threading.Thread(target=chat.serve_forever)
        thread.start()
        yield chat
        chat.shutdown()
        thread.join()


@needs_jq
@needs_curl
def test_a_crash_is_posted_to_a_chat(chat: Chat, processes: Processes, home: Path, tmp_path: Path) -> None:
    secret = tmp_path / ".dbg-chat"
    secret.write_text(f'url = "http://127.0.0.1:{chat.server_port}/services/T0/B0/secret"\n')
    secret.chmod(stat.S_IRUSR | stat.S_IWUSR)
    env = {**os.environ, "HOME": str(tmp_path)}
    broker = running_broker(processes, home, "--on-event", str(SCRIPTS / "chat.sh"), env=env)
    (rank,) = start_ranks(processes, home, CRASHES, 1)
    assert rank.wait() == 1
    assert chat.arrived.acquire(timeout=seconds(20)), broker.process.text("stderr")
    ((path, document),) = chat.posted
    assert path == "/services/T0/B0/secret"
    first, after = document["text"].split("\n")
    assert "/rank_script.py:3 in &lt;module&gt;: " in first
    assert first.endswith("ValueError: &lt;!channel&gt; $(touch broken) `id` &amp; #{pid} \\x1b[2J")
    assert after.startswith("dbg-attach ")
    assert not list(tmp_path.rglob("broken"))
    assert broker.process.text("stderr") == ""


@needs_jq
def test_mail_and_tmux_show_the_sentence_unchanged(tmp_path: Path) -> None:
    shown = {}
    for name, program in (("mail", "sendmail"), ("tmux", "tmux")):
        fake = tmp_path / program
        fake.write_text(
            '#!/bin/sh\n[ "$1" = list-clients ] && echo pts0 && exit\nprintf "%s\\n" "$@"; [ -t 0 ] || cat\n'
        )
        fake.chmod(0o700)
        script = tmp_path / f"{name}.sh"
        script.write_text((SCRIPTS / f"{name}.sh").read_text().replace("/usr/sbin/sendmail", str(fake)))
        event = {
            "event": "crash",
            "job": "j",
            "address": "h:1",
            "sentence": "it is #{pid} $(id)",
            "next": "dbg-attach 1",
        }
        result = subprocess.run(
            ["sh", str(script)],
            input=json.dumps(event),
            env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=True,
            timeout=seconds(20),
        )
        shown[name] = result.stdout
    assert shown["mail"].splitlines()[1:] == ["Subject: dbg-broker: crash j", "", "it is #{pid} $(id)", "dbg-attach 1"]
    assert "it is ##{pid} $(id)" in shown["tmux"].splitlines()
