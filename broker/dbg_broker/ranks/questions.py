"""A question to many ranks: it has one deadline, gets an answer for each rank, and always ends.

Pure: time is an argument. A rank that does not answer is named in the answers as ``silent``, ``lost`` or ``running``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from sys import getsizeof

import msgspec

from dbg_broker.quotas import ByteBudget, TokenBucket
from dbg_wire import limits
from dbg_wire.codec import encode
from dbg_wire.messages import Action, Answer, Kind, Progress, Question, RankAnswer
from dbg_wire.records.record import encode_record

MAX_ANSWER_BYTES = limits.MAX_ANSWER_BYTES + 2048
"""Bytes of one answer with the rank's key."""

PAGE_BYTES = 64 * limits.KIB
"""Bytes of one page of answers, unless one answer is larger: it is made in two milliseconds."""

PAGE_ANSWERS = 50
"""Answers in one page: they are made in two milliseconds."""

LONG_BYTES = 4 * limits.KIB
"""Bytes of an answer that is kept even if memory lacks: a stack or a value, and no screen."""

RANK_COST = 300
"""Bytes that a rank costs a question beside its key and what it says: an entry, an answer and its empty parts."""

FOLDED_KEYS = 256
"""Ranks of one folded answer: their keys are some ten KiB."""

_NO_OTHERS = b',"also":[],"ages":[]}'
"""How the JSON text of one rank's RankAnswer ends, if it has all fields."""

_AGE = re.compile(rb',"age":(?:([0-9.e+-]+)|null)(?=,"at_least":|}\Z)')
"""The age of the answer itself in a body, by what follows it: what a rank tells beside its stack has ages as well.

No string has these bytes: a quote in one stands behind a backslash."""

MAX_TERMINAL_BYTES = 128 * limits.MIB
"""Bytes of answers that wait for one terminal, as they lie in memory: gathered for a question that is open, or not read
yet. 4096 ranks with a PuDB screen of 200 by 50 each come to 97 MB."""

MAX_BYTES = 256 * limits.MIB
"""Bytes for all terminals, twice the bound of one: a login node has other users, too."""

MAX_WAITING = 64
"""Ranks that have not answered and are named meanwhile: a line on a terminal has room for fewer."""

MIN_SECONDS = 0.05
"""Shortest deadline of a question: no rank can answer within less than a round trip."""


ASKS_PER_SECOND = 200
"""Questions to one rank in a second, and as many at once: a person's tools ask some ten for each step."""

MAX_OPEN_AT_RANK = 64
"""Questions that wait for one rank at once: each keeps a slot of the broker, and the rank answers one after another."""


class TooMuchWaits(Exception):
    """The terminal must read other answers before it asks for more."""

    def __str__(self) -> str:
        return f"answers of more than {MAX_TERMINAL_BYTES} bytes would wait for this terminal; read those there are"


