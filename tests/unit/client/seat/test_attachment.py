from __future__ import annotations

import pytest

from dbg_client.core.errors import RankEnded, RankStayedAway, RankVanished
from dbg_client.seat.attachment import LET_GO_SECONDS, LOST_SECONDS, NEXT_STOP_SECONDS, Attachment
from dbg_client.seat.effects import Bell, Blank, Effects, Finish, LogText, Note, Open, Send, Show, Wake
from dbg_client.seat.notices import END_SECONDS, NOTICE_SECONDS
from dbg_client.seat.output import REPAINT_SECONDS
from dbg_client.verbs.preferences import EngineSpec
from dbg_wire.codec import Input, Output
from dbg_wire.limits import MAX_INPUT_PENDING
from dbg_wire.messages import (
    Applied,
    Attach,
    Change,
    Discarded,
    Interrupt,
    Mode,
    Notice,
    RankReport,
    Refusal,
    RefusalCode,
    Repaint,
    Replay,
    Report,
    Resize,
    Seat,
    Take,
)
from dbg_wire.records.ranks import RankState
from tests.conftest import Approved
from tests.unit.client.fake_broker import make_pdb_report, make_prompt, make_rank, make_report

RUNNING_ON = RankReport(state=RankState.RUNNING, breakpoints=1)
RESUMED = RankReport(state=RankState.RUNNING)


def new(mode: Mode = Mode.DRIVE) -> Attachment:
    attachment = Attachment(make_rank(), mode, (23, 80), colors=256, prefix="Ctrl-]")
    attachment.attach()
    return attachment


def seat(generation: int | None = 1, driver: str | None = "me@here", report: RankReport | None = None) -> Seat:
    return Seat(rank=make_rank(), report=report or make_report(), generation=generation, driver=driver, watchers=0)


def seated(generation: int | None = 1, mode: Mode = Mode.DRIVE, report: RankReport | None = None) -> Attachment:
    attachment = new(mode)
    attachment.message(seat(generation, report=report), 0.0)
    return attachment


def sent(effects: Effects) -> list[object]:
    return [effect.item for effect in effects if isinstance(effect, Send)]


def typed(effects: Effects) -> list[tuple[int, bytes]]:
    return [(item.offset, item.data) for item in sent(effects) if isinstance(item, Input)]


def finished(effects: Effects) -> Finish:
    (finish,) = [effect for effect in effects if isinstance(effect, Finish)]
    return finish


def blanked(effects: Effects) -> list[str]:
    return [effect.text for effect in effects if isinstance(effect, Blank)]


# ---------------------------------------------------------------------------------------------------------- the seat


def test_an_attach_sends_size_and_colours() -> None:
    (attach,) = sent(Attachment(make_rank(), Mode.TAKE, (23, 80), colors=256).attach())

    assert attach == Attach(key=make_rank().key, mode=Mode.TAKE, rows=23, columns=80, colors=256)


def test_a_watcher_token_attaches_as_a_watcher() -> None:
    attachment = new()

    (attach,) = sent(attachment.message(Refusal(code=RefusalCode.ROLE, text="a watcher may not drive"), 0.0))

    assert isinstance(attach, Attach)
    assert attach.mode is Mode.WATCH


def test_an_attach_to_a_vanished_rank_fails() -> None:
    finish = finished(new().message(Refusal(code=RefusalCode.NO_SUCH_RANK, text="no rank"), 0.0))

    assert isinstance(finish.error, RankVanished)
    assert finish.error.exit_status == 3


def test_an_unrelated_refusal_does_not_end_the_attach() -> None:
    attachment = new()

    assert attachment.message(Refusal(code=RefusalCode.NOT_ATTACHED, text="not attached"), 0.0) == []
    assert attachment.message(Refusal(code=RefusalCode.NOT_DRIVING, text="not driving"), 0.0) == [Bell()]
    assert attachment.notice(0.0) == "not driving"
    assert Open() in attachment.message(seat(), 0.0)


def test_a_seat_at_another_rank_is_ignored() -> None:
    attachment = Attachment(make_rank(6), Mode.DRIVE, (23, 80), colors=256)
    attachment.attach()

    assert attachment.message(seat(), 0.0) == []
    assert attachment.output(Output(1, 0, b"of rank 5"), 0.0) == []


