"""Stop a rank at the current line and debug it from any terminal, through the broker.

This module contains only signatures and docstrings; the code behind them is imported at first use, so that ``import
dbg_agent`` costs a rank nothing. No function here raises into the program, unless ``on_missing="raise"`` requests it.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
"""Type checkers assume that this is True. Importing it from :mod:`typing` would cost a rank more than this module
does."""

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["install", "post_mortem", "set_trace", "uninstall"]

_was_warned = False


def set_trace(
    *unexpected: object,
    broker: str | None = None,
    connect_timeout: float | None = None,
    on_missing: str | None = None,
    engine: str | None = None,
    rc: bool | None = None,
    ranks: object = None,
    hold: bool | None = None,
    hold_grace: float | None = None,
    lease: float | None = None,
    **unknown: object,
) -> None:
    """Stop the calling thread here until a terminal resumes it.

    The thread waits in this call and uses no CPU; a debugger opens only when a terminal attaches. One thread of a rank
    is stopped at a time; other threads wait for their turn. The stop stays if the broker or the terminal disconnects.
    Usable as ``PYTHONBREAKPOINT=dbg_agent.set_trace``.

    ``broker`` (variable ``DBG_BROKER``) is ``host:port`` or a URL, with the certificate's fingerprint after ``#``
    unless a ``broker.json`` contains it. ``connect_timeout`` (10; ``DBG_CONNECT_TIMEOUT``) is the time in seconds to
    wait for a broker, once per process. If no broker answers, ``on_missing`` (``DBG_ON_MISSING``) decides: by default
    the rank warns once on stderr and continues. ``"wait"`` waits for a broker without a limit, and ``"raise"`` raises a
    :class:`dbg_wire.errors.DbgError`. ``engine`` (``DBG_ENGINE``), ``"pudb"`` or ``"pdb"``, opens if the terminal
    requests no debugger. With ``rc`` (``DBG_PDBRC``) pdb reads the ``.pdbrc`` on the rank's side. An argument that
    can't be used causes a warning, and its default is used.

    With ``ranks`` (``DBG_RANKS``), a global rank, several, or a set such as ``"0-3,8"``, only these ranks stop. Each
    other rank of the job that gets here waits, outside of any collective, until all these ranks have been resumed. With
    ``hold=False`` (``DBG_HOLD=0``) those other ranks continue at once. A rank does not wait longer than ``hold_grace``
    seconds (60; ``DBG_HOLD_GRACE``) for a chosen rank to arrive here. With ``lease`` (``DBG_LEASE``) the stop ends by
    itself if no terminal has attached within so many seconds.
    """

    def load() -> Callable[..., object]:
        from dbg_agent.program.entry import stop_at

        return stop_at

    arguments = {"broker": broker, "connect_timeout": connect_timeout, "on_missing": on_missing, "engine": engine}
    arguments |= {"rc": rc, "hold": hold, "hold_grace": hold_grace, "lease": lease}
    carry_out("set_trace", load, sys._getframe(1), {**arguments, "ranks": ranks, **unknown}, unexpected)


# torch.compile skips a function with this attribute; it can't compile a function that stops.
vars(set_trace)["_torchdynamo_disable"] = True


def install(
    *unexpected: object,
    broker: str | None = None,
    breakpoint: bool | None = None,  # noqa: A002 - the argument has the name of the builtin that it changes
    connect_timeout: float | None = None,
    on_missing: str | None = None,
    classic: bool | None = None,
    guard: bool | None = None,
    exec: bool | None = None,  # noqa: A002 - the argument has the name of the command that it allows
    post_mortem: bool | None = None,
    lease: float | None = None,
    mesh: object = None,
    collective_timeout: float | None = None,
    **unknown: object,
) -> None:
    """Connect in the background, so that this rank is listed and can be broken into before it stops anywhere.

    Unless ``classic`` (or its synonym ``breakpoint``) is false (``DBG_CLASSIC=0``), the breakpoints in the program's
    code call the agent from now on. These are the builtin ``breakpoint()``, and ``set_trace`` and ``post_mortem`` of
    pdb, PuDB, ipdb and remote_pdb. A host and a port in such a call have no effect. Objects of these debuggers call the
    agent, too. ``torch.distributed.breakpoint(rank, skip)`` means ``set_trace(ranks=rank)``, after the program has
    passed that call ``skip`` times. A program that has a terminal and knows no broker keeps its own debuggers.

    Unless ``guard`` is false (``DBG_GUARD=0``), a small helper process reports to the broker where the program is while
    the interpreter is stuck in C code. It also reports the signal if one ended the program. For this, faulthandler is
    enabled unless the program has done so, and a real-time signal (``SIGRTMIN+8``) is used unless the program uses it.
    The guard also runs commands of ``dbg-attach exec`` on the rank's host, unless ``exec`` is false (``DBG_EXEC=0``).

    With ``post_mortem`` (``DBG_POST_MORTEM=1``) a rank with an uncaught exception, in any thread, prints its traceback
    as always and is then kept as a stop. It is kept for ``lease`` seconds (600, but 0 where ``CI`` is set;
    ``DBG_LEASE``), or until a terminal resumes it; then it ends as usual. During this time the other ranks of
    the run delay their exits. ``mesh`` (``DBG_MESH="pp=2,tp=4"``) gives the sizes of the job's parallel groups, the
    slowest-changing group first.

    With ``collective_timeout`` (``DBG_COLLECTIVE_TIMEOUT``) all process groups of torch wait at least so many seconds.
    This includes groups made before or after this call, and groups with a timeout of their own. An operation that has
    already started keeps its timeout, so all ranks must call :func:`install` before any rank stops. A rank's groups get
    their own timeouts back when this time has passed since the end of the rank's last stop, or by :func:`uninstall`.
    The next stop sets the long timeout again.

    In the main thread, :func:`install` uses one more real-time signal, so that terminals can break into the running
    rank. The other arguments are the same as for :func:`set_trace`, and become its defaults in this process.
    """

    def load() -> Callable[..., object]:
        from dbg_agent.program.installing import install_here

        return install_here

    arguments: dict[str, object] = {"broker": broker, "connect_timeout": connect_timeout}
    classic = breakpoint if classic is None else classic
    arguments |= {"on_missing": on_missing, "classic": classic, "guard": guard, "post_mortem": post_mortem}
    arguments |= {"exec": exec, "lease": lease, "mesh": mesh, "collective_timeout": collective_timeout}
    carry_out("install", load, {**arguments, **unknown}, unexpected)


def post_mortem(*unexpected: object, lease: float | None = None, **unknown: object) -> None:
    """In an ``except`` block: keep this rank where the exception was raised, until a terminal resumes it.

    ``install(post_mortem=True)`` does the same for an uncaught exception. The program continues after this call. If the
    call has no ``lease``, the one of :func:`install` applies. Without an exception or without a broker, the call warns
    and returns at once. The call does the same if ``CI`` is set, and neither this call nor :func:`install` has a
    ``lease``.
    """

    def load() -> Callable[..., object]:
        from dbg_agent.program.entry import keep_here

        return keep_here

    carry_out("post_mortem", load, sys.exc_info()[1], {"lease": lease, **unknown}, unexpected)


def uninstall() -> None:
    """Restore the original meaning of the breakpoints in the program's code; the rank stays connected and listed."""

    def load() -> Callable[..., object]:
        from dbg_agent.program.installing import uninstall_here

        return uninstall_here

    carry_out("uninstall", load)


