"""The end of a report, which holds the case as lines of JSON, so that ``why`` reads the report again. Pure.

Tables are written by columns, each value once with the set of rows that have it: a thousand ranks that tell nearly the
same take little more than one. Nothing is packed, so that whoever sends a report can read what is in it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from dbg_client.after.report_text import without_secrets
from dbg_client.core.choose import MAX_WORLD
from dbg_client.why.explain import Case, JobLook
from dbg_client.why.process_groups import RankEvidence
from dbg_wire.errors import BadTarget
from dbg_wire.limits import KIB
from dbg_wire.messages import RankAnswer
from dbg_wire.rank_set import format_ranks, parse_ranks
from dbg_wire.records.evidence import Evidence, EvidenceRecord, ThreadWait, WaitKind, evidence_in
from dbg_wire.records.ranks import RankInfo
from dbg_wire.records.record import Record, plain

BEGINNING = b"dbg-attach report"
"""The first bytes of a report."""

TITLE = "Evidence, which dbg-attach why reads again from this file"
"""The line above the case."""

SCHEMA = 1

MAX_REPORT = 2 * 1024 * KIB
"""Bytes of a report: what a bug tracker takes as an attachment, and a thousand ranks fit in."""

MAX_LOOKS = 20
"""Looks of one case that are believed: one a second, for some seconds."""

MAX_ROWS = 400_000
"""Rows of all tables that are believed: a rank tells some ten records in each look."""

MAX_COLUMNS = 60
"""Columns of one table that are believed: twice those of a rank."""

MAX_DEPTH = 3
"""Objects within each other in a row."""

ABSENT = "-absent-"
"""Stands for a field that a row does not have."""

AS_BEFORE = {"as": "before"}
"""Stands for a column that is the same as in the look before."""

MAX_FRAMES = 8
"""Innermost frames of a stack that are kept where all of them would be too many."""

_HAS_OTHER_PLACE = frozenset({"rows", "threads", "key"})
"""Fields of an answer that are told elsewhere in a case, or count for nothing in a verdict."""


class CantReadReport(Exception):
    """Why a report can't be read again, as the end of a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedReport:
    """A report that was read: its first line, and the case in it."""

    about: str
    case: Case

    @property
    def job(self) -> str:
        """Return the job that it is about, the first of several; empty if it is about none."""
        return next((one.rank.job for look in self.case.looks for one in look.everybody), "")


# ------------------------------------------------------------------------------------------------------------ to lines


def case_lines(case: Case, most: int) -> tuple[list[str], Case]:
    """Return the lines of a case in ``most`` bytes, and the case as it will be read from them.

    Of one that is larger the stacks are left out first. There are no lines if even the rest does not fit, or could not
    be read again.
    """
    for reduce in _REDUCTIONS:
        lines = [json.dumps(each) for each in _documents(reduce(case))]
        if sum(len(line) + 3 for line in lines) <= most:
            with suppress(CantReadReport):
                return lines, _read(lines)
    return [], case


def _documents(case: Case) -> Iterator[dict[str, Any]]:
    """Yield the lines of a case: what it is, the ranks, and for each look what these answered."""
    ranks = [one.rank for one in case.looks[0].everybody] if case.looks else []
    yield {
        "case": SCHEMA,
        "now": round(case.now, 3),
        "looks": [round(look.at, 3) for look in case.looks],
        "lines": _clean([[*run, list(lines)] for run, lines in case.lines]),
    }
    yield {"ranks": _table([_flat(plain(rank)) for rank in ranks])}
    before: dict[str, dict[str, Any]] = {}
    for number, look in enumerate(case.looks):
        answers = [
            {name: value for name, value in plain(one.answer).items() if name not in _HAS_OTHER_PLACE}
            for one in look.everybody
        ]
        yield {"look": number, "answers": _news(_table(answers), "answers", before)}
        by_kind: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        for at, one in enumerate(look.everybody):
            for record in _records(one.evidence):
                document = plain(record)
                by_kind[document["row"]].append({"of": at, **document})
        for kind, rows in by_kind.items():
            yield {"look": number, "rows": kind, **_news(_table(rows), kind, before)}


