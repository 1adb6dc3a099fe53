"""Fit a sentence into two lines of a terminal: what tells least is left out first. Pure."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Sequence

from dbg_client.why.verdict import Certainty

COLUMNS = 100
"""Columns of a line, of which a sentence takes two."""

WORDS = (50, 24)
"""Characters of one word, such as a path, in a sentence, and in one that is too long."""

LEAST_WORDS = 3
"""Words of a part of a sentence that are kept in any case."""

_COMMAND = re.compile(r"`([^`]*)`")
"""The command line of a process."""

MAX_COMMAND = 16
"""Characters of a command line in a sentence that is too long."""

_OPENING = frozenset("([{`'\"")
"""What opens a bracket or a quotation, which is closed behind the end of the word."""

AGO = re.compile(r",? (?:made )?(?:\d+ (?:s|min|h|hours|d|days) )+ago")
"""When something happened."""

_BESIDE = re.compile(r" \((?:process \d+|`[^`]*`|same program|/dev/[^)]*)\)")
"""What a reader can find out by the name that stands before it."""


_PLACE = re.compile(r" \([^() ]+:\d+\)(?=, )")
"""A place in the code of what only waits for something else."""


_IN = re.compile(r"which in \S+:\d+ \S+ ")
"""The place in the code of another process."""

_FIRST = re.compile(r"^((?:it|each) ).*?, which (?=.*, (?:each of |one of )?which )")
"""The first of three waits that are for one another: what the last one is for says most."""


def fitted(job: str, subjects: Sequence[str], verb: str, reason: str = "", rest: str = "") -> str:
    """Join the parts of a sentence, with the first subject that leaves room, and as much of the reason as fits."""
    for shortened in _WAYS:
        verb, reason = shortened(verb), shortened(reason)
        for subject in subjects:
            sentence = f"{subject} {verb}{f': {reason}' if reason else ''}{rest}"
            if fits(job, sentence):
                return sentence
    if reason:
        return clipped(job, f"{subjects[-1]} {verb}: ", reason, rest)
    return clipped(job, f"{subjects[-1]} ", verb, rest)


def fits(job: str, sentence: str) -> bool:
    """Tell whether a sentence behind its job's name takes two lines at most; of a very long name it need not."""
    line = f"{job[: COLUMNS // 2]}: {sentence}"
    return len(line) <= COLUMNS or len(textwrap.wrap(line, COLUMNS, subsequent_indent="    ")) <= 2


def clipped(job: str, begin: str, text: str, rest: str = "") -> str:
    """Return a sentence whose middle is cut between words until it fits, or else its end."""
    words = text.split(" ")
    while len(words) > LEAST_WORDS and not fits(job, f"{begin}{' '.join(words)}…{rest}"):
        words.pop()
    short = " ".join(words).rstrip(" ,;:")
    sentence = f"{begin}{short}{'…' if short != text else ''}{rest}"
    return sentence if fits(job, sentence) else f"{sentence[:COLUMNS]}…"


def _with_words_of(longest: int) -> Callable[[str], str]:
    return lambda text: " ".join(_short(word, longest) for word in text.split(" "))


def _short(word: str, longest: int) -> str:
    """Return a word, such as a path, of which the end says most."""
    if len(word) <= longest:
        return word
    opening = word[:1] if word[:1] in _OPENING else ""
    _, slash, name = word.rpartition("/")
    if slash and len(name) <= longest:
        return f"{opening}…/{name}"
    end = word[len(opening) + 1 - longest :]
    whole = word[len(opening) - longest :].partition("_")[2]
    return f"{opening}…{whole if len(whole) > longest // 2 else end}"


def _short_command(found: re.Match[str]) -> str:
    command = found[1]
    return found[0] if len(command) <= MAX_COMMAND + 1 else f"`{command[:MAX_COMMAND]}…`"


_WAYS: tuple[Callable[[str], str], ...] = (
    _with_words_of(max(WORDS)),
    lambda text: _with_words_of(min(WORDS))(_COMMAND.sub(_short_command, text)),
    lambda text: AGO.sub("", text),
    lambda text: _BESIDE.sub("", text),
    lambda text: _PLACE.sub("", text),
    lambda text: _IN.sub("which ", text),
    lambda text: _FIRST.sub(r"\1", text),
)
"""How a text is shortened, each time more."""


def hedged(verb: str, certainty: Certainty | None) -> str:
    """Return a verb with its certainty: ``has likely not come``."""
    if certainty is not Certainty.LIKELY:
        return verb
    auxiliary = _AUXILIARY.match(verb)
    return f"{auxiliary[0]} likely{verb[auxiliary.end() :]}" if auxiliary is not None else f"likely {verb}"


_AUXILIARY = re.compile(r"(?:has|have)(?= not)|(?:is|are)\b")
"""The beginning of a verb behind which an adverb stands."""
