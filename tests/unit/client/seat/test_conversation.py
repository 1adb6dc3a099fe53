from __future__ import annotations

from collections import deque

from dbg_client.seat.conversation import Conversation
from dbg_client.seat.effects import Completed, Effects, LogText, Note, Send, Wake
from dbg_client.seat.output import ON_ITS_WAY_SECONDS
from dbg_wire.codec import Output
from dbg_wire.limits import MAX_INPUT_PENDING, MAX_TEXT
from dbg_wire.messages import (
    Complete,
    Completions,
    Interrupt,
    PromptInfo,
    PromptState,
    RankReport,
    Replay,
    Replied,
    Reply,
)
from dbg_wire.records.ranks import RankState
from tests.conftest import Approved
from tests.support.approved import as_text
from tests.unit.client.fake_broker import make_pdb_report, make_prompt

RESUMED = RankReport(state=RankState.RUNNING, breakpoints=1)


def at(prompt: PromptInfo | None = None, *, generation: int | None = 1, startup: tuple[str, ...] = ()) -> Conversation:
    """Return a conversation at a prompt with an empty log before it."""
    conversation = Conversation(deque(startup))
    conversation.report(make_pdb_report(prompt or make_prompt()), generation, 0.0, anew=True)
    return conversation


def busy() -> Conversation:
    """Return a conversation whose command runs."""
    conversation = at()
    conversation.enter("long()", conversation.prompt)
    report_prompt(conversation, None)
    return conversation


def report_prompt(
    conversation: Conversation,
    prompt: PromptInfo | None,
    *,
    generation: int | None = 1,
    of_rank: int = 0,
    **changes: object,
) -> Effects:
    """Report ``prompt`` to the holder of ``generation``; the rank knows the driver of generation ``of_rank``."""
    report = make_pdb_report(prompt, generation=of_rank, **changes)  # type: ignore[arg-type]
    return conversation.report(report, generation, 0.0, anew=False)


def seated(conversation: Conversation, prompt: PromptInfo | None, *, generation: int | None = 1) -> Effects:
    return conversation.report(make_pdb_report(prompt), generation, 0.0, anew=True)


def replies(effects: Effects) -> list[tuple[int, str]]:
    items = [effect.item for effect in effects if isinstance(effect, Send)]
    return [(item.prompt, item.text) for item in items if isinstance(item, Reply)]


def notes(effects: Effects) -> list[str]:
    return [effect.text for effect in effects if isinstance(effect, Note)]


# ---------------------------------------------------------------------------------------------------------- replying


def test_a_line_answers_the_prompt_and_closes_it() -> None:
    conversation = at(make_prompt(7))

    assert replies(conversation.enter("p x", conversation.prompt)) == [(7, "p x")]
    assert conversation.prompt is None


def test_a_watcher_sends_no_reply() -> None:
    conversation = at(generation=None)

    assert replies(conversation.enter("c", conversation.prompt)) == []
    assert replies(conversation.end_of_input()) == []
    assert not any(isinstance(effect, Send) for effect in conversation.interrupt())


def test_an_unsettled_reply_is_sent_again_after_a_reconnect() -> None:
    conversation = at(make_prompt(7))
    conversation.enter("p x", conversation.prompt)

    assert replies(seated(conversation, make_prompt(7))) == [(7, "p x")]
    assert conversation.prompt is None


def test_a_settled_reply_is_not_sent_again() -> None:
    conversation = at(make_prompt(7))
    conversation.enter("p x", conversation.prompt)
    conversation.message(Replied(prompt=7, taken=True))

    assert replies(seated(conversation, make_prompt(7))) == []


def test_a_reply_counts_as_taken_when_its_prompt_has_been_replaced() -> None:
    conversation = at(make_prompt(7))
    conversation.enter("p x", conversation.prompt)
    effects = seated(conversation, make_prompt(8))

    assert (replies(effects), notes(effects)) == ([], [])
    assert conversation.prompt == make_prompt(8)