@dataclass(slots=True)
class _OpenQuestion:
    """One open question; ``answers`` are the bodies of answers, in the order in which the ranks were named.

    A body is kept once in ``bodies``, however many ranks have answered it.
    """

    question: Question
    client: int
    seconds: float
    deadline: float
    answers: dict[str, bytes | None]
    missing: int
    size: int
    bodies: dict[bytes, bytes] = field(default_factory=dict)
    ages: dict[str, bytes] = field(default_factory=dict)
    """The ages of folded answers, which differ where all else of them is the same."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A question with all its answers; ``client`` asked it."""

    client: int
    question: Question
    said: Mapping[str, bytes | None] = field(repr=False)
    """The body of what each rank has answered, in the order in which they were named; None if it did not.

    A body is the JSON text of a RankAnswer behind its key.
    """
    seconds: float = 0.0
    """Seconds that the ranks had."""
    size: int = 0
    """Bytes that count until its last page is read."""
    number: int = 0
    """The number under which ranks were asked."""
    ages: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """The ages that are left out of the bodies of folded answers, as JSON."""

    def pages(self) -> Iterator[bytes]:
        """Return the answers as texts of `answers` messages, PAGE_BYTES each or one answer; the last one says so."""
        page: list[bytes] = []
        size = 0
        for keys, body in self._folded() if self.question.fold else self._each():
            text = with_keys(keys, body, [self.ages.get(key, b"null") for key in keys] if self.ages else ())
            if page and (size + len(text) > PAGE_BYTES - 1024 or len(page) == PAGE_ANSWERS):
                yield self._page(page, "false")
                page, size = [], 0
            page.append(text)
            size += len(text)
        yield self._page(page, "true")

    def _each(self) -> Iterator[tuple[Sequence[str], bytes]]:
        silent = b"" if all(self.said.values()) else self._silent()
        for key, body in self.said.items():
            yield (key,), body or silent

    def _folded(self) -> Iterator[tuple[Sequence[str], bytes]]:
        """Yield each answer with the ranks that have given it, FOLDED_KEYS of them at most."""
        silent = b"" if all(self.said.values()) else self._silent()
        keys: dict[bytes, list[str]] = {}
        for key, body in self.said.items():
            keys.setdefault(body or silent, []).append(key)
        for body, same in keys.items():
            for first in range(0, len(same), FOLDED_KEYS):
                yield same[first : first + FOLDED_KEYS], body

    def _silent(self) -> bytes:
        return body_of(RankAnswer(key="", kind=Kind.SILENT, text=f"no answer in {self.seconds:g} s"))

    def _page(self, answers: list[bytes], last: str) -> bytes:
        request = self.question.request
        return b'{"type":"answers","request":%d,"answers":[%s],"last":%s}' % (
            request,
            b",".join(answers),
            last.encode(),
        )


