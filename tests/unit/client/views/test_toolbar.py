from __future__ import annotations

import pytest

from dbg_client.attachment.attachment import Attachment
from dbg_client.views.status_line import Others, status_of, toolbar_of
from dbg_client.views.table import text_width
from dbg_wire.messages import Mode, RankReport, Seat
from dbg_wire.records.ranks import RankState
from tests.conftest import Approved
from tests.unit.client.fake_broker import make_pdb_report, make_prompt, make_rank, make_report


def at_pdb(report: RankReport, generation: int | None = 1) -> Attachment:
    attachment = Attachment(make_rank(), Mode.DRIVE, (24, 80), colors=256, prefix="Ctrl-]")
    seat = Seat(rank=make_rank(), report=report, generation=generation, driver="me@here", watchers=0)
    attachment.message(seat, 0.0)
    return attachment


def shown_at(attachment: Attachment, columns: int) -> str:
    return toolbar_of(status_of(attachment, Others(), 0.0, prefix="Ctrl-]", pending=False), attachment, columns)


@pytest.mark.parametrize(
    ("report", "says"),
    [
        (make_pdb_report(make_prompt()), "detaches"),
        (make_pdb_report(None), "Ctrl-C interrupts"),
        (make_report(session=None), "the debugger opens"),
        (make_pdb_report(None, state=RankState.RUNNING, stepping=True), "Ctrl-C breaks in"),
        (RankReport(state=RankState.RUNNING, breakpoints=1), "Ctrl-C breaks in"),
    ],
)
def test_the_toolbar_names_the_keys_that_matter(report: RankReport, says: str) -> None:
    line = shown_at(at_pdb(report), 80)

    assert says in line
    assert text_width(line) == 79


@pytest.mark.parametrize("report", [make_pdb_report(None), RankReport(state=RankState.RUNNING, breakpoints=1)])
def test_the_toolbar_of_a_stock_pdb_offers_no_interrupt(approved: Approved, report: RankReport) -> None:
    attachment = at_pdb(report)
    attachment.rank = make_rank(address="gpu013:?1")
    line = shown_at(attachment, 120)

    assert "Ctrl-C" not in line
    approved(line)


def test_the_toolbar_of_a_watcher_offers_no_interrupt() -> None:
    attachment = at_pdb(make_pdb_report(None), generation=None)

    assert "Ctrl-C" not in shown_at(attachment, 80)
