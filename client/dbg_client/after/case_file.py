"""The case of a job as one document: what its ranks told, compressed, at the end of a report that people read. Pure."""

from __future__ import annotations

import base64
import lzma
import re
import textwrap
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Annotated

import msgspec

from dbg_client.core.choose import MAX_WORLD
from dbg_client.why.explain import Case, JobLook
from dbg_client.why.process_groups import read_evidence
from dbg_wire.limits import KIB
from dbg_wire.messages import RankAnswer
from dbg_wire.records.ranks import RankInfo
from dbg_wire.records.record import Record, decoder_of, elements

BEGINNING = b"dbg-attach report"
"""The first bytes of a report."""

TITLE = "Evidence, which dbg-attach why reads again from this file"
"""The line above the case."""

MAX_EVIDENCE = 1024 * KIB
"""Bytes of the case in a report: what a bug tracker takes as an attachment has twice that."""

MAX_DOCUMENT = 256 * 1024 * KIB
"""Bytes of a document that is believed: a few compressed ones may claim any number of them."""

MAX_MEMORY = 16 * 1024 * KIB
"""Bytes of memory that unpacking may take beside that."""

MAX_LOOKS = 20
"""Looks of one case: one a second, for some seconds."""

COLUMNS = 116
"""Characters of one line of a compressed case."""

MAX_TEXTS = 1 << 16
"""Texts that are looked through once: a thousand ranks tell the same paths and names."""

SHORTEST_SECRET = 8
"""Characters of a name and a secret at least."""

OUT = "[taken out]"

_NAMED = re.compile(
    r"(?i)\b([\w.-]*(?:token|secret|passw(?:or)?d|passwd|api[_-]?key|access[_-]?key|credentials?|authorization|bearer)"
    r"[\w.-]*['\"]?\s*(?:=|:)\s*|bearer\s+)(?:(?:bearer|basic)\s+)?(['\"]?)[^\s'\",;)}\]]{3,}"
)
"""A name that looks secret, and what stands behind it."""

_USER = re.compile(r"(\w+://)[^\s/@]+@")
"""User and password in a URL."""

_KNOWN = re.compile(
    r"\b(?:sk-[\w-]{16,}|gh[pousr]_\w{16,}|github_pat_\w{16,}|hf_\w{16,}|glpat-[\w-]{16,}|xox[abpr]-[\w-]{10,}"
    r"|AKIA[0-9A-Z]{12,}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]+)"
)
"""Keys and tokens whose beginning tells what they are."""

_RANDOM = re.compile(r"(?<![\w/.-])(?=[\w-]*[a-z])(?=[\w-]*[A-Z])(?:[\w-]{43}|(?=[\w-]*[0-9])[\w-]{32,})(?![\w/.-])")
"""Letters and digits as nobody writes them; paths and names of files are left alone. A broker's token has 43 of them,
and one in a thousand has no digit."""


_TEXT = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"')
"""A string in a text of JSON."""


class CantReadReport(Exception):
    """Why a report can't be read again, as the end of a sentence."""


class SavedLook(Record):
    """What each rank answered ``at`` seconds after the first look."""

    at: float
    answers: Annotated[tuple[RankAnswer, ...], elements(MAX_WORLD)]


class CaseFile(Record):
    """A case and what else a report tells: ``about`` is its first line, ``versions`` and ``broker`` who tells.

    ``output`` are the last lines that the job has printed. ``problem`` says why there are no looks.
    """

    about: str
    now: float
    ranks: Annotated[tuple[RankInfo, ...], elements(MAX_WORLD)] = ()
    looks: Annotated[tuple[SavedLook, ...], elements(MAX_LOOKS)] = ()
    versions: tuple[str, ...] = ()
    output: tuple[str, ...] = ()
    problem: str = ""

    @property
    def case(self) -> Case:
        """Return the evidence of the looks."""
        looks = [JobLook(at=look.at, everybody=read_evidence(self.ranks, look.answers)) for look in self.looks]
        return Case(looks=looks, now=self.now)

    @property
    def job(self) -> str:
        """Return the job that it is about, the first of several; empty if it is about none."""
        return self.ranks[0].job if self.ranks else ""


def looks_of(case: Case) -> tuple[SavedLook, ...]:
    """Return the looks of a case as they are saved."""
    return tuple(SavedLook(at=look.at, answers=tuple(one.answer for one in look.everybody)) for look in case.looks)


def without_secrets(text: str) -> str:
    """Return the text with whatever looks like a password, a token or a key replaced by :data:`OUT`."""
    text = _USER.sub(rf"\1{OUT}@", text)
    text = _NAMED.sub(rf"\1\2{OUT}", text)
    return _RANDOM.sub(OUT, _KNOWN.sub(OUT, text))


@lru_cache(MAX_TEXTS)
def _clean(token: str) -> str:
    """Return a string of JSON, in its quotation marks, without secrets."""
    if len(token) < SHORTEST_SECRET:
        return token
    text = msgspec.json.decode(token)
    clean = without_secrets(text)
    return token if clean == text else msgspec.json.encode(clean).decode()


def cleaned(saved: CaseFile) -> CaseFile:
    """Return the same without secrets."""
    document = msgspec.json.encode(saved).decode()
    clean: CaseFile = decoder_of(CaseFile).decode(_TEXT.sub(lambda found: _clean(found[0]), document))
    return clean


def lines_of(saved: CaseFile) -> Iterator[str]:
    """Yield the end of a report: the case, compressed. Of one that is too large the looks between are left out."""
    looks: Sequence[SavedLook] = saved.looks
    for kept in (looks, (looks[0], looks[-1]) if len(looks) > 2 else (), looks[-1:]):
        packed = base64.b64encode(lzma.compress(msgspec.json.encode(saved.replace(looks=tuple(kept))), preset=1))
        if kept and len(packed) <= MAX_EVIDENCE:
            yield TITLE
            yield from textwrap.wrap(packed.decode(), COLUMNS)
            return


def read_report(data: bytes) -> CaseFile:
    """Return what a report holds. Raise CantReadReport."""
    _, found, packed = data.partition(f"\n{TITLE}\n".encode())
    if not found or not packed.strip():
        raise CantReadReport("is a report without evidence that can be read again")
    try:
        unpacking = lzma.LZMADecompressor(memlimit=MAX_MEMORY)
        document = unpacking.decompress(base64.b64decode(packed), MAX_DOCUMENT)
        saved: CaseFile = decoder_of(CaseFile).decode(document)
    except (ValueError, lzma.LZMAError, RecursionError):
        saved = CaseFile(about="", now=0.0)
    if not saved.looks or any(len(look.answers) != len(saved.ranks) for look in saved.looks):
        raise CantReadReport("is a report whose evidence is damaged, or of a newer dbg-attach")
    return saved