class OpenQuestions:
    """All open questions, each under a number that the broker gives it.

    ``lacks_memory`` returns why there is no memory for long answers now, empty if there is.
    """

    def __init__(self, lacks_memory: Callable[[], str] = str) -> None:
        self.budget: ByteBudget[int] = ByteBudget(MAX_BYTES)
        """Bytes of answers by terminal. At the bound of all, the terminal with most is closed."""
        self._lacks_memory = lacks_memory
        self._open: dict[int, _OpenQuestion] = {}
        self._asked: dict[str, set[int]] = {}
        self._last = 0

    def __len__(self) -> int:
        return len(self._open)

    def is_asked(self, key: str) -> bool:
        """Tell whether a question to this rank is open."""
        return key in self._asked

    def open_of(self, client: int) -> int:
        """Return how many questions of a terminal are open."""
        return sum(1 for question in self._open.values() if question.client == client)

    def numbers_of(self, client: int, action: Action) -> list[int]:
        """Return the numbers of a terminal's open questions for this action."""
        return [
            number
            for number, question in self._open.items()
            if question.client == client and question.question.action is action
        ]

    def waiting_for(self, actions: Collection[Action]) -> int:
        """Return how many answers are waited for, over all questions for these actions."""
        return sum(question.missing for question in self._open.values() if question.question.action in actions)

    def ask(self, client: int, question: Question, now: float) -> tuple[int, list[str]]:
        """Open a question, and return its number and the ranks that are to be asked, each once.

        Close the question with :meth:`finish` if no rank is to be asked. Raise TooMuchWaits if the terminal has to read
        other answers first.
        """
        size = sum(map(getsizeof, question.keys)) + RANK_COST * len(question.keys)
        if not self._count(client, size):
            raise TooMuchWaits
        self._last += 1
        seconds = max(MIN_SECONDS, min(question.seconds, limits.MAX_ASK_SECONDS))
        answers: dict[str, bytes | None] = dict.fromkeys(question.keys)
        to_ask = list(answers)
        self._open[self._last] = _OpenQuestion(question, client, seconds, now + seconds, answers, len(to_ask), size)
        for key in to_ask:
            self._asked.setdefault(key, set()).add(self._last)
        return self._last, to_ask

    def open_about(self, key: str) -> list[tuple[int, Question]]:
        """Return the open questions that wait for this rank's answer, with their numbers."""
        return [(number, self._open[number].question) for number in sorted(self._asked.get(key, ()))]

    def is_open(self, number: int) -> bool:
        """Tell whether a question has not ended."""
        return number in self._open

    def waits_for(self, number: int, key: str) -> bool:
        """Tell whether a question is open and has no answer of this rank."""
        return number in self._asked.get(key, ())

    def open_at(self, key: str) -> int:
        """Return how many open questions wait for this rank's answer."""
        return len(self._asked.get(key, ()))

    def answer_for_rank(self, number: int, answer: RankAnswer) -> Finished | None:
        """Enter what the broker says itself of a rank that is waited for; return the question if it was the last."""
        return self._settle(number, answer.key, body_of(answer))

    def deadline(self, number: int) -> float:
        """Return when a question ends at the latest."""
        return self._open[number].deadline

    def seconds(self, number: int) -> float:
        """Return how many seconds the ranks have for an open question."""
        return self._open[number].seconds

    def progress(self, number: int) -> tuple[int, Progress] | None:
        """Return the terminal of an open question and how far it is, None if it has ended."""
        question = self._open.get(number)
        if question is None:
            return None
        asked = len(question.answers)
        waiting = (key for key, answer in question.answers.items() if answer is None)
        return question.client, Progress(
            request=question.question.request,
            asked=asked,
            answered=asked - question.missing,
            waiting=tuple(islice(waiting, MAX_WAITING)),
        )

    def answer(self, key: str, number: int, body: bytes) -> Finished | None:
        """Take a rank's answer as :func:`passed_on` returns it, and return the question if that was the last one.

        Late and foreign ones are ignored.
        """
        question = self._open.get(number)
        if question is None or question.answers.get(key, body) is not None:
            return None
        if question.question.fold:
            body, age = without_age(body)
            if age is not None:
                question.ages[key] = age
        size = len(body) + len(key)
        if size > MAX_ANSWER_BYTES:
            body = _left_out(f"an answer of {size} bytes, above {MAX_ANSWER_BYTES}")
        elif body in question.bodies:
            pass
        elif size > LONG_BYTES and (why := self._lacks_memory()):
            body = _left_out(f"an answer of {size} bytes is left out: {why}")
        elif self._count(question.client, size):
            question.size += size
        else:
            body = _left_out(
                f"left out, as answers above {MAX_TERMINAL_BYTES} bytes wait for this terminal; ask fewer ranks"
            )
        return self._settle(number, key, body)

    def rank_ended(self, key: str, text: str, but: Collection[int] = ()) -> list[Finished]:
        """Note that a rank's connection ended, and return the questions that this completes.

        The questions ``but`` are those that its guard still answers.
        """
        answer = body_of(RankAnswer(key=key, kind=Kind.LOST, text=text))
        numbers = sorted(number for number in self._asked.get(key, ()) if number not in but)
        finished = (self._settle(number, key, answer) for number in numbers)
        return [question for question in finished if question is not None]

    def finish(self, number: int) -> Finished | None:
        """End a question now, naming the ranks that did not answer; None if it has ended before."""
        question = self._open.pop(number, None)
        if question is None:
            return None
        if question.missing:
            for key, answer in question.answers.items():
                if answer is None:
                    self._forget(number, key)
        return Finished(
            question.client,
            question.question,
            question.answers,
            question.seconds,
            question.size,
            number,
            question.ages,
        )

    def was_read(self, finished: Finished) -> None:
        """Note that a terminal has taken all answers to a question."""
        # A terminal that has left is forgotten already.
        if finished.client in self.budget:
            self.budget.add(finished.client, -finished.size)

    def drop_client(self, client: int) -> list[Finished]:
        """End the questions of a terminal that left, and return them."""
        numbers = [number for number, question in self._open.items() if question.client == client]
        ended = [self.finish(number) for number in numbers]
        self.budget.drop(client)
        return [question for question in ended if question is not None]

    def _count(self, client: int, size: int) -> bool:
        """Count bytes that are to wait for a terminal; return False if they would be too many."""
        if self.budget.of(client) + size > MAX_TERMINAL_BYTES:
            return False
        self.budget.add(client, size)
        return True

    def _settle(self, number: int, key: str, body: bytes) -> Finished | None:
        question = self._open[number]
        question.answers[key] = question.bodies.setdefault(body, body)
        question.missing -= 1
        self._forget(number, key)
        return self.finish(number) if question.missing == 0 else None

    def _forget(self, number: int, key: str) -> None:
        numbers = self._asked[key]
        numbers.discard(number)
        if not numbers:
            del self._asked[key]


