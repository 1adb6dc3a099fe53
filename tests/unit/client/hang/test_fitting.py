"""Sentences that are too long for two lines: what tells least goes first, and what waits is always told."""

from __future__ import annotations

import pytest

from dbg_client.hang.fitting import fits, fitted

SUBJECTS = ["rank 1 (gpu013)", "rank 1"]
VERB = "has not come to barrier #2 of default"
REST = "; 3 of 4 ranks wait since 1 h 41 min"


def said(reason: str, job: str = "train") -> str:
    sentence = fitted(job, SUBJECTS, VERB, reason, REST)
    assert fits(job, sentence)
    assert sentence.startswith("rank 1")
    assert sentence.endswith(REST)
    return sentence.removesuffix(REST).partition(f"{VERB}: ")[2]


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("a lock", "a lock"),
        (
            "DataLoader's worker 0 (process 5344), which in text_shards.py:13 __getitem__ waits for its lock",
            "DataLoader's worker 0, which in text_shards.py:13 __getitem__ waits for its lock",
        ),
        (
            "room in the queue batches of thread up, which ended by ValueError: bad batch (u.py:176) 6 s ago",
            "room in the queue batches of thread up, which ended by ValueError: bad batch (u.py:176)",
        ),
        (
            "a lock; rank 2 was killed by SIGKILL, 1 h 3 min ago, as was rank 3, 12 s ago, and rank 4, 1 d ago, too",
            "a lock; rank 2 was killed by SIGKILL, as was rank 3, and rank 4, too",
        ),
        (
            "the end of the process 23039 (`python prepare.py /data/of/a/run --all`), which reads the Queue",
            "the end of the process 23039 (`python prepare.p…`), which reads the Queue",
        ),
        (
            "its task main, which waits for 2 tasks roll (a.py:135), one of which waits for a semaphore of it",
            "its task main, which waits for 2 tasks roll, one of which waits for a semaphore of it",
        ),
        (
            "the lock of the file /data/of/the/first/experiment/of/the/year/index.cache, which nobody has",
            "the lock of the file …/index.cache, which nobody has",
        ),
    ],
)
def test_what_tells_least_is_left_out(reason: str, told: str) -> None:
    assert said(f"it waits for {reason}") == f"it waits for {told}"


def test_a_text_without_end_loses_its_end() -> None:
    told = said("it waits for " + " and ".join(f"thing {number}" for number in range(100)))

    assert told.startswith("it waits for thing 0 and thing 1")
    assert told.endswith("…")


def test_what_fits_is_left_as_it_is() -> None:
    reason = "it waits for the process 7 (`sort big`), which sleeps"
    assert said(reason) == reason
    assert fitted("train", SUBJECTS, VERB) == f"rank 1 (gpu013) {VERB}"