def test_a_driver_sees_who_took_the_keyboard() -> None:
    attachment = seated()
    attachment.message(seat(None, driver="bob\x1b@x"), 1.0)

    assert (attachment.notice(1.0) or "").startswith("bob\\x1b@x types")
    assert not attachment.driving


def test_the_keyboard_is_taken_on_request(approved: Approved) -> None:
    attachment = seated(None)
    assert sent(attachment.take(0.0)) == [Take()]

    attachment.message(seat(4), 0.0)

    assert attachment.driving
    approved(attachment.notice(0.0))
    assert attachment.take(0.0) == []


def test_keys_typed_right_after_a_take_wait_for_the_keyboard() -> None:
    attachment = seated(None)
    attachment.take(0.0)

    assert attachment.keys(b"n", 0.0) == []
    assert attachment.take(0.0) == []
    # Another terminal's change is reported before the answer.
    assert attachment.message(seat(None, driver="eve@x"), 0.0) == []
    assert sent(attachment.message(seat(4), 0.0)) == [Input(1, 1, 4, 0, b"n")]
    assert sent(attachment.keys(b"\r", 0.0)) == [Input(1, 1, 4, 1, b"\r")]


def test_keys_waiting_for_a_refused_keyboard_are_reported(approved: Approved) -> None:
    attachment = seated(None)
    attachment.take(0.0)
    attachment.keys(b"n\r", 0.0)
    attachment.message(Refusal(code=RefusalCode.NOT_DRIVING, text="keys of before"), 0.0)
    assert attachment.may_type

    assert attachment.message(Refusal(code=RefusalCode.ROLE, text="only watch"), 0.0) == [Bell()]

    approved(attachment.notice(0.0))
    assert not attachment.may_type
    assert attachment.keys(b"n", 0.0) == [Bell()]


def cut_after_take() -> Attachment:
    """Return a watcher whose link broke after a take, and is back; the attach that follows is to take the keyboard."""
    attachment = seated(None)
    attachment.take(0.0)
    attachment.keys(b"n", 0.0)
    attachment.link_down("cut", 1.0)
    attachment.link_up(2.0)
    (attach,) = sent(attachment.rank_listed(make_rank(), 2.0))
    assert isinstance(attach, Attach)
    assert attach.mode is Mode.TAKE
    return attachment


def test_a_take_with_a_lost_answer_is_repeated() -> None:
    attachment = cut_after_take()

    assert sent(attachment.message(seat(4), 2.0)) == [Input(1, 1, 4, 0, b"n")]


def test_a_take_refused_after_a_broken_link_leaves_a_watcher(approved: Approved) -> None:
    attachment = cut_after_take()

    effects = attachment.message(Refusal(code=RefusalCode.ROLE, text="only watch"), 2.0)

    (attach,) = sent(effects)
    assert isinstance(attach, Attach)
    assert attach.mode is Mode.WATCH
    approved(attachment.notice(2.0))


# -------------------------------------------------------------------------------------------------------------- keys


def test_ctrl_c_interrupts_a_running_rank_and_other_keys_are_not_sent() -> None:
    running = RankReport(state=RankState.RUNNING, generation=4, breakpoints=1)
    attachment = seated(generation=4, report=running)

    assert sent(attachment.keys(b"\x03", 0.0)) == [Interrupt(generation=4)]
    assert sent(attachment.keys(b"n", 1.0)) == []


def test_keys_wait_until_the_debugger_is_open() -> None:
    attachment = seated(report=make_report(session=None))
    assert attachment.keys(b"n", 0.0) == []

    assert typed(attachment.message(Report(report=make_report()), 0.0)) == [(0, b"n")]


def test_keys_typed_before_the_seat_wait_for_it() -> None:
    attachment = new()
    assert attachment.keys(b"n", 0.0) == []
    assert attachment.keys(b"n", 0.0) == []

    assert typed(attachment.message(seat(), 0.0)) == [(0, b"nn")]
    assert typed(attachment.message(seat(), 0.0)) == [(0, b"nn")]


