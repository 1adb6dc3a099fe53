"""The evidence of a job as one document: the ranks' answers, compressed, at the end of a readable report. Pure."""

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
from dbg_client.why.explain import HangEvidence, JobSnapshot
from dbg_client.why.process_groups import read_evidence
from dbg_wire.limits import KIB
from dbg_wire.messages import RankAnswer
from dbg_wire.records.ranks import RankInfo
from dbg_wire.records.record import Record, decoder_of, elements

BEGINNING = b"dbg-attach report"
"""First bytes of a report."""

TITLE = "Evidence, which dbg-attach why reads again from this file"
"""Line above the evidence."""

MAX_EVIDENCE = 1024 * KIB
"""Maximum size of the evidence in a report, in bytes: half of what a bug tracker accepts as an attachment."""

MAX_DOCUMENT = 256 * 1024 * KIB
"""Maximum size of the unpacked document, in bytes: a small compressed text may expand to any size."""

MAX_MEMORY = 16 * 1024 * KIB
"""Maximum memory for unpacking, in addition to the document itself, in bytes."""

MAX_SNAPSHOTS = 20
"""Maximum number of snapshots in a report, more than is needed: one is taken each second, for some seconds."""

COLUMNS = 116
"""Characters per line of the compressed evidence."""

MAX_TEXTS = 1 << 16
"""Maximum number of cached texts. The cache stores each text without its secrets.

Caching saves work, because a thousand ranks report the same paths and names.
"""

SHORTEST_SECRET = 8
"""Minimum length of a quoted text that is searched for secrets: a shorter text can't contain a name such as `token` and
a secret after it.
"""

OUT = "[taken out]"

_NAMED = re.compile(
    r"(?i)\b([\w.-]*(?:token|secret|passw(?:or)?d|passwd|api[_-]?key|access[_-]?key|credentials?|authorization|bearer)"
    r"[\w.-]*['\"]?\s*(?:=|:)\s*|bearer\s+)(?:(?:bearer|basic)\s+)?(['\"]?)[^\s'\",;)}\]]{3,}"
)
"""A name that looks secret, and the value after it."""

_USER = re.compile(r"(\w+://)[^\s/@]+@")
"""User and password in a URL."""

_KNOWN = re.compile(
    r"\b(?:sk-[\w-]{16,}|gh[pousr]_\w{16,}|github_pat_\w{16,}|hf_\w{16,}|glpat-[\w-]{16,}|xox[abpr]-[\w-]{10,}"
    r"|AKIA[0-9A-Z]{12,}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]+)"
)
"""Keys and tokens that are recognizable by their prefix."""

_RANDOM = re.compile(r"(?<![\w/.-])(?=[\w-]*[a-z])(?=[\w-]*[A-Z])(?:[\w-]{43}|(?=[\w-]*[0-9])[\w-]{32,})(?![\w/.-])")
"""A random sequence of letters and digits, which is probably a secret. It does not match paths and file names.

A text of 43 characters, as in a broker's token, matches even without a digit: one token in a thousand has none.
"""


_TEXT = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"')
"""A string in JSON."""


class CantReadReport(Exception):
    """Raised when a report cannot be read; the text is the end of a sentence."""


class SavedSnapshot(Record):
    """Answers of all ranks, ``at`` seconds after the first snapshot."""

    at: float
    answers: Annotated[tuple[RankAnswer, ...], elements(MAX_WORLD)]


class CaseFile(Record):
    """Evidence and the other contents of a report: ``about`` is its first line, ``versions`` the software versions.

    ``output`` has the last lines of the job's output. ``problem`` states why there are no snapshots.
    """

    about: str
    now: float
    ranks: Annotated[tuple[RankInfo, ...], elements(MAX_WORLD)] = ()
    snapshots: Annotated[tuple[SavedSnapshot, ...], elements(MAX_SNAPSHOTS)] = ()
    versions: tuple[str, ...] = ()
    output: tuple[str, ...] = ()
    problem: str = ""

    @property
    def case(self) -> HangEvidence:
        """The evidence of the snapshots."""
        snapshots = [JobSnapshot(at=one.at, everybody=read_evidence(self.ranks, one.answers)) for one in self.snapshots]
        return HangEvidence(snapshots=snapshots, now=self.now)

    @property
    def job(self) -> str:
        """The job of the report, the first one if there are several, empty without ranks."""
        return self.ranks[0].job if self.ranks else ""


def snapshots_of(case: HangEvidence) -> tuple[SavedSnapshot, ...]:
    """Return the snapshots of a case in the form in which they are saved."""
    return tuple(SavedSnapshot(at=one.at, answers=tuple(r.answer for r in one.everybody)) for one in case.snapshots)


def without_secrets(text: str) -> str:
    """Replace text that looks like a password, token or key by :data:`OUT`."""
    text = _USER.sub(rf"\1{OUT}@", text)
    text = _NAMED.sub(rf"\1\2{OUT}", text)
    return _RANDOM.sub(OUT, _KNOWN.sub(OUT, text))


@lru_cache(MAX_TEXTS)
def _clean(token: str) -> str:
    """Return a quoted JSON string without secrets."""
    if len(token) < SHORTEST_SECRET:
        return token
    text = msgspec.json.decode(token)
    clean = without_secrets(text)
    return token if clean == text else msgspec.json.encode(clean).decode()


def cleaned(saved: CaseFile) -> CaseFile:
    """Return a copy without secrets."""
    document = msgspec.json.encode(saved).decode()
    clean: CaseFile = decoder_of(CaseFile).decode(_TEXT.sub(lambda found: _clean(found[0]), document))
    return clean


def lines_of(saved: CaseFile) -> Iterator[str]:
    """Yield the last lines of a report: the compressed evidence.

    If the evidence is too large, keep only the first and the last snapshot, then only the last one. If one snapshot is
    too large as well, yield nothing.
    """
    snapshots: Sequence[SavedSnapshot] = saved.snapshots
    for kept in (snapshots, (snapshots[0], snapshots[-1]) if len(snapshots) > 2 else (), snapshots[-1:]):
        packed = base64.b64encode(lzma.compress(msgspec.json.encode(saved.replace(snapshots=tuple(kept))), preset=1))
        if kept and len(packed) <= MAX_EVIDENCE:
            yield TITLE
            yield from textwrap.wrap(packed.decode(), COLUMNS)
            return


def read_report(data: bytes) -> CaseFile:
    """Return the evidence in a report. Raises CantReadReport."""
    _, found, packed = data.partition(f"\n{TITLE}\n".encode())
    if not found or not packed.strip():
        raise CantReadReport("is a report without evidence that can be read again")
    try:
        unpacking = lzma.LZMADecompressor(memlimit=MAX_MEMORY)
        document = unpacking.decompress(base64.b64decode(packed), MAX_DOCUMENT)
        saved: CaseFile = decoder_of(CaseFile).decode(document)
    except (ValueError, lzma.LZMAError, RecursionError):
        saved = CaseFile(about="", now=0.0)
    if not saved.snapshots or any(len(look.answers) != len(saved.ranks) for look in saved.snapshots):
        raise CantReadReport("is a report whose evidence is damaged, or from a newer dbg-attach")
    return saved