class AskRates:
    """A token bucket of questions for each rank. The length is their number."""

    def __init__(self) -> None:
        self._buckets: dict[str, TokenBucket] = {}

    def __len__(self) -> int:
        return len(self._buckets)

    def refusal(self, key: str, open_already: int, now: float) -> str | None:
        """Count a question to a rank; return a sentence that says why the rank is not asked, None if it is."""
        if open_already > MAX_OPEN_AT_RANK:
            return f"{MAX_OPEN_AT_RANK} questions wait for this rank already; ask again when they are answered"
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = TokenBucket(now, ASKS_PER_SECOND)
        if not bucket.try_spend(1, now):
            return f"this rank has been asked more than {ASKS_PER_SECOND} times in a second; ask again in a moment"
        return None

    def forget(self, key: str) -> None:
        """Forget a rank that is not connected any more; an unknown one is no error."""
        self._buckets.pop(key, None)


def passed_on(answer: Answer) -> bytes:
    """Return the body of the RankAnswer that a rank's answer is: the same fields.

    The text is made anew and once: that of the rank may hold what no terminal can read, such as a second key, or an
    unknown field with a thousand lists in one another.
    """
    _, _, fields = encode(answer).split(",", 2)
    return fields.encode()


def body_of(answer: RankAnswer) -> bytes:
    """Return the body of an answer that the broker gives itself."""
    return body_in(encode_record(answer.replace(also=(), ages=())).encode(), answer.key) or b""


def body_in(text: bytes, key: str) -> bytes | None:
    """Return the body of the JSON text of one rank's RankAnswer; None if a broker has not written it."""
    begin = b'{"key":%s,' % msgspec.json.encode(key)
    if not text.startswith(begin):
        return None
    body = text[len(begin) :]
    return body[: -len(_NO_OTHERS)] + b"}" if body.endswith(_NO_OTHERS) else body


def without_age(body: bytes) -> tuple[bytes, bytes | None]:
    """Return a body without its age, and the age; None if that is unknown."""
    found = _AGE.search(body)
    return (body, None) if found is None else (body[: found.start()] + body[found.end() :], found[1])


def with_age(body: bytes, age: bytes) -> bytes:
    """Return a body that has no age with this one."""
    return b'%s,"age":%s}' % (body[:-1], age)


def with_keys(keys: Sequence[str], body: bytes, ages: Sequence[bytes] = ()) -> bytes:
    """Return the JSON text of a RankAnswer of one rank or of several; ``ages`` are theirs, if the body lacks them."""
    if len(keys) == 1:
        return b'{"key":%s,%s' % (msgspec.json.encode(keys[0]), with_age(body, ages[0]) if ages else body)
    others = b',"also":%s' % msgspec.json.encode(keys[1:])
    if any(age != b"null" for age in ages):
        others += b',"ages":[%s]' % b",".join(ages)
    return b'{"key":%s,%s%s}' % (msgspec.json.encode(keys[0]), body[:-1], others)


def _left_out(text: str) -> bytes:
    return body_of(RankAnswer(key="", kind=Kind.ERROR, text=text))
