"""All words of verdicts of `why` as placeholders, as if its sentences were in another language."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from dbg_client.why import reasons, sentences, show, wait_text
from dbg_client.why.explain import Explanation, JobLook, explain
from dbg_client.why.show import show_verdicts

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


@contextmanager
def placeholders() -> Iterator[None]:
    """Put a placeholder in place of each template."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name in TABLES:
            patch.setattr(module, name, {key: str(number) for number, key in enumerate(getattr(module, name))})
        yield


def facts(found: Explanation) -> tuple[object, ...]:
    """Return what is decided, and show it, as a user has it."""
    show_verdicts(found.verdicts, color=False)
    topics = [(one.finding.topic, one.headline and one.headline.topic) for one in found.verdicts]
    return found.verdicts, topics, found.missing, found.is_settled


def explained_alike(looks: Sequence[JobLook], now: float) -> Explanation:
    """Return the verdicts, which are the same whatever language the sentences are in."""
    found = explain(looks, now)
    told = facts(found)
    with placeholders():
        assert facts(explain(looks, now)) == told
    return found
