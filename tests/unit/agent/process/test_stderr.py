"""What the agent says reaches the job's stderr, and no thread of the program waits for that."""

from __future__ import annotations

import io
import os
import sys

import pytest

from dbg_agent.process.stderr import say


def test_a_line_goes_out_at_once_where_there_is_room(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        own = os.fdopen(os.dup(2), "w")
        patch.setattr(sys, "stderr", own)
        patch.setattr(sys, "__stderr__", own)
        say("hello \udcff")
        own.close()
    assert capfd.readouterr().err == "dbg-agent: hello \\udcff\n"


def test_a_stream_without_a_file_is_written_to(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    say("hello")
    assert stream.getvalue() == "dbg-agent: hello\n"


@pytest.mark.parametrize("stream", [None, object()])
def test_no_stream_is_no_trouble(stream: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    say("hello")
