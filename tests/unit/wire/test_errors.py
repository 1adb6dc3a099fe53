"""Every error is one sentence of parts, and foreign text in it can't act on a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_wire import errors
from dbg_wire.errors import AmbiguousTarget, DbgError, NoSuchRank, printable
from dbg_wire.limits import notice_seconds
from tests.conftest import Approved

HOSTILE = "gpu\x1b[2J\r\n\x07:5\u202e"


@given(st.text(max_size=400))
def test_printable_text_has_no_control_characters_and_a_bound(text: str) -> None:
    shown = printable(text, 50)
    assert shown.isprintable()
    assert len(shown) <= 50 + len("…")


def test_printable_leaves_readable_text_alone_and_marks_a_cut() -> None:
    assert printable("gpu013:5 größer") == "gpu013:5 größer"
    assert printable("x" * 300, 10) == "x" * 10 + "…"
    assert printable("\x1b" * 5, 10) == r"\x1b\x1b" + "…"
    assert printable("123456\x1b", 10) == r"123456\x1b"


SAMPLES: list[DbgError] = [
    errors.BadTarget(f"target '{printable(HOSTILE)}' is not a target", "write host:rank"),
    AmbiguousTarget(HOSTILE, [f"job{i}/{HOSTILE}" for i in range(20)]),
    NoSuchRank(HOSTILE, 3),
    NoSuchRank(HOSTILE, 0),
    NoSuchRank(HOSTILE, 3, HOSTILE),
    NoSuchRank(HOSTILE, 0, exited=18),
    errors.NoBroker(),
    errors.BrokerUnreachable(HOSTILE, HOSTILE),
    errors.ConnectionClosedEarly(HOSTILE),
    errors.WrongHost("the broker listens elsewhere"),
    errors.Refused(HOSTILE, HOSTILE),
    errors.WrongToken(HOSTILE, HOSTILE),
    errors.WrongCertificate(HOSTILE, HOSTILE),
    errors.WrongVersion(HOSTILE, HOSTILE),
    errors.PeerError(HOSTILE),
    errors.InvalidTransition("a rank", "exited", "runs"),
]


@pytest.mark.parametrize("error", SAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_is_one_printable_line(error: DbgError) -> None:
    assert str(error).isprintable()
    assert str(error)


def test_candidates_are_listed_up_to_a_bound(approved: Approved) -> None:
    approved(str(AmbiguousTarget("5", ["a/h:5", "b/h:5"])))
    assert "and 12 more" in str(SAMPLES[1])


def test_exit_statuses_are_the_published_ones() -> None:
    statuses = {type(error).__name__: error.exit_status for error in SAMPLES}
    assert statuses["BadTarget"] == statuses["AmbiguousTarget"] == 2
    assert statuses["NoSuchRank"] == 3
    assert statuses["NoBroker"] == statuses["BrokerUnreachable"] == statuses["WrongHost"] == 4
    assert {statuses[name] for name in ("Refused", "WrongToken", "WrongCertificate", "WrongVersion")} == {5}


@pytest.mark.parametrize(("lease", "notice"), [(28800.0, 300.0), (3000.0, 300.0), (600.0, 60.0), (1.0, 0.1)])
def test_notice_time_is_a_tenth_of_the_lease_up_to_five_minutes(lease: float, notice: float) -> None:
    assert notice_seconds(lease) == pytest.approx(notice)