def test_a_discard_is_reported_with_the_keys() -> None:
    attachment = seated()
    attachment.keys(b"n\x1b[A", 0.0)

    effects = attachment.message(Discarded(generation=1, offset=4, count=3, reason="the stop ended"), 0.0)

    assert effects == [Bell()]
    assert attachment.notice(0.0) == "discarded: '\\x1b[A' (the stop ended)"


def test_too_many_keys_typed_ahead_are_refused_and_reported() -> None:
    attachment = seated()
    attachment.keys(b"x" * MAX_INPUT_PENDING, 0.0)

    assert attachment.keys(b"y", 0.0) == [Bell()]
    assert "discarded: 'y'" in (attachment.notice(0.0) or "")
    attachment.message(Applied(generation=1, offset=10), 0.0)
    assert typed(attachment.keys(b"z", 0.0)) == [(MAX_INPUT_PENDING, b"z")]


# ---------------------------------------------------------------------------------------------- the connection breaks


def back(attachment: Attachment, report: RankReport, generation: int | None = 1) -> Effects:
    attachment.link_up(5.0)
    (attach,) = sent(attachment.rank_listed(make_rank(), 5.0))
    assert isinstance(attach, Attach)
    return attachment.message(seat(generation, report=report), 5.0)


@pytest.mark.parametrize(("generation", "mode"), [(3, Mode.DRIVE), (None, Mode.WATCH)])
def test_a_terminal_reattaches_in_its_mode_and_without_a_frame(generation: int | None, mode: Mode) -> None:
    attachment = Attachment(make_rank(), Mode.TAKE, (23, 80), colors=256, frame="step")
    (attach,) = sent(attachment.attach())
    assert isinstance(attach, Attach)
    assert attach.frame == "step"
    attachment.message(seat(generation), 0.0)
    attachment.link_down("it shut down", 1.0)
    attachment.link_up(2.0)

    (again,) = sent(attachment.rank_listed(make_rank(), 2.0))

    assert isinstance(again, Attach)
    assert (again.mode, again.resume, again.frame) == (mode, generation, "")


def test_keys_typed_while_disconnected_are_sent_if_the_stop_is_the_same() -> None:
    attachment = seated()
    attachment.keys(b"a", 0.0)
    attachment.link_down("it shut down", 1.0)
    assert attachment.keys(b"b", 2.0) == []

    effects = back(attachment, make_report(generation=1, applied=1))

    assert typed(effects) == [(1, b"b")]


def test_keys_for_a_stop_that_ended_while_disconnected_are_reported() -> None:
    attachment = seated()
    attachment.keys(b"nn", 0.0)
    attachment.link_down("it shut down", 1.0)

    effects = back(attachment, make_report(2, generation=1))

    assert typed(effects) == []
    assert attachment.notice(5.0) == "discarded: 'nn' (the stop ended)"


def test_keys_are_reported_if_another_driver_typed_while_disconnected() -> None:
    attachment = seated()
    attachment.keys(b"nn", 0.0)
    attachment.link_down("it shut down", 1.0)

    effects = back(attachment, make_report(generation=2, applied=5), generation=3)

    assert typed(effects) == []
    assert "discarded: 'nn'" in (attachment.notice(5.0) or "")
    assert typed(attachment.keys(b"s", 6.0)) == [(0, b"s")]


def test_the_terminal_waits_until_the_rank_has_reconnected() -> None:
    attachment = seated()
    attachment.link_down("it shut down", 1.0)
    attachment.link_up(2.0)

    assert attachment.rank_listed(None, 2.0) == []
    assert attachment.tick(1000.0) == []
    assert len(sent(attachment.rank_listed(make_rank(), 1001.0))) == 1
    assert attachment.rank_listed(make_rank(), 1001.0) == []


def test_a_seat_refused_after_a_reconnect_is_requested_again() -> None:
    attachment = seated()
    attachment.link_down("it shut down", 1.0)
    attachment.link_up(2.0)
    attachment.rank_listed(make_rank(), 2.0)

    attachment.message(Refusal(code=RefusalCode.FULL, text="64 terminals are there"), 2.0)

    assert len(sent(attachment.tick(3.0))) == 1


# ------------------------------------------------------------------------------------------------------------ output