def start_job_part() -> None:
    """Start this process's part in the job if ``DBG_AUTOSTART`` is set; Python 3.15 calls this at its start."""
    import os

    if os.environ.get("DBG_AUTOSTART") and not sys.flags.ignore_environment:
        from dbg_agent.autostart import start

        start()


def carry_out(function: str, load: Callable[[], Callable[..., object]], *arguments: object) -> object:
    """Import a function by ``load`` and return its result, or None if the import fails or the stack is almost full."""
    if "t" in sys.abiflags:
        warn_and_continue(function, "needs the GIL, and this Python was built without it")
        return None
    try:
        try:
            from dbg_agent.frames.stacks import has_room

            if not has_room():
                raise RecursionError
            call = load()
        except Exception as error:
            try:  # noqa: SIM105 - contextlib would need more of the stack, which is almost full
                warn_and_continue(function, error)
            except RecursionError:
                pass
            return None
        return call(*arguments)
    except KeyboardInterrupt:
        # If a KeyboardInterrupt ends the execution of a module, CPython records this. Here the module may be one of the
        # agent's. Because of the record the process would die of SIGINT at its exit, even if the program has caught the
        # exception. Executing another source text clears the record.
        exec("")  # noqa: S102
        raise


def warn_and_continue(function: str, error: Exception | str) -> None:
    """Report why a call failed, only once, with few resources: descriptors, memory or stack may be used up."""
    global _was_warned  # noqa: PLW0603 - one per process
    if _was_warned:
        return
    _was_warned = True
    try:
        why = error if isinstance(error, str) else f"failed ({type(error).__name__})"
        sys.stderr.write(f"dbg-agent: {function} {why}; continuing without a debugger\n")
    except Exception:  # noqa: S110 - there is no other place to report this, and training must continue
        pass
