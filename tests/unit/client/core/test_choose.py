"""Stock debuggers on the broker's host: how they are named, and what a terminal shows of those that keep their size."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dbg_client.command_line import completion
from dbg_client.command_line.completion import (
    live_ranks,
    targets_of,
)
from dbg_client.core.choose import choose, choose_when_ready, exited, is_ready, listed, neighbour, there
from dbg_client.core.directory import Directory
from dbg_client.core.errors import LostRank, NotStopped, RankEnded
from dbg_client.seat.attachment import Attachment
from dbg_client.terminal.status_line import Others, status_of
from dbg_command.targets import parse_target, select
from dbg_dial.endpoint import TOKEN_ROLES, Rendezvous, format_rendezvous, parse_endpoint
from dbg_wire.errors import AmbiguousTarget, DbgError
from dbg_wire.messages import Change, Gone, Mode, Repaint, Seat, SessionInfo, Snapshot
from dbg_wire.records.ranks import RankInfo, RankState
from dbg_wire.records.record import plain
from tests.unit.client.fake_broker import HERE, FakeBroker, make_rank, make_report

RUNNING: dict[str, object] = {"state": RankState.RUNNING, "where": None, "reason": None}


def ranks(*numbers: int, **changes: object) -> list[RankInfo]:
    return [make_rank(number, **changes) for number in numbers]


def relaunched(number: int, **changes: object) -> RankInfo:
    values = {"job": "4712.0", "key": f"4712.0/0.0/gpu020:{number}/99", "host": "gpu020", "address": f"gpu020:{number}"}
    return make_rank(number, **{**values, **changes})


def test_set_with_one_stopped_rank_selects_it() -> None:
    known = [*ranks(0, 1, **RUNNING), *ranks(2)]

    assert choose(parse_target("gpu013:*"), known).rank.rank == 2


def test_a_set_with_several_stopped_ranks_is_ambiguous_and_names_them() -> None:
    with pytest.raises(AmbiguousTarget) as caught:
        choose(parse_target("all"), [*ranks(0, 1), *ranks(2, **RUNNING)])

    assert caught.value.candidates == ("gpu013:0", "gpu013:1")
    assert caught.value.exit_status == 2


def test_held_rank_is_chosen_if_only_it_is_named() -> None:
    known = ranks(5, state=RankState.HELD)

    assert choose(parse_target("5"), known).rank is known[0]


@pytest.mark.parametrize(
    ("changes", "error", "status"),
    [
        (RUNNING, NotStopped, 1),
        ({"state": RankState.UNRESPONSIVE, "where": None}, NotStopped, 1),
        ({"state": RankState.HELD, "where": None}, NotStopped, 1),
        ({"state": RankState.LOST}, LostRank, 1),
        ({"state": RankState.EXITED, "exit": 1}, RankEnded, 8),
    ],
)
def test_a_rank_that_is_not_stopped_is_refused_with_its_own_status(
    changes: dict[str, object], error: type[DbgError], status: int
) -> None:
    with pytest.raises(error) as caught:
        choose(parse_target("5"), ranks(5, **changes))

    assert caught.value.exit_status == status
    assert "gpu013:5" in str(caught.value)


def test_a_stopped_rank_that_fell_silent_can_be_attached_to() -> None:
    assert is_ready(make_rank(state=RankState.UNRESPONSIVE, where=HERE))
    assert not is_ready(make_rank(state=RankState.UNRESPONSIVE, where=None))


@pytest.mark.parametrize("changes", [RUNNING, {"state": RankState.EXITED}, {"state": RankState.LOST}])
def test_no_rank_is_chosen_before_a_stop(changes: dict[str, object]) -> None:
    assert choose_when_ready(parse_target("5"), ranks(5, **changes)) is None
    assert choose_when_ready(parse_target("5"), []) is None


def test_ended_stop_is_not_chosen_again() -> None:
    ended = make_rank(5, since=100.0)

    assert choose_when_ready(parse_target("5"), [ended], ended) is None
    again = choose_when_ready(parse_target("5"), [make_rank(5, since=101.0)], ended)
    assert again is not None


def test_following_a_set_returns_to_the_same_address() -> None:
    choice = choose_when_ready(parse_target("all"), ranks(1, 5, since=200.0), make_rank(5, since=100.0))

    assert choice is not None
    assert choice.rank.rank == 5


def test_following_stays_in_the_job_while_it_lives() -> None:
    ended = make_rank(5, since=100.0)
    known = [make_rank(5, **RUNNING), relaunched(5)]

    assert choose_when_ready(parse_target("5"), known, ended) is None


def test_following_continues_in_a_relaunch_of_the_script() -> None:
    ended = make_rank(5, since=100.0)
    other = relaunched(5, job="9.0", key="9.0/x", host="gpu030", address="gpu030:5", script="/other.py")
    known = [make_rank(5, state=RankState.EXITED), relaunched(5), other]

    choice = choose_when_ready(parse_target("5"), known, ended)

    assert choice is not None
    assert choice.rank.job == "4712.0"


def test_neighbours_cycle_through_the_stopped_ranks_of_the_job() -> None:
    known = [*ranks(0, 2, 5), *ranks(3, **RUNNING), relaunched(4)]

    def neighbour_of(current: int, step: int) -> int | None:
        found = neighbour(make_rank(current), known, step)
        return found.rank if found else None

    assert [neighbour_of(0, 1), neighbour_of(2, 1), neighbour_of(5, 1)] == [2, 5, 0]
    assert [neighbour_of(0, -1), neighbour_of(2, -1), neighbour_of(5, -1)] == [5, 0, 2]
    assert neighbour(make_rank(0), ranks(0), 1) is None


def test_wait_may_name_jobs_by_a_pattern() -> None:
    running = make_rank(5, job="train-1", key="one", **RUNNING)
    other = make_rank(5, job="eval", key="two")
    for text in ("train*/5", "train*/all", "*-1/5"):
        assert choose_when_ready(parse_target(text), [running, other]) is None
        stopped = running.replace(state=RankState.STOPPED)
        choice = choose_when_ready(parse_target(text), [stopped, other])
        assert choice is not None
        assert choice.rank.job == "train-1"
    with pytest.raises(AmbiguousTarget) as caught:
        choose(parse_target("*/5"), [make_rank(5, job="train-1", key="one"), other])
    assert caught.value.candidates == ("eval/gpu013:5", "train-1/gpu013:5")


RUNNING_LIVE_TARGETS = make_rank(6, state=RankState.RUNNING, where=None, reason=None)


def as_json(*ranks: RankInfo) -> list[Mapping[str, Any]]:
    return [plain(rank) for rank in ranks]


def test_ranks_of_one_job_are_listed_with_their_place() -> None:
    gone = make_rank(7, state=RankState.EXITED)

    assert list(targets_of(as_json(make_rank(5), RUNNING_LIVE_TARGETS, gone))) == [
        ("gpu013:5", "stopped train.py:41"),
        ("gpu013:6", "running"),
    ]


def test_each_of_several_jobs_is_named() -> None:
    found = [target for target, _ in targets_of(as_json(make_rank(5), make_rank(5, job="other", key="o")))]

    assert found == ["4711.0/gpu013:5", "other/gpu013:5", "4711.0/all", "other/all"]


@pytest.mark.parametrize("address", ["gpu;reboot:5", "$(reboot):5", "a b:5", "gpu\n:5", "gpu\x1b[2J:5", "`x`:5", ""])
def test_address_with_shell_characters_is_not_offered(address: str) -> None:
    assert list(targets_of(as_json(make_rank(5, address=address, job="evil; job")))) == []


def test_place_cannot_control_the_terminal() -> None:
    place = {"file": "/a\x1b[2J\t.py", "line": 3, "function": "f"}
    ((_, meaning),) = targets_of(
        [*as_json(RUNNING_LIVE_TARGETS)[:0], {**as_json(make_rank(5))[0], "halt": {"where": place}}]
    )

    assert meaning.isprintable()


@pytest.fixture
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CONNECT_SECONDS", "ANSWER_SECONDS"):
        monkeypatch.setattr(completion, name, 30.0)


@pytest.mark.usefixtures("_patient")
def test_the_ranks_of_the_broker_are_found(environ: dict[str, str]) -> None:
    with FakeBroker(make_rank(5), RUNNING_LIVE_TARGETS) as broker:
        found = [target for target, _ in live_ranks({**environ, **broker.environment})]

    assert found == ["gpu013:5", "gpu013:6"]


def test_no_ranks_are_found_without_a_broker(environ: dict[str, str], tmp_path: Path) -> None:
    with FakeBroker() as broker:
        gone = {**environ, **broker.environment}

    assert list(live_ranks(gone)) == []
    assert list(live_ranks({"DBG_HOME": str(tmp_path)})) == []
    assert list(live_ranks({"DBG_BROKER": "no address"})) == []


@pytest.mark.usefixtures("_patient")
def test_another_broker_is_asked_if_the_one_of_home_has_ended(environ: dict[str, str], tmp_path: Path) -> None:
    with FakeBroker() as gone:
        own = parse_endpoint(gone.environment["DBG_BROKER"], source="broker.json")
    with FakeBroker(make_rank(5), RUNNING_LIVE_TARGETS) as other:
        token = other.environment["DBG_TOKEN"]
        others = (parse_endpoint(other.environment["DBG_BROKER"], source="broker.json"),)
        written = Rendezvous(
            url=own.url,
            host=socket.gethostname(),
            pid=1,
            fingerprint=own.fingerprint or "",
            tokens=dict.fromkeys(TOKEN_ROLES, token),
            brokers=others,
        )
        home = tmp_path / "site"
        home.mkdir(mode=0o700)
        (home / "broker.json").touch(mode=0o600)
        (home / "broker.json").write_text(format_rendezvous(written))
        found = [target for target, _ in live_ranks({**environ, "DBG_HOME": str(home)})]

    assert found == ["gpu013:5", "gpu013:6"]


def test_directory_applies_changes() -> None:
    directory = Directory()
    directory.receive(Snapshot(ranks=(make_rank(0),), last=True))

    directory.receive(Change(rank=make_rank(0, state=RankState.RUNNING)))
    directory.receive(Change(rank=make_rank(1)))
    directory.receive(Gone(key=make_rank(0).key))

    assert [rank.rank for rank in directory.ranks] == [1]


def test_new_connection_keeps_the_old_list_until_its_own_is_complete() -> None:
    directory = Directory()
    directory.receive(Snapshot(ranks=(make_rank(0),), last=True))

    directory.start()
    assert not directory.complete
    assert [rank.rank for rank in directory.ranks] == [0]
    directory.receive(Snapshot(ranks=(make_rank(1),), last=True))

    assert [rank.rank for rank in directory.ranks] == [1]


def test_listener_is_called_for_changes_and_the_state_of_the_broker() -> None:
    directory, heard = Directory(), []
    directory.on_change = lambda: heard.append(directory.away)

    directory.receive(Change(rank=make_rank(0)))
    directory.receive(Repaint())
    directory.cut_off("it shut down")
    directory.start()

    assert heard == [None, "it shut down", None]


def ended(number: int, **changes: object) -> RankInfo:
    values = {"key": f"ended-{number}-{changes.get('job')}-{changes.get('run')}", **changes}
    return make_rank(number, state=RankState.EXITED, **values)


LIVE = make_rank(0)
DEAD = ended(1)
BEFORE = ended(2, run="before")
ELSEWHERE = ended(3, job="4710.0")
STOCK = ended(0, job="classic", address="gpu013:?1")
KNOWN = (LIVE, DEAD, BEFORE, ELSEWHERE, STOCK)


def shown(text: str | None, *, with_exited: bool, known: tuple[RankInfo, ...] = KNOWN) -> list[RankInfo]:
    target = parse_target(text) if text is not None else None
    found = select(target, known, any_job=True).ranks if target is not None else ()
    return listed(known, target, found, with_exited=with_exited)


def test_list_shows_live_ranks_and_those_that_ended_in_their_run() -> None:
    assert there(KNOWN) == [LIVE]
    assert shown(None, with_exited=False) == [LIVE, DEAD]
    assert shown("all", with_exited=False) == [LIVE, DEAD]
    assert shown("1", with_exited=False) == [DEAD]
    assert shown("stopped", with_exited=False) == [LIVE]
    assert shown("3", with_exited=False) == []


def test_all_adds_exited_ranks_of_live_jobs() -> None:
    assert shown(None, with_exited=True) == [LIVE, DEAD, BEFORE, STOCK]
    assert shown("all", with_exited=True) == [LIVE, DEAD, BEFORE, STOCK]
    assert exited(KNOWN, None) == [DEAD, BEFORE, STOCK]


def test_all_adds_exited_ranks_of_named_jobs() -> None:
    assert set(shown("*/all", with_exited=True)) == set(KNOWN)
    assert shown("4710.0/all", with_exited=True) == [ELSEWHERE]
    assert shown("47*/3", with_exited=True) == [ELSEWHERE]


def classic(rows: int, columns: int, *, address: str = "gpu013:?1") -> Attachment:
    rank = make_rank(1, address=address, where=None)
    attachment = Attachment(rank, Mode.DRIVE, (23, 80), colors=256)
    attachment.attach()
    session = SessionInfo(number=1, engine="pudb", rows=rows, columns=columns)
    report = make_report(session=session)
    attachment.message(Seat(rank=rank, report=report, generation=1, driver="me@here", watchers=0), 0.0)
    return attachment


@pytest.mark.parametrize(("rows", "columns", "cut"), [(72, 80, True), (23, 81, True), (23, 80, False), (0, 0, False)])
def test_window_is_cropped_while_it_is_too_small(rows: int, columns: int, cut: bool) -> None:
    attachment = classic(rows, columns)
    shown = status_of(attachment, Others(), 1000.0, prefix="", pending=False)
    assert shown.cropped == cut
    attachment.resize(72, 240, 1001.0)
    assert status_of(attachment, Others(), 1001.0, prefix="", pending=False).notice == ""