def test_a_reply_is_discarded_when_another_driver_takes_over(approved: Approved) -> None:
    conversation = at(make_prompt(7))
    conversation.enter("p x", conversation.prompt)
    effects = report_prompt(conversation, make_prompt(7), generation=None, of_rank=2)

    assert replies(effects) == []
    approved(as_text(notes(effects)))
    assert conversation.prompt == make_prompt(7)


def test_a_reply_that_may_still_arrive_is_not_reported_as_discarded() -> None:
    """The broker hands the keyboard over while the reply is under way: the rank takes it, and may confirm it late."""
    conversation = at(make_prompt(7))
    conversation.enter("p x", conversation.prompt)
    effects = conversation.report(make_pdb_report(make_prompt(7), generation=1), None, 0.0, anew=True)
    assert (replies(effects), notes(effects), conversation.prompt) == ([], [], None)

    conversation.message(Replied(prompt=7, taken=True))
    assert notes(report_prompt(conversation, None, generation=None, of_rank=2)) == []


def test_a_reply_may_have_been_discarded_when_another_driver_answered(approved: Approved) -> None:
    conversation = at(make_prompt(7))
    conversation.enter("p x", conversation.prompt)

    approved(as_text(notes(report_prompt(conversation, make_prompt(9), generation=3, of_rank=3))))


def test_a_refused_reply_is_reported_and_reopens_the_prompt() -> None:
    conversation = at(make_prompt(7))
    conversation.enter("p x", conversation.prompt)

    effects = conversation.message(Replied(prompt=7, taken=False, reason="too \x1blate"))

    assert notes(effects) == ["discarded: 'p x' (too \\x1blate)"]
    assert conversation.prompt == make_prompt(7)


def test_a_line_that_does_not_fit_a_message_is_refused() -> None:
    conversation = at()

    assert replies(conversation.enter("x" * (MAX_TEXT + 1), conversation.prompt)) == []
    assert conversation.prompt is not None
    assert replies(conversation.enter("\udcff", conversation.prompt)) == [(1, "?")]


def test_a_reply_is_shown_after_its_prompt_until_the_log_contains_it() -> None:
    conversation = at(make_prompt(1))
    assert conversation.unseen_reply == ""
    conversation.enter("p x", conversation.prompt)
    assert conversation.unseen_reply == "(Pdb) p x\n"
    (shown,) = conversation.output(Output(1, 0, b"(Pdb) p x\n5\n"), 0.0)
    assert shown == LogText(b"(Pdb) p x\n5\n")
    assert conversation.unseen_reply == ""


# ----------------------------------------------------------------------------------------------------- typed ahead


def test_lines_entered_while_a_command_runs_answer_the_next_prompts_one_by_one() -> None:
    conversation = busy()
    conversation.enter("n", None)
    conversation.enter("p x", None)
    assert conversation.held == 2

    assert replies(report_prompt(conversation, make_prompt(2))) == [(2, "n")]
    assert replies(report_prompt(conversation, None, stepping=True)) == []
    assert replies(report_prompt(conversation, make_prompt(3))) == [(3, "p x")]


def test_a_line_entered_right_after_a_take_waits_for_the_keyboard() -> None:
    conversation = at(generation=None)
    conversation.keyboard_is_due = True

    assert replies(conversation.enter("n", conversation.prompt)) == []
    assert replies(report_prompt(conversation, make_prompt(), generation=None)) == []
    assert replies(report_prompt(conversation, make_prompt(), generation=2)) == [(make_prompt().number, "n")]
    assert not conversation.keyboard_is_due


def test_a_line_waiting_for_a_refused_keyboard_is_reported(approved: Approved) -> None:
    conversation = at(generation=None)
    conversation.keyboard_is_due = True
    conversation.enter("n", conversation.prompt)

    approved(as_text(notes(conversation.keyboard_refused())))
    conversation.keyboard_is_due = True
    conversation.enter("n", conversation.prompt)
    assert notes(conversation.interrupt()) == ["discarded: 'n' (interrupted)"]


def test_lines_typed_ahead_do_not_answer_a_confirmation() -> None:
    conversation = busy()
    conversation.enter("c", None)
    question = make_prompt(2, text="stay? ", state=PromptState.CONFIRM)

    assert replies(report_prompt(conversation, question)) == []
    assert conversation.prompt == question
    assert replies(conversation.enter("s", question)) == [(2, "s")]
    assert replies(report_prompt(conversation, make_prompt(3))) == [(3, "c")]


