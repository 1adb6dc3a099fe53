"""`why` decides the same whatever language its sentences are in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbg_client.after.case_file import CaseFile
from dbg_client.why import reasons, sentences, show, wait_text
from dbg_client.why.explain import Case, Explanation, JobLook, explain
from dbg_client.why.show import show_verdicts
from tests.unit.client.why.test_explain import NOW, ranks
from tests.unit.client.why.test_recorded_jobs import CASES

TABLES = (
    (sentences, "TEMPLATES"),
    (sentences, "SEVERAL"),
    (reasons, "STATES"),
    (reasons, "CLAUSES"),
    (show, "LINES"),
    (show, "PURPOSES"),
    (wait_text, "_TEMPLATES"),
    (wait_text, "_OF_TARGETS"),
)
"""All words of verdicts."""


def facts(found: Explanation) -> tuple[object, ...]:
    """Return what is decided, and show it, as a user has it."""
    show_verdicts(found.verdicts, color=False)
    topics = [(one.finding.topic, one.headline and one.headline.topic) for one in found.verdicts]
    return found.verdicts, topics, found.missing, found.is_settled


@contextmanager
def placeholders() -> Iterator[None]:
    """Put a placeholder in place of each template."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name in TABLES:
            patch.setattr(module, name, {key: str(number) for number, key in enumerate(getattr(module, name))})
        yield


def decided(case: Case) -> list[tuple[object, ...]]:
    """Return what is decided of each look alone, and of all."""
    return [*(facts(explain([look], case.now)) for look in case.looks), facts(case.explanation())]


def test_recorded_hangs_are_decided_alike() -> None:
    cases = [msgspec.convert(json.loads(path.read_text())["case"], CaseFile).case for path in CASES]
    told = list(map(decided, cases))
    with placeholders():
        assert list(map(decided, cases)) == told


@settings(deadline=None, max_examples=10)
@given(st.tuples(*(ranks(number) for number in range(4))), st.tuples(*(ranks(number) for number in range(4))))
def test_whatever_ranks_tell_is_decided_alike(before: tuple[object, ...], now: tuple[object, ...]) -> None:
    looks = [JobLook(at=at, everybody=some) for at, some in ((0.0, before), (5.0, now))]  # type: ignore[arg-type]
    told = facts(explain(looks, NOW))
    with placeholders():
        assert facts(explain(looks, NOW)) == told
