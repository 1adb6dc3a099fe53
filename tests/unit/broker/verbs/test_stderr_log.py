"""The broker's log hides tokens in messages, values and tracebacks."""

from __future__ import annotations

import json
import logging
import sys
import time
from functools import partial

import pytest

from dbg_broker.verbs.service import JsonLogFormatter, LogFormatter, start_log

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


def test_tokens_that_are_read_again_and_again_are_kept_once() -> None:
    formatter = LogFormatter()
    for _ in range(100):
        formatter.hide([HIDDEN, "battery-staple"])
    assert formatter._secrets == (HIDDEN, "battery-staple")


def test_an_error_for_lack_of_memory_is_told_to_the_reserve_instead_of_logged() -> None:
    formatter = LogFormatter()
    told: list[bool] = []
    formatter.lacks_memory = partial(told.append, True)
    try:
        raise MemoryError
    except MemoryError:
        assert not formatter.filter(record("fails", exc_info=True))
    assert told == [True]
    assert formatter.filter(record("goes well"))


@pytest.mark.parametrize(("verbosity", "level"), [(0, "WARNING"), (1, "INFO"), (2, "DEBUG"), (7, "DEBUG")])
def test_each_v_shows_a_level_more(verbosity: int, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    root = logging.RootLogger(logging.WARNING)
    monkeypatch.setattr(logging, "root", root)
    start_log(verbosity)
    assert logging.getLevelName(root.level) == level
    assert [type(handler.formatter) for handler in root.handlers] == [LogFormatter]


def test_a_record_is_one_document_without_tokens() -> None:
    formatter = JsonLogFormatter()
    formatter.hide([HIDDEN])
    line = formatter.format(record("with %s\nin it", HIDDEN))
    document = json.loads(line)
    assert "\n" not in line
    assert abs(document.pop("at") - time.time()) < 60
    assert document == {"level": "info", "logger": "dbg_broker", "message": "with <token>\nin it"}
    try:
        raise ValueError(f"no header {HIDDEN}")
    except ValueError:
        failed = json.loads(formatter.format(record("fails", exc_info=True)))
    assert failed["exc"].endswith("ValueError: no header <token>")


def test_the_form_of_the_log_is_chosen_at_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    root = logging.RootLogger(logging.WARNING)
    monkeypatch.setattr(logging, "root", root)
    start_log(0, as_json=True)
    assert [type(handler.formatter) for handler in root.handlers] == [JsonLogFormatter]