def test_a_line_for_an_outdated_prompt_waits() -> None:
    conversation = busy()
    report_prompt(conversation, make_prompt(2, text="kill? ", state=PromptState.CONFIRM))

    assert replies(conversation.enter("y", make_prompt(1))) == []


def test_lines_typed_ahead_are_discarded_with_their_stop(approved: Approved) -> None:
    conversation = busy()
    conversation.enter("n", None)
    conversation.enter("p \x1b", None)

    assert notes(conversation.report(RESUMED, 1, 0.0, anew=False)) == ["discarded: 'n; p \\x1b' (the stop ended)"]
    approved(as_text(notes(conversation.enter("n", None))))


def test_lines_typed_ahead_are_bounded(approved: Approved) -> None:
    conversation = busy()
    line = "x" * MAX_TEXT
    for _ in range(MAX_INPUT_PENDING // MAX_TEXT):
        assert notes(conversation.enter(line, None)) == []

    approved(notes(conversation.enter(line, None))[0])


def test_an_interrupt_discards_lines_typed_ahead() -> None:
    conversation = busy()
    conversation.enter("n", None)
    effects = conversation.interrupt()

    assert notes(effects) == ["discarded: 'n' (interrupted)"]
    assert Send(Interrupt(generation=1)) in effects


def test_no_interrupt_is_sent_at_the_debuggers_own_prompt() -> None:
    assert at().interrupt() == []
    assert at(make_prompt(state=PromptState.INPUT)).interrupt() == [Send(Interrupt(generation=1))]


# ---------------------------------------------------------------------------------------------------------- startup


def test_startup_lines_answer_the_first_prompts() -> None:
    conversation = Conversation(deque(["alias nl n;;l", "b 3"]))

    assert replies(seated(conversation, make_prompt(1))) == [(1, "alias nl n;;l")]
    assert replies(report_prompt(conversation, make_prompt(2, state=PromptState.INPUT))) == []
    assert replies(report_prompt(conversation, make_prompt(3))) == [(3, "b 3")]
    assert conversation.prompt is None
    assert replies(report_prompt(conversation, make_prompt(4))) == []


def test_startup_lines_are_sent_by_a_driver_and_not_by_a_watcher() -> None:
    conversation = at(generation=None, startup=("b 3",))

    assert conversation.prompt is not None
    assert replies(seated(conversation, make_prompt(1), generation=2)) == [(1, "b 3")]


# ----------------------------------------------------------------------------------------- log, completion


def test_the_log_is_resumed_after_a_reconnect() -> None:
    conversation = busy()
    conversation.output(Output(1, 0, b"12345"), 0.0)
    effects = conversation.report(make_pdb_report(None), 1, 9.0, anew=True)

    assert Send(Replay(session=1, offset=5)) in effects


def test_a_terminal_present_from_the_start_requests_no_replay() -> None:
    conversation = at()
    effects = report_prompt(conversation, make_prompt(5, 3), stop=2)

    assert effects == [Wake(ON_ITS_WAY_SECONDS)]
    assert conversation.output(Output(2, 0, b"new"), 0.0) == [LogText(b"new")]
    assert conversation.prompt == make_prompt(5, 3)


def test_a_prompt_waits_for_the_output_before_it() -> None:
    conversation = at(make_prompt(1, offset=4))
    conversation.enter("n", None)

    assert conversation.prompt is None
    assert replies(conversation.output(Output(1, 0, b"abc\n"), 0.0)) == [(1, "n")]


def test_completion_is_requested_only_at_a_prompt() -> None:
    conversation = at(make_prompt(7))
    number, effects = conversation.complete("p lo", 2, 4)

    assert effects == [Send(Complete(request=number, prompt=7, generation=1, line="p lo", start=2, end=4))]
    assert conversation.message(Completions(request=number, matches=("loss",))) == [Completed(number, ("loss",))]
    assert conversation.complete("p lo", 2, 4)[0] != number
    assert busy().complete("p lo", 2, 4)[1] == []