def test_output_is_shown_and_a_gap_causes_a_repaint() -> None:
    attachment = seated()
    assert attachment.output(Output(1, 100, b"ab"), 0.0)[-1] == Show(b"ab")
    assert attachment.output(Output(1, 102, b"c"), 0.0) == [Show(b"c")]

    effects = attachment.output(Output(1, 110, b"d"), 0.0)

    assert sent(effects) == [Repaint()]
    assert effects[0] == Blank()
    assert effects[-1] == Show(b"d")
    assert attachment.output(Output(1, 111, b"e"), 0.0) == [Show(b"e")]


def test_output_hidden_by_the_clients_text_is_repainted_at_the_next_stop() -> None:
    """PuDB draws differences: a row of the output that was not shown would stay as it is."""
    attachment = seated()
    attachment.output(Output(1, 0, b"> line 3"), 0.0)
    attachment.message(Report(report=make_report(state=RankState.RUNNING, stepping=True)), 0.0)
    assert attachment.output(Output(1, 8, b"  line 3, > line 4"), 0.0) == []

    assert attachment.message(Report(report=make_report()), 0.0) == [Blank(), Send(Repaint())]
    assert attachment.message(Report(report=make_report()), 0.0) == []
    assert attachment.output(Output(1, 26, b"  line 4, > line 5"), 0.0) == [Show(b"  line 4, > line 5")]


def test_many_gaps_cause_few_repaints() -> None:
    attachment = seated()
    offsets = range(0, 1000, 10)
    asked = sum(len(sent(attachment.output(Output(1, offset, b"x"), 0.0))) for offset in offsets)

    assert asked == 1
    assert sent(attachment.tick(REPAINT_SECONDS)) == [Repaint()]
    assert attachment.tick(2 * REPAINT_SECONDS) == []


# ------------------------------------------------------------------------------------------------- the rank goes on


def test_a_resume_without_breakpoints_ends_the_session() -> None:
    attachment = seated()

    assert attachment.message(Report(report=RESUMED), 0.0) == [Wake(NEXT_STOP_SECONDS)]
    assert attachment.message(Report(report=RESUMED), 0.1) == []
    assert finished(attachment.tick(NEXT_STOP_SECONDS)) == Finish(None)


def kept() -> Attachment:
    """Return an attachment at a kept crash that has just been resumed."""
    report = make_report()
    assert report.stop is not None
    stop = report.stop.replace(reason="crash", error="ValueError: bad batch")
    attachment = seated(report=report.replace(stop=stop))
    assert Wake(LET_GO_SECONDS) in attachment.message(Report(report=RESUMED), 0.0)
    return attachment


def test_a_resumed_crash_has_time_to_end(approved: Approved) -> None:
    attachment = kept()
    approved(attachment.notice(0.0))
    assert not any(isinstance(effect, Finish) for effect in attachment.tick(LET_GO_SECONDS - 0.1))
    ended = make_rank(state=RankState.EXITED, exit=1, error="ValueError: bad batch")
    finish = finished(attachment.rank_listed(ended, LET_GO_SECONDS - 0.1))
    assert str(finish.error) == "gpu013:5 ended with ValueError: bad batch (status 1)"


def test_a_crash_caught_by_the_program_ends_the_session_without_error() -> None:
    attachment = kept()
    assert attachment.ending.was_crash
    assert finished(attachment.tick(LET_GO_SECONDS)) == Finish(None)

    attachment = kept()
    attachment.message(Report(report=make_report(2)), 0.1)
    assert not attachment.ending.was_crash
    attachment.message(Report(report=RESUMED), 1.0)
    assert finished(attachment.tick(1.0 + NEXT_STOP_SECONDS)) == Finish(None)


def test_the_next_stop_in_a_loop_continues_the_session() -> None:
    attachment = seated()
    attachment.message(Report(report=RESUMED), 0.0)

    assert blanked(attachment.message(Report(report=make_report(2)), 0.1)) == [""]
    assert not any(isinstance(effect, Finish) for effect in attachment.tick(NEXT_STOP_SECONDS))


