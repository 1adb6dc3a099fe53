"""The broker's log hides tokens in messages, values and tracebacks."""

from __future__ import annotations

import logging
import sys

import pytest

from dbg_broker.log import LogFormatter, start_log

HIDDEN = "correct-horse-battery"


def record(message: str, *values: object, exc_info: bool = False) -> logging.LogRecord:
    """Return a record as a logger makes it."""
    error = sys.exc_info() if exc_info else None
    return logging.LogRecord("dbg_broker", logging.INFO, "file.py", 1, message, values, error)


def test_tokens_are_hidden_in_messages_values_and_tracebacks() -> None:
    formatter = LogFormatter()
    formatter.hide([HIDDEN, ""])
    assert formatter.format(record("with %s in it", HIDDEN)).endswith(" INFO with <token> in it")
    try:
        raise ValueError(f"no header {HIDDEN}")
    except ValueError:
        text = formatter.format(record("fails", exc_info=True))
    assert "ValueError: no header <token>" in text
    assert HIDDEN not in text


@pytest.mark.parametrize(("verbosity", "level"), [(0, "WARNING"), (1, "INFO"), (2, "DEBUG"), (7, "DEBUG")])
def test_each_v_shows_a_level_more(verbosity: int, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    root = logging.RootLogger(logging.WARNING)
    monkeypatch.setattr(logging, "root", root)
    start_log(verbosity)
    assert logging.getLevelName(root.level) == level
    assert [type(handler.formatter) for handler in root.handlers] == [LogFormatter]
