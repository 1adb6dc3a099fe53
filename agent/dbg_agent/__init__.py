"""Stop a rank where you are and debug it from any terminal, through the broker.

This module is signatures and promises; bodies are imported at first use, so that ``import dbg_agent`` costs a rank
nothing. Nothing here raises into the program, but where ``on_missing="raise"`` asks for it.
"""

from __future__ import annotations

import sys

__all__ = ["install", "set_trace", "uninstall"]

_told = False


def set_trace(
    *unexpected: object,
    broker: str | None = None,
    connect_timeout: float | None = None,
    on_missing: str | None = None,
    engine: str | None = None,
    rc: bool | None = None,
    **unknown: object,
) -> None:
    """Stop the calling thread here until somebody lets it go on from a terminal.

    The thread waits in this call; it costs nothing but its time, and any debugger opens only when somebody attaches.
    One thread of a rank is stopped at a time, further ones queue. If the broker goes away meanwhile, or the terminal,
    nothing changes here. Usable as ``PYTHONBREAKPOINT=dbg_agent.set_trace``.

    ``broker`` is ``host:port`` or a URL, with the certificate's fingerprint after ``#`` if no ``broker.json`` holds it
    (variable ``DBG_BROKER``). If no broker answers within ``connect_timeout`` seconds (10; ``DBG_CONNECT_TIMEOUT``;
    waited once per process) the rank warns once on stderr and goes on; ``on_missing`` (``DBG_ON_MISSING``) can be
    ``"wait"``, which waits for a broker as long as it takes, or ``"raise"``, which raises a
    :class:`dbg_wire.errors.DbgError`. ``engine`` (``DBG_ENGINE``), ``"pudb"`` or ``"pdb"``, opens if the terminal asks
    for none; ``rc`` (``DBG_PDBRC``) has pdb read the ``.pdbrc`` of the rank's side. Arguments that can't be used are
    warned of, and the default is taken.
    """
    try:
        from .process import has_room, stop_at

        has_room()
    except Exception as error:
        try:  # noqa: SIM105 - contextlib would need the stack that is missing
            _go_on_without("set_trace", error)
        except RecursionError:
            pass
        return
    arguments = {"broker": broker, "connect_timeout": connect_timeout, "on_missing": on_missing, "engine": engine}
    stop_at(sys._getframe(1), {**arguments, "rc": rc, **unknown}, unexpected)


def install(
    *unexpected: object,
    broker: str | None = None,
    breakpoint: bool | None = None,  # noqa: A002 - the name of the builtin whose meaning it changes
    connect_timeout: float | None = None,
    on_missing: str | None = None,
    classic: bool | None = None,
    **unknown: object,
) -> None:
    """Connect now, in the background, so that this rank is listed before it stops anywhere.

    Unless ``breakpoint`` is false (``DBG_BREAKPOINT=0``), the builtin ``breakpoint()`` means :func:`set_trace` from
    here on. With ``classic`` (``DBG_CLASSIC=1``) so do ``pudb.remote.set_trace``, ``remote_pdb.set_trace`` and
    ``remote_pdb.RemotePdb(…).set_trace``, whatever host and port they name; a name that the program has imported from
    one of these modules before stays what it was. The other arguments are those of :func:`set_trace`, and become its
    defaults in this process.
    """
    try:
        from .process import has_room, install_here

        has_room()
    except Exception as error:
        _go_on_without("install", error)
        return
    arguments = {"broker": broker, "breakpoint": breakpoint, "connect_timeout": connect_timeout}
    install_here({**arguments, "on_missing": on_missing, "classic": classic, **unknown}, unexpected)


def uninstall() -> None:
    """Give ``breakpoint()`` and stock calls back their former meaning; the rank stays connected and listed."""
    from .process import uninstall_here

    uninstall_here()


def _go_on_without(function: str, error: Exception) -> None:
    """Say once why nothing could be done: no descriptor, memory or stack may be left, or no interpreter soon."""
    global _told  # noqa: PLW0603 - one per process
    if _told:
        return
    _told = True
    try:  # noqa: SIM105 - at the interpreter's end contextlib may be gone
        sys.stderr.write(f"dbg-agent: {function} failed ({type(error).__name__}); going on without a debugger\n")
    except Exception:  # noqa: S110 - there is nowhere else to say it, and training must go on
        pass