def test_a_program_that_ends_right_after_its_last_stop_counts_as_resumed() -> None:
    attachment = seated()
    attachment.message(Report(report=RESUMED), 0.0)

    assert finished(attachment.rank_listed(make_rank(state=RankState.EXITED, exit=0), 0.1)) == Finish(None)


def test_a_resume_with_breakpoints_left_keeps_the_terminal() -> None:
    attachment = seated()

    (text,) = blanked(attachment.message(Report(report=RUNNING_ON), 0.0))

    assert "gpu013:5 is running, 1 breakpoint left" in text
    assert blanked(attachment.message(Report(report=make_report(2)), 1.0)) == [""]
    assert attachment.blank_text == ""


def test_a_text_is_shown_until_the_debugger_of_a_stop_draws(approved: Approved) -> None:
    attachment = seated(report=make_report(session=None))

    approved(attachment.blank_text)
    attachment.message(Report(report=make_report()), 5.0)
    assert attachment.blank_text == ""
    assert attachment.output(Output(1, 0, b"new"), 5.0) == [Blank(), Show(b"new")]


def test_output_of_a_debugger_after_its_stop_is_not_shown() -> None:
    attachment = seated()
    attachment.output(Output(1, 0, b"old"), 0.0)
    attachment.message(Report(report=RUNNING_ON), 0.0)

    assert attachment.output(Output(1, 3, b"leaving"), 0.0) == []
    assert Show(b"new") in attachment.output(Output(2, 0, b"new"), 0.0)


# ------------------------------------------------------------------------------------------------------ the rank ends


def test_an_exit_ends_the_session_and_shows_its_cause() -> None:
    finish = finished(seated().rank_listed(make_rank(state=RankState.EXITED, exit=-9), 0.0))

    assert isinstance(finish.error, RankEnded)
    assert str(finish.error) == "gpu013:5 was killed by SIGKILL"
    assert finish.error.exit_status == 8


def test_a_lost_rank_has_ten_seconds_to_return(approved: Approved) -> None:
    attachment = seated()
    lost = make_rank(state=RankState.LOST)

    assert attachment.rank_listed(lost, 100.0) == []
    assert attachment.rank_listed(lost, 105.0) == []
    assert attachment.tick(100.0 + LOST_SECONDS) == []
    finish = finished(attachment.tick(100.1 + LOST_SECONDS))

    assert isinstance(finish.error, RankStayedAway)
    assert finish.error.exit_status == 8
    approved(str(finish.error))
    assert "dbg-attach wait gpu013:5" in str(finish.error)


def test_a_lost_rank_that_returns_keeps_its_session() -> None:
    attachment = seated()
    attachment.rank_listed(make_rank(state=RankState.LOST), 100.0)

    attachment.rank_listed(make_rank(), 105.0)
    attachment.message(seat(), 105.0)

    assert attachment.tick(200.0) == []


def test_a_silent_rank_keeps_its_terminal() -> None:
    attachment = seated()
    attachment.message(Change(rank=make_rank(state=RankState.UNRESPONSIVE)), 100.0)
    assert attachment.motion.heard == 0.0  # the broker spoke, not the rank

    assert attachment.rank_listed(make_rank(state=RankState.UNRESPONSIVE), 100.0) == []
    assert attachment.tick(10_000.0) == []


# --------------------------------------------------------------------------------------------------------------- size


def test_a_watchers_new_size_needs_a_repaint() -> None:
    assert Repaint() in sent(seated(None).resize(39, 120, 0.0))
    assert Repaint() not in sent(seated().resize(39, 120, 0.0))


def test_a_window_resized_back_to_the_size_of_the_screen_needs_a_repaint() -> None:
    """The broker passes on the latest size alone, so the rank may never hear that the window was smaller."""
    attachment = seated()
    assert sent(attachment.resize(20, 80, 0.0)) == [Resize(rows=20, columns=80)]

    assert sent(attachment.resize(23, 80, 0.0)) == [Resize(rows=23, columns=80), Repaint()]


# ------------------------------------------------------------------------------------------------------ line debuggers


def with_engines(asked: str | None = None, default: str | None = None, *, engine: str | None = None) -> Attachment:
    spec = EngineSpec(asked, default)
    return Attachment(make_rank(engine=engine), Mode.DRIVE, (23, 80), colors=256, prefix="Ctrl-]", spec=spec)


