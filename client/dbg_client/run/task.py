"""What a run does and has learnt, for all parts of its terminal."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class Task:
    """The terminal's task: the job whose stops it follows, where the job's output is, and what has become of it.

    ``ranks`` is a target without a job, ``prefer`` the global number of the rank that was followed last. ``attach`` is
    False where there is no terminal to attach. ``stops`` are the places at which ranks were asked to stop, as one names
    them. ``hang_after`` is for how many seconds no rank has to move until the terminal says why; None: it never does.
    ``on_hang`` is what is done then, None if it only says why. ``web`` says whether the job is served as a page in a
    browser. ``ends_at`` is when the scheduler ends the job, in seconds since 1970, None if that is not known.

    ``again`` says that the user wants another run of the job, ``is_hung`` that it is ended as it hangs, ``took_part``
    whether any rank of it ever connected.
    """

    job: str
    output: str = ""
    ranks: str = "all"
    prefer: int | None = None
    attach: bool = True
    stops: tuple[str, ...] = ()
    hang_after: float | None = None
    on_hang: str | None = None
    ends_at: float | None = None
    web: bool = False
    again: bool = False
    is_hung: bool = False
    took_part: bool = False
