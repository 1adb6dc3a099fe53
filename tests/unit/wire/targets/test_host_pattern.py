from __future__ import annotations

import fnmatch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dbg_wire.errors import BadTarget
from dbg_wire.targets.host_pattern import MAX_HOST, parse_host

unhurried = settings(deadline=None)


@pytest.mark.parametrize(
    ("pattern", "hosts", "others"),
    [
        ("gpu013", ["gpu013"], ["gpu13", "GPU013", "gpu0133", ""]),
        ("10.0.0.7", ["10.0.0.7"], ["10.0.0.70", "10a0.0.7"]),
        ("gpu[01-04,07]", ["gpu01", "gpu04", "gpu07"], ["gpu1", "gpu05", "gpu007", "gpu"]),
        ("gpu[8-12]", ["gpu8", "gpu10", "gpu12"], ["gpu08", "gpu13"]),
        ("gpu[098-101]", ["gpu098", "gpu100", "gpu101"], ["gpu98", "gpu0100"]),
        ("r[1-2]n[01-02].x", ["r1n02.x", "r2n01.x"], ["r1n2.x", "r3n01.x", "r1n01"]),
        ("gpu*", ["gpu", "gpu1", "gpu.a-b"], ["xgpu", "gp"]),
        ("*", ["", "anything"], []),
        ("*[01-04]", ["x101", "x01", "01"], ["x05", "x1"]),
        ("[007]", ["007"], ["7", "07"]),
    ],
)
def test_fits(pattern: str, hosts: list[str], others: list[str]) -> None:
    parsed = parse_host(pattern)
    assert [host for host in hosts + others if parsed.fits(host)] == hosts


@pytest.mark.parametrize(
    ("pattern", "exact"),
    [
        ("gpu013", "gpu013"),
        ("[007]", "007"),
        ("gpu[01]", "gpu01"),
        ("rack[2]-gpu[07-07].local", "rack2-gpu07.local"),
        ("gpu*", None),
        ("gpu[01]*", None),
        ("[1-2]", None),
        ("gpu[1,2]", None),
    ],
)
def test_knows_a_pattern_for_one_host(pattern: str, exact: str | None) -> None:
    assert parse_host(pattern).exact == exact


@pytest.mark.parametrize(
    ("pattern", "named"),
    [
        ("gpu[01-04", "open bracket"),
        ("gpu01]", "']'"),
        ("gpu 1", "' '"),
        ("gpu\x1b", r"'\x1b'"),
        ("gpü", "'ü'"),
        ("gpu[]", "'[]'"),
        ("gpu[a-c]", "'[a-c]'"),
        ("gpu[1,,2]", "'[1,,2]'"),
        ("gpu[04-01]", "'04-01'"),
        ("gpu[1-9999999999]", "'[1-9999999999]'"),
        ("x" * (MAX_HOST + 1), str(MAX_HOST)),
    ],
)
def test_refuses_by_name(pattern: str, named: str) -> None:
    with pytest.raises(BadTarget) as caught:
        parse_host(pattern)
    assert named in str(caught.value)
    assert str(caught.value).isprintable()


def test_many_stars_do_not_make_matching_slow() -> None:
    pattern = parse_host("*a" * 120)
    assert not pattern.fits("a" * 119 + "b")
    assert pattern.fits("a" * 200)
    assert not pattern.fits("a" * (MAX_HOST + 1))


@unhurried
@given(st.text("ab*", min_size=1, max_size=8), st.text("ab", max_size=8))
@example("*a*b*", "ab")
def test_agrees_with_globbing(pattern: str, host: str) -> None:
    assert parse_host(pattern).fits(host) == fnmatch.fnmatchcase(host, pattern)


@unhurried
@given(st.integers(0, 120), st.integers(0, 120), st.integers(1, 4), st.integers(0, 130), st.integers(1, 4))
def test_a_bracket_is_its_numbers_written_out(first: int, more: int, width: int, asked: int, digits: int) -> None:
    low = str(first).zfill(width)
    written_out = {f"n{str(number).zfill(len(low))}x" for number in range(first, first + more + 1)}
    host = f"n{str(asked).zfill(digits)}x"
    assert parse_host(f"n[{low}-{first + more}]x").fits(host) == (host in written_out)