def engines_sent(attachment: Attachment) -> tuple[str | None, str | None]:
    (attach,) = sent(attachment.attach())
    assert isinstance(attach, Attach)
    return attach.engine, attach.fallback_engine


def test_the_requested_and_the_fallback_engine_are_sent_separately() -> None:
    assert engines_sent(with_engines("pdb", "pudb", engine="pudb")) == ("pdb", "pudb")
    assert engines_sent(with_engines(default="pdb")) == (None, "pdb")


def test_output_of_a_line_debugger_is_a_log_and_never_repainted() -> None:
    attachment = seated(report=make_pdb_report(make_prompt()))

    assert attachment.output(Output(1, 0, b"one\n"), 0.0) == [LogText(b"one\n")]
    assert sent(attachment.output(Output(1, 9, b"two\n"), 0.0)) == [Replay(session=1, offset=4)]
    assert attachment.ask_repaint(0.0) == []
    assert not any(isinstance(item, Repaint) for item in sent(attachment.resize(10, 40, 0.0)))


def test_keys_waiting_for_a_screen_are_left_to_a_line_debugger() -> None:
    attachment = seated(report=make_report(session=None))
    attachment.keys(b"p x\r", 0.0)

    assert typed(attachment.message(Report(report=make_pdb_report(make_prompt(), generation=1)), 0.0)) == []
    assert attachment.take_unsent() == b"p x\r"


# ------------------------------------------------------------------------------------------------ what others do


BOB_RESUMED = '"bob@login1 (VS Code)" let it go'


def test_the_ending_names_who_resumed_the_rank() -> None:
    attachment = seated(report=make_pdb_report(make_prompt()))
    effects = attachment.message(Notice(text=BOB_RESUMED, ends_stop=True), 1.0)
    assert Note(BOB_RESUMED) in effects
    attachment.message(Report(report=RESUMED), 2.0)
    assert finished(attachment.tick(2.0 + NEXT_STOP_SECONDS)) == Finish(None)
    assert attachment.ending.by == BOB_RESUMED


def test_an_old_or_unrelated_notice_is_not_the_cause_of_the_ending() -> None:
    for notice, at in (
        (Notice(text=BOB_RESUMED, ends_stop=True), END_SECONDS),
        (Notice(text='"bob@login1" ran `n`'), 0.0),
    ):
        attachment = seated()
        attachment.message(notice, 0.0)
        attachment.message(Report(report=RESUMED), at)
        assert attachment.ending.by == ""


def test_notices_about_others_do_not_hide_discarded_keys() -> None:
    attachment = seated()
    attachment.keys(b"nnn", 0.0)
    attachment.message(Discarded(generation=1, offset=3, count=3, reason="unread"), 0.0)
    loss = attachment.unread_loss(0.0)
    for text in ('"bob@login1" ran `n`', BOB_RESUMED):
        attachment.message(Notice(text=text), 1.0)
        assert attachment.notice(1.0) == f"{loss}; {text}"
    assert attachment.unread_loss(1.0) == loss
    attachment.message(Notice(text=BOB_RESUMED), 1.0 + NOTICE_SECONDS)
    assert attachment.notice(1.0 + NOTICE_SECONDS) == BOB_RESUMED


def test_keys_before_the_seat_are_kept_up_to_a_limit(approved: Approved) -> None:
    attachment = new()
    assert attachment.keys(b"x" * MAX_INPUT_PENDING, 0.0) == []
    assert attachment.keys(b"y", 1.0) == [Bell()]
    approved(attachment.notice(1.0))


def test_the_keyboard_cannot_be_taken_while_the_link_is_down(approved: Approved) -> None:
    attachment = seated(None, Mode.WATCH)
    attachment.link_down("broken", 1.0)
    assert attachment.take(2.0) == [Bell()]
    approved(attachment.notice(2.0))


def test_a_seat_at_an_exited_rank_ends_the_session() -> None:
    ended = Seat(
        rank=make_rank(state=RankState.EXITED), report=make_report(), generation=1, driver="me@here", watchers=0
    )
    assert isinstance(finished(new().message(ended, 0.0)).error, RankEnded)
