"""Drivers, watchers, generations and sizes."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from dbg_broker.relay.seats import Decision, InputVerdict, Seats
from dbg_wire import limits
from dbg_wire.messages import Mode
from tests.unit.broker.peers import attach

K = "key"


def sit(seats: Seats, number: int, mode: Mode = Mode.DRIVE, known: int = 0, **changes: Any) -> Decision:
    return seats.attach(number, f"viewer-{number}", attach(K, mode, **changes), known)


def test_requested_frame_is_sent_while_its_terminal_drives() -> None:
    seats = Seats()
    sit(seats, 1, frame="step")
    sit(seats, 2, Mode.WATCH, frame="main")
    assert seats.viewers_message(K, 0).frame == "step"
    seats.take(2, 0)
    assert seats.viewers_message(K, 0).frame == ""
    seats.take(1, 0)
    assert seats.viewers_message(K, 0).frame == ""


def test_resume_keeps_the_generation() -> None:
    seats = Seats()
    sit(seats, 1)
    seats.leave(1)
    sit(seats, 2, resume=1)
    assert seats.generation_of(2) == 1


def test_resume_takes_the_seat_of_ones_own_dead_connection() -> None:
    seats = Seats()
    sit(seats, 1)
    sit(seats, 2, resume=1)
    assert (seats.generation_of(1), seats.generation_of(2)) == (None, 1)


def test_resume_with_an_old_generation_does_not_give_the_keyboard() -> None:
    seats = Seats()
    sit(seats, 1)
    seats.leave(1)
    sit(seats, 2)
    sit(seats, 3, resume=1)
    assert (seats.generation_of(2), seats.generation_of(3)) == (2, None)


def test_rank_with_a_higher_generation_gives_its_driver_a_new_one() -> None:
    seats = Seats()
    sit(seats, 1)
    assert seats.rank_came(K, 1) == Decision((1,), (K,))
    assert seats.generation_of(1) == 1
    seats.rank_came(K, 9)
    assert seats.generation_of(1) == 10


def test_size_is_that_of_the_driver() -> None:
    seats = Seats()
    sit(seats, 1, rows=40, columns=100)
    sit(seats, 2, Mode.WATCH, rows=20, columns=60)
    assert seats.resize(2, 99, 99) == Decision()
    assert seats.resize(1, 50, 110) == Decision((), (K,))
    viewers_message = seats.viewers_message(K, 0)
    assert (viewers_message.viewers, viewers_message.rows, viewers_message.columns) == (2, 50, 110)


def test_input_is_judged_by_seat_and_generation() -> None:
    seats = Seats()
    assert seats.judge_input(1, 1) is InputVerdict.NOT_ATTACHED
    sit(seats, 1)
    sit(seats, 2)
    assert seats.judge_input(1, 1) is InputVerdict.ACCEPTED
    assert seats.judge_input(1, 0) is InputVerdict.STALE
    assert seats.judge_input(2, 1) is InputVerdict.NOT_DRIVING


VIEWERS = st.integers(1, 5)
KEYS = st.sampled_from(["a", "b"])


class SessionsMachine(RuleBasedStateMachine):
    """Terminals that attach, take, leave and resize in any order, while ranks come and the broker restarts."""

    def __init__(self) -> None:
        super().__init__()
        self.seats = Seats()
        self.rank_knows = {"a": 0, "b": 0}
        self.highest = {"a": 0, "b": 0}
        self.held: dict[int, int] = {}

    def note(self, decision: Decision) -> None:
        """Tell the ranks their audiences, as the broker does."""
        for number in decision.seats:
            generation = self.seats.generation_of(number)
            if generation is not None:
                self.held[number] = generation
        for key in decision.audiences:
            self.rank_knows[key] = self.seats.viewers_message(key, self.rank_knows[key]).generation

    @rule(number=VIEWERS, key=KEYS, mode=st.sampled_from(list(Mode)), resumes=st.booleans())
    def attach(self, number: int, key: str, mode: Mode, resumes: bool) -> None:
        request = attach(key, mode, resume=self.held.get(number) if resumes else None)
        decision = self.seats.attach(number, f"v{number}", request, self.rank_knows[key])
        assert decision.seats[0] == number
        self.note(decision)

    @rule(number=VIEWERS)
    def take(self, number: int) -> None:
        viewer = self.seats.viewer(number)
        if viewer is not None:
            self.note(self.seats.take(number, self.rank_knows[viewer.key]))
            assert self.seats.generation_of(number) is not None

    @rule(number=VIEWERS)
    def leave(self, number: int) -> None:
        self.note(self.seats.leave(number))
        assert self.seats.viewer(number) is None

    @rule(number=VIEWERS, rows=st.integers(-5, 3000), columns=st.integers(-5, 3000))
    def resize(self, number: int, rows: int, columns: int) -> None:
        if self.seats.viewer(number) is not None:
            self.note(self.seats.resize(number, rows, columns))

    @rule(key=KEYS, elsewhere=st.integers(0, 3))
    def rank_comes(self, key: str, elsewhere: int) -> None:
        self.rank_knows[key] += elsewhere
        self.note(self.seats.rank_came(key, self.rank_knows[key]))

    @rule()
    def broker_restarts(self) -> None:
        self.seats = Seats()

    @invariant()
    def one_driver_whose_input_alone_passes(self) -> None:
        for key in ("a", "b"):
            seated = self.seats.viewers(key)
            drivers = [number for number in seated if self.seats.generation_of(number) is not None]
            assert len(drivers) <= 1
            assert len(seated) == self.seats.watchers(key) + len(drivers)
            assert (self.seats.driver(key) is None) == (not drivers)
            for number in seated:
                verdict = self.seats.judge_input(number, self.rank_knows[key])
                assert (verdict is InputVerdict.ACCEPTED) == (number in drivers)

    @invariant()
    def generations_only_grow(self) -> None:
        for key in ("a", "b"):
            generation = self.seats.viewers_message(key, self.rank_knows[key]).generation
            assert generation == self.rank_knows[key] >= self.highest[key]
            self.highest[key] = generation

    @invariant()
    def sizes_can_be_drawn(self) -> None:
        for key in ("a", "b"):
            viewers_message = self.seats.viewers_message(key, 0)
            assert limits.MIN_ROWS <= viewers_message.rows <= limits.MAX_ROWS
            assert limits.MIN_COLUMNS <= viewers_message.columns <= limits.MAX_COLUMNS


TestSessionsMachine = SessionsMachine.TestCase
TestSessionsMachine.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)
