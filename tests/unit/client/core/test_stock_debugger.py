"""Stock debuggers on the broker's host: how they are named, and what a terminal shows of those that keep their size."""

from __future__ import annotations

import pytest

from dbg_client.attachment.attachment import Attachment
from dbg_client.core.waiting import Stock, parse_stock
from dbg_client.views.status_line import Others, status_of
from dbg_wire.errors import BadTarget
from dbg_wire.messages import Mode, Seat, SessionInfo
from dbg_wire.records.ranks import Place
from tests.unit.client.fake_broker import make_rank, make_report


@pytest.mark.parametrize(
    ("target", "stock"),
    [
        ("tcp://127.0.0.1:4444", Stock("127.0.0.1", 4444)),
        ("tcp://localhost:1/", Stock("localhost", 1)),
        ("tcp://[::1]:65535", Stock("[::1]", 65535)),
        ("gpu013:5", None),
        ("?1", None),
        (None, None),
    ],
)
def test_addresses_of_debuggers_are_told_from_ranks(target: str | None, stock: Stock | None) -> None:
    assert parse_stock(target) == stock


@pytest.mark.parametrize("target", ["tcp://", "tcp://h", "tcp://h:0", "tcp://h:99999", "tcp://h:x", "tcp://h:1\x1b[2J"])
def test_what_is_no_address_is_named(target: str) -> None:
    with pytest.raises(BadTarget, match="tcp://127") as refused:
        parse_stock(target)
    assert str(refused.value).isprintable()


def classic(rows: int, columns: int, *, address: str = "gpu013:?1") -> Attachment:
    rank = make_rank(1, address=address, where=None)
    attachment = Attachment(rank, Mode.DRIVE, (23, 80), colors=256)
    attachment.attach()
    session = SessionInfo(number=1, engine="pudb", rows=rows, columns=columns)
    report = make_report(session=session)
    attachment.message(Seat(rank=rank, report=report, generation=1, driver="me@here", watchers=0), 0.0)
    return attachment


@pytest.mark.parametrize(("rows", "columns", "told"), [(72, 80, True), (23, 81, True), (23, 80, False), (0, 0, False)])
def test_a_window_that_is_too_small_is_told_so_as_long_as_it_is(rows: int, columns: int, told: bool) -> None:
    attachment = classic(rows, columns)
    shown = status_of(attachment, Others(), 1000.0, prefix="", pending=False)
    assert any(f"{columns}x{rows}" in notice for notice in shown.notices) == told
    attachment.resize(72, 240, 1001.0)
    assert status_of(attachment, Others(), 1001.0, prefix="", pending=False).notices == ()


def test_a_rank_with_an_agent_follows_the_window_and_says_nothing() -> None:
    attachment = classic(72, 240, address="gpu013:1")
    assert status_of(attachment, Others(), 1000.0, prefix="", pending=False).notices == ()


def test_a_debugger_that_does_not_say_where_it_is_has_no_place() -> None:
    attachment = classic(23, 80)
    nowhere = Place(file="", line=0, function="")
    report = make_report()
    assert report.stop is not None
    attachment.report = report.replace(stop=report.stop.replace(where=nowhere))
    assert status_of(attachment, Others(), 0.0, prefix="", pending=False).place is None
