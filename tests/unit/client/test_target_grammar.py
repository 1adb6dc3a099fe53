"""Targets as a person types them: terms, patterns of hosts and sets of ranks are read, or refused by name."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dbg_command.targets import (
    MAX_HOST,
    MAX_TERMS,
    Classic,
    Group,
    Numbers,
    Target,
    Term,
    What,
    Word,
    parse_host,
    parse_target,
)
from dbg_wire.errors import BadTarget
from dbg_wire.rank_set import parse_ranks
from tests.conftest import Approved

unhurried = settings(deadline=None)


def numbers(text: str, *children: tuple[int, int]) -> Numbers:
    return Numbers(parse_ranks(text) if text else frozenset(), frozenset(children))


def term(what: What, job: str | None = None, host: str | None = None, pid: int | None = None) -> Term:
    return Term(what=what, job=job, host=parse_host(host) if host else None, pid=pid)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("all", term(Word.ALL)),
        ("stopped", term(Word.STOPPED)),
        ("5", term(numbers("5"))),
        (" 5 ", term(numbers("5"))),
        ("0-3,5", term(numbers("0-3,5"))),
        ("0-3, 5", term(numbers("0-3,5"))),
        ("0-1023/8", term(numbers("0-1023/8"))),
        ("0:8", term(numbers("8"), host="0")),
        ("5.1", term(numbers("", (5, 1)))),
        ("gpu013:*", term(Word.ALL, host="gpu013")),
        ("gpu013:5", term(numbers("5"), host="gpu013")),
        ("gpu013:5.1", term(numbers("", (5, 1)), host="gpu013")),
        ("gpu013:0-3,5", term(numbers("0-3,5"), host="gpu013")),
        ("gpu[01-04,07]:*", term(Word.ALL, host="gpu[01-04,07]")),
        ("gpu*:0", term(numbers("0"), host="gpu*")),
        ("123456789012:5,6", term(numbers("5-6"), host="123456789012")),
        ("[12]:34", term(numbers("34"), host="[12]")),
        ("host:?1", term(Classic("?1"), host="host")),
        ("?1", term(Classic("?1"))),
        ("job/all", term(Word.ALL, job="job")),
        ("job/5,6", term(numbers("5-6"), job="job")),
        ("4711.0/gpu013:5", term(numbers("5"), job="4711.0", host="gpu013")),
        ("0-7/2", term(numbers("0-7/2"))),
        ("0-7/:2", term(numbers("2"), job="0-7")),
        ("job/gpu013:5@4711", term(numbers("5"), job="job", host="gpu013", pid=4711)),
        ("gpu013:5.1@4711", term(numbers("", (5, 1)), host="gpu013", pid=4711)),
        ("@2", term(Group("@2"))),
        ("@err", term(Group("@err"))),
        ("@?", term(Group("@?"))),
    ],
)
def test_reads_one_term(text: str, expected: Term) -> None:
    assert parse_target(text) == Target(text=text, include=(expected,))


@pytest.mark.parametrize(
    ("text", "include", "exclude"),
    [
        ("!5", [term(Word.ALL)], [term(numbers("5"))]),
        ("!0-3,5", [term(Word.ALL)], [term(numbers("0-3,5"))]),
        ("!job/5", [term(Word.ALL, job="job")], [term(numbers("5"), job="job")]),
        ("job/!5", [term(Word.ALL, job="job")], [term(numbers("5"), job="job")]),
        ("job/!5,6,job/!gpu013:7", [term(Word.ALL, job="job")], [
            term(numbers("5-6"), job="job"), term(numbers("7"), job="job", host="gpu013")]),
        ("all,!0-3,5", [term(Word.ALL)], [term(numbers("0-3,5"))]),
        ("!5,stopped", [term(Word.STOPPED)], [term(numbers("5"))]),
        ("stopped,held", [term(Word.STOPPED), term(Word.HELD)], []),
        ("gpu013:0,:5", [term(numbers("0"), host="gpu013"), term(numbers("5"))], []),
        ("a:5,123456789012:5", [term(numbers("5"), host="a"), term(numbers("5"), host="123456789012")], []),
        ("@2,@err", [term(Group("@2")), term(Group("@err"))], []),
        ("@2,5", [term(Group("@2")), term(numbers("5"))], []),
        ("!@2", [term(Word.ALL)], [term(Group("@2"))]),
        ("gpu[1,2]:0,b:1", [term(numbers("0"), host="gpu[1,2]"), term(numbers("1"), host="b")], []),
    ],
)  # fmt: skip
def test_reads_several_terms(text: str, include: list[Term], exclude: list[Term]) -> None:
    assert parse_target(text) == Target(text=text, include=tuple(include), exclude=tuple(exclude))


@pytest.mark.parametrize(
    ("text", "single"),
    [
        ("host:5", True),
        ("5", True),
        (":5", True),
        ("host:5@4711", True),
        ("host:?1", True),
        ("*/host:5", False),
        ("host[1-2]:5", False),
        ("host:*", False),
        ("host:5,6", False),
        ("all", False),
        ("!5", False),
        ("5,!6", False),
    ],
)
def test_form_shows_whether_one_rank_is_named(text: str, single: bool) -> None:
    assert parse_target(text).single is single


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("gpu013", "write gpu013:* "),
        ("*", "write all"),
        ("gpu013:", "write gpu013:* for all ranks"),
        ("tcp://127.0.0.1:4444", "write host:rank"),
        ("", ""),
        ("all,,5", ""),
        ("job/", ""),
        ("!", ""),
        ("@", ""),
        ("gpu013:@2", ""),
        ("@2@4711", ""),
        ("my job/5", "job/gpu013:5"),
        ("a/b/c:5", ""),
        ("gpu[01-04:5", ""),
        ("gpu013:x", ""),
        ("gpu013:0:8", ""),
        ("gpu013:1,gpu014:2-", ""),
        ("5.1.2", ""),
        ("all@5", ""),
        ("5@", ""),
        ("5@12345678901", ""),
        ("x\x1b[2J", ""),
        ("gpu:\x9b5", ""),
        ("0-99999999", ""),
    ],
)
def test_bad_target_is_refused_with_a_remedy(approved: Approved, text: str, remedy: str) -> None:
    with pytest.raises(BadTarget) as caught:
        parse_target(text)
    approved(str(caught.value))
    assert remedy in caught.value.remedy
    assert str(caught.value).isprintable()


def test_too_many_terms_are_refused() -> None:
    assert len(parse_target(",".join(["a:1"] * MAX_TERMS)).include) == MAX_TERMS
    with pytest.raises(BadTarget, match=f"{MAX_TERMS + 1} terms"):
        parse_target(",".join(["a:1"] * (MAX_TERMS + 1)))


def test_a_long_list_of_numbers_is_one_term() -> None:
    assert len(parse_target(",".join(str(number) for number in range(0, 4 * MAX_TERMS, 2))).include) == 1


@unhurried
@given(st.text(max_size=30) | st.text("ab019!*/@:?.,-[] \x1b", max_size=14))
@example("[" * 300)
@example("\ud800:5")
@example("9" * 5000)
@example("9" * 5000 + ":" + "9" * 5000)
@example("a:1@" + "9" * 5000)
@example("a[1-" + "9" * 5000 + "]:1")
def test_any_text_is_parsed_or_refused(text: str) -> None:
    target = parsed_or_refused(text)
    if isinstance(target, BadTarget):
        assert str(target).isprintable()
    else:
        assert target.text == text
        assert target.include


def parsed_or_refused(text: str) -> Target | BadTarget:
    try:
        return parse_target(text)
    except BadTarget as error:
        return error


@pytest.mark.parametrize(
    ("pattern", "hosts", "others"),
    [
        ("gpu013", ["gpu013"], ["gpu13", "GPU013", "gpu0133", ""]),
        ("10.0.0.7", ["10.0.0.7"], ["10.0.0.70", "10a0.0.7"]),
        ("gpu[01-04,07]", ["gpu01", "gpu04", "gpu07"], ["gpu1", "gpu05", "gpu007", "gpu"]),
        ("gpu[098-101]", ["gpu098", "gpu100", "gpu101"], ["gpu98", "gpu0100"]),
        ("r[1-2]n[01-02].x", ["r1n02.x", "r2n01.x"], ["r1n2.x", "r3n01.x", "r1n01"]),
        ("gpu*", ["gpu", "gpu1", "gpu.a-b"], ["xgpu", "gp"]),
        ("*", ["", "anything"], []),
        ("*[01-04]", ["x101", "x01", "01"], ["x05", "x1"]),
        ("[007]", ["007"], ["7", "07"]),
    ],
)
def test_pattern_matches_hosts(pattern: str, hosts: list[str], others: list[str]) -> None:
    parsed = parse_host(pattern)
    assert [host for host in hosts + others if parsed.fits(host)] == hosts


@pytest.mark.parametrize(
    ("pattern", "exact"),
    [
        ("gpu013", "gpu013"),
        ("gpu*", None),
        ("gpu[01]*", None),
        ("gpu[1,2]", None),
    ],
)
def test_pattern_for_one_host_is_recognized(pattern: str, exact: str | None) -> None:
    assert parse_host(pattern).exact == exact


@pytest.mark.parametrize(
    ("pattern", "named"),
    [
        ("gpu[01-04", "unclosed bracket"),
        ("gpu01]", "']'"),
        ("gpu 1", "' '"),
        ("gpu\x1b", r"'\x1b'"),
        ("gpü", "'ü'"),
        ("gpu[a-c]", "'[a-c]'"),
        ("gpu[04-01]", "'04-01'"),
        ("gpu[1-9999999999]", "'[1-9999999999]'"),
        ("x" * (MAX_HOST + 1), str(MAX_HOST)),
    ],
)
def test_bad_host_pattern_is_refused_by_name(pattern: str, named: str) -> None:
    with pytest.raises(BadTarget) as caught:
        parse_host(pattern)
    assert named in str(caught.value)
    assert str(caught.value).isprintable()


def test_many_stars_do_not_make_matching_slow() -> None:
    pattern = parse_host("*a" * 120)
    assert not pattern.fits("a" * 119 + "b")
    assert pattern.fits("a" * 200)
    assert not pattern.fits("a" * (MAX_HOST + 1))
