"""The stories of docs/numbers.md: each command is typed, and prints what the page shows."""

from __future__ import annotations

import re
import shlex
import shutil

import pytest

from tests.docs.console import Step, agree, shown, steps
from tests.docs.pages import ROOT
from tests.support.broker import running_broker
from tests.support.launchers import torchrun
from tests.support.ranks import attach, wait_until_stopped
from tests.support.requirements import needs_torch
from tests.support.runs import Directory
from tests.support.time_unit import seconds

pytestmark = [needs_torch, pytest.mark.timeout(seconds(240))]

TORCH_SECONDS = 90.0
"""Seconds for launcher and ranks to import torch: 10 on two idle cores, several times that beside other tests."""

STORY = re.compile(r"^<!-- story: (?P<name>\w+) -->\n```text\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
STORIES = {found["name"]: found["text"] for found in STORY.finditer((ROOT / "docs/numbers.md").read_text())}


def arguments(step: Step) -> list[str]:
    """Return the words after ``dbg-attach``, with a rendezvous of the test's own for torchrun."""
    words = shlex.split(step.command)[1:]
    if "torchrun" not in words:
        return words
    place = words.index("torchrun")
    return [*words[:place], *torchrun(int(words[place + 2]), *words[place + 3 :])]


def start(directory: Directory, words: list[str], *, stops: bool) -> None:
    """Run a job until one of its ranks has stopped, or to its end."""
    environ = {**directory.variables, "OMP_NUM_THREADS": "1"}
    job = directory.processes.start("run", directory.command(*words[1:]), env=environ)
    if stops:
        wait_until_stopped(directory.home, 1, seconds(TORCH_SECONDS))
    else:
        assert job.wait(seconds(TORCH_SECONDS)) == 0, job.text()


@pytest.mark.parametrize("name", STORIES)
def test_a_story_of_the_page(directory: Directory, name: str) -> None:
    running_broker(directory.processes, directory.home)
    (directory.path / "examples").mkdir()
    shutil.copy(ROOT / "examples/wrong_numbers.py", directory.path / "examples")
    for step in steps(STORIES[name]):
        words = arguments(step)
        if words[0] == "run":
            start(directory, words, stops="--stop-at" in words)
            continue
        # Files of a recorded run are named as they are typed, in the directory of the test.
        typed = [str(directory.path / word) if (directory.path / word).is_dir() else word for word in words]
        printed = attach(directory.home, *typed)
        assert agree(step.output, printed.stdout.splitlines()), shown([(step, printed.stdout.splitlines())])