def _records(evidence: Evidence | None) -> Iterator[Record]:
    if evidence is not None:
        yield from (*evidence.sources, *evidence.groups, *evidence.collectives, *evidence.waits, *evidence.others)
        if evidence.process is not None:
            yield evidence.process


def _flat(document: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the fields of an object, those of objects in it by their way, such as ``identity.host``."""
    found: dict[str, Any] = {}
    for name, value in document.items():
        # An object in which all has its default is not the same as none.
        found.update(_flat(value, f"{prefix}{name}.") if value and isinstance(value, dict) else {prefix + name: value})
    return found


def _deep(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the object of such fields; one of which a row has no field is not there."""
    found: dict[str, Any] = {}
    for name, value in row.items():
        *way, last = name.split(".", MAX_DEPTH)
        inner = found
        for step in way:
            inner = inner.setdefault(step, {})
        inner[last] = value
    return found


def _news(table: dict[str, Any], name: str, before: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return a table in which columns that are as in the look before only say so; keep it for the look after."""
    former, before[name] = before.get(name), table
    if former is None or former["count"] != table["count"]:
        return table
    columns = {
        column: AS_BEFORE if former["columns"].get(column) == values else values
        for column, values in table["columns"].items()
    }
    return {"count": table["count"], "columns": columns}


def _table(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    # Of an object that a row does not have, it has no field but a null in its place.
    names = dict.fromkeys(name for row in rows for name in row)
    return {"count": len(rows), "columns": {name: _column([row.get(name, ABSENT) for row in rows]) for name in names}}


def _column(values: Sequence[Any]) -> dict[str, Any]:
    rounded = [round(value, 3) if isinstance(value, float) else value for value in values]
    rows: defaultdict[object, list[int]] = defaultdict(list)
    for number, value in enumerate(rounded):
        # In a dict 1 and True are one key, and a list is none.
        rows[msgspec.json.encode(value)].append(number)
    distinct = [_clean(rounded[some[0]]) for some in rows.values()]
    if len(distinct) == 1:
        return {"all": distinct[0]}
    if 2 * len(distinct) > len(values) or all(isinstance(value, (int, float)) for value in distinct):
        return {"each": [_clean(value) for value in rounded]}
    return {"of": distinct, "in": [format_ranks(some) for some in rows.values()]}


def _clean(value: Any) -> Any:
    """Return a value of JSON without secrets."""
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, (list, tuple)):
        return [_clean(one) for one in value]
    return {name: _clean(one) for name, one in value.items()} if isinstance(value, dict) else value


# --------------------------------------------------------------------------------------------------- what is left out


def _all(case: Case) -> Case:
    return case


def _first_and_last_look(case: Case) -> Case:
    return replace(case, looks=[case.looks[0], case.looks[-1]]) if len(case.looks) > 2 else case


def _stacks_of_causes(case: Case) -> Case:
    return _with_less(_first_and_last_look(case), lambda wait, is_edge: wait if is_edge else wait.replace(frames=()))


def _causes(case: Case) -> Case:
    def reduce(wait: ThreadWait, is_edge: bool) -> ThreadWait | None:
        is_cause = wait.is_main or is_edge or wait.kind in (WaitKind.ENDED, WaitKind.HANDLED)
        return wait.replace(frames=wait.frames[-MAX_FRAMES:] if is_edge else ()) if is_cause else None

    return _with_less(_first_and_last_look(case), reduce, MAX_FRAMES)


_REDUCTIONS: Sequence[Callable[[Case], Case]] = (_all, _first_and_last_look, _stacks_of_causes, _causes)
"""What is kept of a case, the most first."""


def _with_less(
    case: Case, reduce: Callable[[ThreadWait, bool], ThreadWait | None], most_frames: int | None = None
) -> Case:
    """Reduce each thread's wait, of which is told whether it is an edge between threads, and cut the stacks."""

    def reduced(one: RankEvidence) -> RankEvidence:
        evidence = one.evidence
        if evidence is not None:
            awaited = {number for wait in evidence.waits for number in wait.awaits}
            waits = (reduce(wait, bool(wait.awaits) or wait.number in awaited) for wait in evidence.waits)
            evidence = replace(evidence, waits=tuple(wait for wait in waits if wait is not None))
        frames = one.answer.frames if most_frames is None else one.answer.frames[-most_frames:]
        return replace(one, answer=one.answer.replace(frames=frames), evidence=evidence)

    looks = [JobLook(at=look.at, everybody=list(map(reduced, look.everybody))) for look in case.looks]
    return replace(case, looks=looks)


# ---------------------------------------------------------------------------------------------------------- from lines


def read_report(data: bytes) -> SavedReport:
    """Return what a report holds. Raise CantReadReport."""
    text = data.decode("utf-8", "replace")
    about = text.partition("\n")[0]
    _, found, behind = text.partition(f"\n{TITLE}\n")
    lines = [line for line in behind.split("\n") if line.strip()]
    if not found or not lines or not lines[0].lstrip().startswith("{"):
        raise CantReadReport("is a report without evidence that can be read again")
    return SavedReport(about=about, case=_read(lines))


def _read(lines: Sequence[str]) -> Case:
    try:
        return _case([json.loads(line) for line in lines])
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError, BadTarget):
        raise CantReadReport("is a report whose evidence is damaged, or of a newer dbg-attach") from None


def _case(documents: Sequence[dict[str, Any]]) -> Case:
    head, ranks_line, *others = documents
    counted = sum(_count(line) for line in others if "rows" in line)
    if head["case"] != SCHEMA or not 0 < len(head["looks"]) <= MAX_LOOKS or counted > MAX_ROWS:
        raise ValueError
    before: dict[str, dict[str, Any]] = {}
    ranks = [_record(RankInfo, _deep(row)) for row in _rows(ranks_line["ranks"], MAX_WORLD)]
    answers: list[list[RankAnswer]] = [[] for _ in head["looks"]]
    told: list[list[list[Record]]] = [[[] for _ in ranks] for _ in head["looks"]]
    for line in others:
        look = line["look"]
        if "answers" in line:
            rows = list(_rows(_whole(line["answers"], "answers", before), len(ranks)))
            answers[_index(look)] = [
                _record(RankAnswer, {"key": rank.key, **row}) for rank, row in zip(ranks, rows, strict=True)
            ]
        else:
            for row in _rows(_whole(line, str(line["rows"]), before), MAX_ROWS):
                told[_index(look)][_index(row.pop("of"))].append(_record(EvidenceRecord, row))
    looks = [
        JobLook(
            at=float(at),
            everybody=[
                RankEvidence(rank=rank, answer=answer, evidence=evidence_in(rows))
                for rank, answer, rows in zip(ranks, answers[number], told[number], strict=True)
            ],
        )
        for number, at in enumerate(head["looks"])
    ]
    return Case(
        looks=looks,
        now=float(head["now"]),
        lines=[((str(job), str(run)), [str(line) for line in some]) for job, run, some in head["lines"]],
    )


def _count(table: dict[str, Any]) -> int:
    return _index(table["count"])


def _index(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError
    return value


def _record(kind: Any, document: Any) -> Any:
    return msgspec.convert(document, kind)


def _rows(table: dict[str, Any], most: int) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table; a few bytes may claim any number of them."""
    count = _count(table)
    if count > most or len(table["columns"]) > MAX_COLUMNS:
        raise ValueError
    columns = {name: _values(column, count) for name, column in table["columns"].items()}
    for number in range(count):
        yield {name: values[number] for name, values in columns.items() if values[number] != ABSENT}


def _whole(table: dict[str, Any], name: str, before: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return a table with the columns that are as in the look before; keep it for the look after."""
    former = before.get(name, {}).get("columns", {})
    columns = {column: former[column] if values == AS_BEFORE else values for column, values in table["columns"].items()}
    before[name] = {"count": table["count"], "columns": columns}
    return before[name]


def _values(column: dict[str, Any], count: int) -> Sequence[Any]:
    if "all" in column:
        return [column["all"]] * count
    if "each" in column:
        values: list[Any] = column["each"]
        if len(values) != count:
            raise ValueError
        return values
    found: dict[int, Any] = {}
    for value, numbers in zip(column["of"], column["in"], strict=True):
        rows = parse_ranks(numbers)
        # Each row has one value, so that no text makes more of them than there are rows.
        if len(found) + len(rows) > count:
            raise ValueError
        found.update(dict.fromkeys(rows, value))
    return [found[number] for number in range(count)]
