"""Ranks that wait inside of a library are asked, and their debuggers open, in the user's own frame or a chosen one."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.test_frames import BATCH, HANGING, STEP
from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.ranks import ask, attach, start_ranks, texts, wait_until_states


def test_ranks_that_hang_in_a_library_are_asked_in_the_users_frame_or_another(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    start_ranks(processes, home, HANGING, 3)
    wait_until_states(home, dict.fromkeys(range(3), "running"))

    live = attach(home, "eval", "all", "step", "--live").stdout.splitlines()
    assert live[0].endswith(
        f", 2 different values, in train_step rank_script.py:{STEP} (2), next_batch rank_script.py:{BATCH} (1)"
    )
    assert [line.split()[-1] for line in live[1:]] == ["40", "41"]

    assert texts(ask(home, "interrupt", "all", "-y")) == {"0-2": "stopped"}
    first, second = ask(home, "eval", "all", "step")["groups"]
    assert (first["text"], first["frame"]["function"], first["frame"]["line"]) == ("40", "train_step", STEP)
    assert (second["text"], second["frame"]["function"], second["frame"]["line"]) == ("41", "next_batch", BATCH)
    (outer,) = ask(home, "eval", "all", "outer", "--frame", "main")["groups"]
    assert (outer["ranks"], outer["text"], outer["frame"]["function"]) == ("0-2", "'of main'", "main")
    innermost = attach(home, "command", "all", "whatis self", "--frame", "-1").stdout
    assert ", 1 value, in wait threading.py:" in innermost
    assert "<class 'threading.Condition'>" in innermost
    (wrong,) = ask(home, "eval", "0-1", "step", "--frame", "tarin_step")["groups"]
    assert (wrong["kind"], wrong["frame"]) == ("error", None)
    assert wrong["text"].endswith("wait, train_step, main, <module>")
