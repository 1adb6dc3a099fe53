"""The caller that a full classic port sends away: first one that shows nothing, then the last of the largest party."""

from __future__ import annotations

import os
import socket
from dataclasses import replace

from dbg_broker.classic.callers import (
    MAX_CALLERS,
    MAX_CALLERS_OF_ONE,
    MIN_DRAWN,
    OURS,
    Caller,
    party_of,
    user_of,
    who_goes,
)

NEW = Caller(number=1000, party="10.0.0.9", drawn=0, is_listed=False, is_attended=False, is_fresh=True)


def callers(count: int, first: int = 1, **changes: object) -> list[Caller]:
    known = replace(NEW, is_fresh=False, **changes)  # type: ignore[arg-type]
    return [replace(known, number=first + number) for number in range(count)]


def drawn(count: int, first: int = 1, **changes: object) -> list[Caller]:
    return callers(count, first, **{"drawn": MIN_DRAWN, "is_listed": True, **changes})


def test_nobody_goes_while_there_is_room() -> None:
    assert who_goes([], NEW) is None
    assert who_goes(drawn(MAX_CALLERS_OF_ONE - 1), NEW) is None
    assert who_goes(drawn(MAX_CALLERS - 1, party=OURS), replace(NEW, party=OURS)) is None


def test_the_silent_go_before_the_thin_and_these_before_those_that_just_came() -> None:
    silent, thin, fresh = callers(1, 30)[0], callers(1, 20, is_listed=True)[0], replace(NEW, number=10)
    full = drawn(MAX_CALLERS, 100)
    assert who_goes([*full, fresh, thin, silent], NEW) is silent
    assert who_goes([*full, fresh, thin], NEW) is thin
    assert who_goes([*full, fresh], NEW) is fresh


def test_a_thin_session_with_a_terminal_stays() -> None:
    thin = callers(1, is_listed=True, is_attended=True)
    assert who_goes([*thin, *drawn(MAX_CALLERS, 100)], NEW) is NEW


def test_strangers_go_before_our_own() -> None:
    mine, theirs = callers(1, 1, party=OURS)[0], callers(1, 2)[0]
    assert who_goes([mine, theirs, *drawn(MAX_CALLERS, 100)], NEW) is theirs


def test_one_party_has_a_part_of_the_room() -> None:
    crowd = drawn(MAX_CALLERS_OF_ONE)
    assert who_goes(crowd, NEW) is NEW
    assert who_goes(crowd, replace(NEW, party="10.0.0.8")) is None
    silent = callers(1, 70)[0]
    assert who_goes([*crowd, silent], NEW) is silent


def test_parties_that_fill_the_room_make_place_for_another() -> None:
    crowds = [
        caller
        for party in range(MAX_CALLERS // MAX_CALLERS_OF_ONE)
        for caller in drawn(MAX_CALLERS_OF_ONE, 1 + party * MAX_CALLERS_OF_ONE, party=f"10.0.0.{party}")
    ]
    goes = who_goes(crowds, replace(NEW, party=OURS))
    assert goes is not None
    assert goes.number == MAX_CALLERS_OF_ONE, "the last of the largest party"


def test_no_session_of_our_own_goes_for_a_stranger() -> None:
    assert who_goes(drawn(MAX_CALLERS, party=OURS), NEW) is NEW


def test_the_kernel_names_the_user_at_the_other_end() -> None:
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        with socket.socket(family) as listener:
            listener.bind((host, 0))
            listener.listen()
            with socket.create_connection(listener.getsockname()[:2]) as calling:
                accepted, peer = listener.accept()
                with accepted:
                    own = accepted.getsockname()
                    assert user_of(peer[:2], own[:2]) == os.geteuid()
                    assert party_of(peer, own, os.geteuid()) == (f"user {os.geteuid()}", True)
                    assert party_of(peer, own, os.geteuid() + 1)[1] is False
                assert calling


def test_a_mapped_address_is_looked_for_as_what_it_maps() -> None:
    with socket.socket(socket.AF_INET6) as listener:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind(("::", 0))
        listener.listen()
        with socket.create_connection(("127.0.0.1", listener.getsockname()[1])):
            accepted, peer = listener.accept()
            with accepted:
                assert peer[0] == "::ffff:127.0.0.1"
                assert party_of(peer, accepted.getsockname(), os.geteuid()) == (f"user {os.geteuid()}", True)


def test_other_hosts_are_known_by_their_addresses() -> None:
    assert party_of(("10.0.0.7", 5), ("10.0.0.1", 6899), 0) == ("10.0.0.7", False)
    assert party_of(None, None, 0) == ("?", False)
    assert user_of(("127.0.0.1", 1), ("127.0.0.1", 2)) is None
