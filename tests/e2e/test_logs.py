"""What the logs of broker and rank hold after a session, and what they must not hold."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.ranks import ask, attach, start_ranks, wait_until_stopped

SCRIPT = """\
import dbg_agent
password = "hunter2"
dbg_agent.set_trace()
"""

OF_RANK = [
    ("INFO", "dbg_agent.rank", r".*"),
    ("INFO", "dbg_agent.link", r".*wss://\S+"),
    ("DEBUG", "dbg_agent.rank", r"sending register .*"),
    ("DEBUG", "dbg_agent.link", r"received welcome .*"),
    ("INFO", "dbg_agent.stop", r"stop 1, .*rank_script\.py:\d+"),
    ("DEBUG", "dbg_agent.rank", r"sending report report=\(state=stopped .*"),
    ("DEBUG", "dbg_agent.link", r"received ask request=1 action=eval .*text=<8 characters>.*"),
    ("DEBUG", "dbg_agent.rank", r"sending answer request=1 kind=value body=<\d+ bytes>"),
    ("INFO", "dbg_agent.stop", r"stop 1 ends"),
]

OF_BROKER_INFO = [r"INFO .* is (running|exited)", r"INFO .* /client .* 401"]

OF_BROKER_DEBUG = [
    r"DEBUG connection \d+: received register .*",
    r"DEBUG rank \S+ is stopped",
    r"DEBUG connection \d+: received question .* action=eval .*text=<8 characters>.*",
]


def session(processes: Processes, home: Path, tmp_path: Path, *verbose: str) -> tuple[str, str]:
    """Stop a rank, ask it and let it go; return what broker and rank have logged."""
    broker = running_broker(processes, home, *verbose)
    log = tmp_path / "rank.log"
    [rank] = start_ranks(processes, home, SCRIPT, 1, env={"DBG_LOG": str(log)})
    wait_until_stopped(home, 1)
    assert ask(home, "eval", "0", "password")["groups"][0]["text"] == "'hunter2'"
    wrong = tmp_path / "wrong"
    wrong.write_text("x" * 43)
    wrong.chmod(0o600)
    attach(home, "list", env={"DBG_TOKEN_FILE": str(wrong)})
    assert attach(home, "continue", "0").returncode == 0
    assert rank.wait() == 0
    broker.process.terminate()
    broker.process.wait()
    return broker.process.log.read_text(), log.read_text()


def secrets(home: Path) -> list[str]:
    """Return what no log may hold: tokens, what was typed, and a value of the program's."""
    tokens = [path.read_text().strip() for path in (home / "tokens").iterdir()]
    assert len(tokens) == 3
    return [*tokens, "hunter2", "password"]


def test_verbose_logs_contain_each_event_and_no_secret(processes: Processes, home: Path, tmp_path: Path) -> None:
    of_broker, of_rank = session(processes, home, tmp_path, "-v", "-v")
    for pattern in OF_BROKER_INFO + OF_BROKER_DEBUG:
        assert re.search(rf"(?m)^\S+ \S+ {pattern}$", of_broker), pattern
    for level, logger, event in OF_RANK:
        pattern = rf"(?m)^\S+ \S+ \S+:0 \d+ {level} {re.escape(logger)}: {event}$"
        assert re.search(pattern, of_rank), pattern
    assert "not connected" not in of_rank
    for secret in secrets(home):
        assert secret not in of_broker
        assert secret not in of_rank
