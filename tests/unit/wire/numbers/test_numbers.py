"""Recorded numbers: their frames, hostile files, and the comparison of two runs."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator

import msgspec
import pytest

from dbg_wire.limits import MAX_TEXT
from dbg_wire.numbers.compare import TwoRuns, compare_runs
from dbg_wire.numbers.rows import INVALID, Numbers, StepNumbers, WatchedTensor, encode_step, read_steps
from dbg_wire.records.numbers import Suspect

OUTPUT, GRADIENT, PARAMETER = Suspect.OUTPUT, Suspect.GRADIENT, Suspect.PARAMETER

Row = tuple[Suspect, str, float]


def tensor(
    suspect: Suspect = OUTPUT, name: str = "up", call: int = 1, shape: tuple[int, ...] = (2, 3)
) -> WatchedTensor:
    return WatchedTensor(suspect=suspect, name=name, call=call, shape=shape)


def numbers(
    norm: float = 1.0,
    low: float = -0.5,
    high: float = 0.5,
    wrong: int = 0,
    digest: int = 1,
    dtype: str = "float32",
) -> Numbers:
    return Numbers(norm=norm, minimum=low, maximum=high, nonfinite=wrong, digest=digest, dtype=dtype)


def step(number: int, *rows: Row) -> StepNumbers:
    return StepNumbers(number, {tensor(suspect, name): numbers(norm, -norm, norm) for suspect, name, norm in rows})


def compared(first: list[StepNumbers], second: list[StepNumbers], *, exact: bool = False) -> TwoRuns:
    return compare_runs({0: iter(first)}, {0: iter(second)}, exact=exact)


def written(*steps: StepNumbers) -> bytes:
    indices: dict[WatchedTensor, int] = {}
    return b"".join(encode_step(step, indices) for step in steps)


def framed(value: object) -> bytes:
    data = msgspec.msgpack.encode(value)
    return len(data).to_bytes(4, "big") + data


def test_steps_are_read_as_written_and_a_row_takes_about_50_bytes() -> None:
    many = {tensor(call=call): numbers(call / 3, digest=-(2**63) + call) for call in range(1000)}
    odd = numbers(math.inf, -math.inf, math.inf, 3, 2**63 - 1)
    steps = [StepNumbers(1, many), StepNumbers(2, {**many, tensor(PARAMETER, "", shape=()): odd}), StepNumbers(2, {})]
    content = written(*steps)

    assert list(read_steps(io.BytesIO(content))) == steps
    assert len(content) - len(written(steps[0])) < 55 * len(many)
    # The rank was killed in the middle of a write.
    assert list(read_steps(io.BytesIO(content[:-7]))) == steps[:2]
    assert list(read_steps(io.BytesIO(written(steps[0])[:-1]))) == []


@pytest.mark.parametrize(
    "content",
    [
        b"A text of somebody else.",
        b"\xff\xff\xff\xff",
        framed([1, [], [[0, [1.0, 1.0, 1.0, 0, 0, "float32"]]]]),
        framed([1, [["output", "up", 0, [2]]], [[1, [1.0, 1.0, 1.0, 0, 0, "float32"]]]]),
        framed([1, [["nonsense", "up", 0, [2]]], []]),
        framed([1, [["output", "u" * (MAX_TEXT + 1), 0, [2]]], []]),
        framed([-1, [], []]),
        framed("text"),
        b"\x00\x00\x00\x01\xc1",
    ],
)
def test_hostile_files_are_rejected(content: bytes) -> None:
    with pytest.raises(INVALID):
        list(read_steps(io.BytesIO(content)))


def test_rounding_depends_on_the_dtype_and_exact_compares_digests() -> None:
    nan = numbers(math.nan, math.nan, math.nan, 3)
    cases = [
        ("float64", numbers(), numbers(1 + 1e-8), True, False),
        ("float64", numbers(), numbers(1 + 1e-10), False, False),
        ("float32", numbers(), numbers(1 + 1e-4), True, False),
        ("float32", numbers(), numbers(1 + 1e-6), False, False),
        ("bfloat16", numbers(), numbers(1.1), True, False),
        ("bfloat16", numbers(), numbers(1 + 1e-3), False, False),
        ("float8_e4m3fn", numbers(), numbers(1.05), False, False),
        ("float32", numbers(), numbers(digest=2), False, True),
        ("float32", numbers(), numbers(high=0.6), True, False),
        ("float32", numbers(low=0.0), numbers(low=-1e-7), False, False),
        ("float32", numbers(0.0, 0.0, 0.0), numbers(0.0, 0.0, 0.0), False, False),
        ("float32", nan, nan, False, False),
        ("float32", nan, numbers(), True, False),
        ("float32", numbers(math.inf), numbers(math.inf), False, False),
        ("float32", numbers(math.inf), numbers(), True, False),
    ]
    for case in cases:
        dtype, first, second, *expected = case
        steps = [StepNumbers(1, {tensor(): one.replace(dtype=dtype)}) for one in (first, second)]
        found = [compared(steps[:1], steps[1:], exact=exact).difference for exact in (False, True)]
        assert [one is not None for one in found] == expected, case
        assert all(one.text for one in found if one is not None)
    # The coarser of two dtypes decides.
    coarse = StepNumbers(1, {tensor(): numbers(1.001, -1.001, 1.001, dtype="bfloat16")})
    assert compared([step(1, (OUTPUT, "up", 1.0))], [coarse]).difference is None


def test_noise_in_a_gradient_that_is_nearly_zero_is_no_difference() -> None:
    first, second = (step(1, (GRADIENT, "bias", noise), (GRADIENT, "weight", 1.0)) for noise in (1e-9, 3e-9))
    assert compared([first], [second]).difference is None
    assert compared([step(1, (PARAMETER, "bias", 1e-9))], [step(1, (PARAMETER, "bias", 3e-9))]).difference is not None


def test_the_first_difference_is_the_earliest_of_all_ranks_and_unmatched_tensors_are_named() -> None:
    def run(
        worst: dict[tuple[int, int], float], ranks: range, extra: str, begins: int = 1
    ) -> dict[int, Iterator[StepNumbers]]:
        return {
            rank: iter(
                [
                    step(
                        number,
                        (OUTPUT, "up", 1.0),
                        (OUTPUT, extra, 1.0),
                        (GRADIENT, "up.weight", worst.get((rank, number), 1.0)),
                        (PARAMETER, "up.weight", worst.get((rank, number), 1.0)),
                    )
                    for number in range(begins, 8)
                ]
            )
            for rank in ranks
        }

    second = {(0, 6): 3.0, (1, 5): 2.0, (2, 4): 1 + 1e-6, (3, 5): 2.0, (4, 1): 9.0}
    found = compare_runs(run({}, range(4), "old"), run(second, range(5), "new", begins=3), exact=False)

    assert found.difference is not None
    first = found.difference
    assert (first.step, first.suspect, first.name) == (5, GRADIENT, "up.weight")
    assert (first.measure, first.before, first.after) == ("norm", 1.0, 2.0)
    assert (found.ranks, found.compared, found.unmatched) == ((1, 3), (0, 1, 2, 3), 8)
    # Tensors of another shape, and steps of only one run, have nothing to compare.
    other = StepNumbers(1, {tensor(shape=(9,)): numbers(5.0)})
    assert compared([step(1, (OUTPUT, "up", 1.0))], [other]).tensors == 0
    assert compared([step(1, (OUTPUT, "up", 1.0))], [step(2, (OUTPUT, "up", 9.0))]).tensors == 0
