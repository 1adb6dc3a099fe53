"""What a terminal can't mean is refused field by field."""

from __future__ import annotations

import pytest

from dbg_wire.messages import Attach, Complete, Greet, Mode, Replay
from dbg_wire.records.bounds import InvalidMessage
from dbg_wire.records.record import checked


@pytest.mark.parametrize("name", ["", "x" * 201, "me\x1b[31m", "me\n@h", "me\u202e"])
def test_names_that_act_on_terminals_are_refused(name: str) -> None:
    with pytest.raises(InvalidMessage, match=r"greet\.name"):
        checked(Greet(minor=0, release="1", name=name))


def test_names_of_people_pass() -> None:
    checked(Greet(minor=0, release="1", name="josé müller@login1"))


def test_attach_is_checked() -> None:
    def attach(*, engine: str | None = None, fallback_engine: str | None = None, resume: int | None = None) -> Attach:
        return checked(
            Attach(
                key="k",
                mode=Mode.DRIVE,
                rows=24,
                columns=80,
                colors=256,
                engine=engine,
                fallback_engine=fallback_engine,
                resume=resume,
            )
        )

    attach(resume=4, engine="pdb")
    with pytest.raises(InvalidMessage, match=r"attach\.resume"):
        attach(resume=-1)
    with pytest.raises(InvalidMessage, match=r"attach\.engine"):
        attach(engine="\x1b")
    with pytest.raises(InvalidMessage, match=r"attach\.fallback_engine"):
        attach(fallback_engine="\x1b")


@pytest.mark.parametrize(("begin", "end"), [(-1, 2), (3, 2), (0, 5)])
def test_what_is_to_be_completed_lies_in_its_line(begin: int, end: int) -> None:
    Complete(request=1, prompt=1, generation=1, line="p lo", begin=2, end=4)
    with pytest.raises(InvalidMessage, match=f"complete is about {begin} to {end} of 4 characters"):
        Complete(request=1, prompt=1, generation=1, line="p lo", begin=begin, end=end)


def test_a_replay_is_checked() -> None:
    Replay(session=1, offset=0)
    with pytest.raises(InvalidMessage, match=r"replay\.session"):
        checked(Replay(session=2**32, offset=0))
    with pytest.raises(InvalidMessage, match=r"replay\.offset"):
        checked(Replay(session=1, offset=-1))
