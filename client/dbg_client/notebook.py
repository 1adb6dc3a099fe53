"""The cell magic ``%%ranks`` of IPython and Jupyter, which evaluates a cell's lines on ranks.

``%load_ext dbg_client`` adds it. ``%%ranks 0-7`` asks ranks of the only live job, ``%%ranks train-4711/0-7`` asks ranks
of that job. Each line of the cell is an expression, and its answer is shown as a table. Options of ``eval`` belong on
the first line, as in ``%%ranks --live 0-7``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from types import TracebackType
from typing import Any

from dbg_client.api.answers import Answer
from dbg_client.api.blocking import Broker, Ranks, connect
from dbg_client.command_line.session_line import read_session_line
from dbg_client.core.errors import in_terms_of
from dbg_client.verbs.values import Eval
from dbg_command.targets import parse_target
from dbg_wire.errors import BadInput, DbgError, printable

CALLS = {
    "list": "`dbg_client.connect().ranks`",
    "wait": "`dbg_client.connect().job()['{ranks}'].wait()`",
    "interrupt": "`dbg_client.connect().job()['{ranks}'].interrupt()`",
    "release": "`dbg_client.connect().job()['{ranks}'].release()`",
    "attach": "`dbg_client.connect().job()['{ranks}'].where()`",
}
"""Replacements, in a cell, for terminal commands that an error names."""

EXPRESSION = "_"
"""Placeholder for the expressions of a cell while its first line is parsed."""

Shell = Any
"""IPython's shell; this type is not imported, because IPython may not be installed."""


class CellError(DbgError):
    """Raised for an error in a cell; its sentence suggests code for a cell instead of terminal commands."""

    def __init__(self, error: DbgError) -> None:
        super().__init__(error)
        self.error = error
        self.exit_status = error.exit_status

    def __str__(self) -> str:
        return in_terms_of(self.error, CALLS)


class RanksMagic:
    """The magic, with one connection for the lifetime of the notebook's kernel."""

    def __init__(self, show: Callable[[Answer], None]) -> None:
        self._show = show
        self._broker: Broker | None = None

    def __call__(self, line: str, cell: str | None = None) -> None:
        """Evaluate each line of the cell on the ranks named by the magic's own line. Raises CellError."""
        try:
            self._ask(line, cell)
        except DbgError as error:
            raise CellError(error) from error

    def _ask(self, line: str, cell: str | None) -> None:
        expressions = [one for one in (cell or "").splitlines() if one.strip() and not one.lstrip().startswith("#")]
        if not expressions:
            raise BadInput("the cell of %%ranks has no expression", "write one on each line, such as `loss`")
        self._broker = self._broker or connect()
        verb = _question(line)
        ranks = _ranks(self._broker, verb.target or "all")
        for expression in expressions:
            answer = ranks.ask(verb.replace(expression=expression), timeout=verb.broker.timeout)
            self._show(Answer(answer))

    def close(self) -> None:
        """Close the connection; the next cell opens another."""
        broker, self._broker = self._broker, None
        if broker is not None:
            broker.close()


def _question(line: str) -> Eval:
    """Return ``eval`` with the options and the target of the magic's line. Raises BadInput."""
    arguments = f"{line}all" if line.endswith("/") else line
    verb = read_session_line(f"eval {arguments} {EXPRESSION}", os.environ, has_ranks=True)
    if not isinstance(verb, Eval) or verb.expression != EXPRESSION:
        what = f"%%ranks can't read {printable(line, 100)!r}"
        raise BadInput(what, "write options of `eval` and then ranks, as in `--live 0-7`")
    return verb


def _ranks(broker: Broker, text: str) -> Ranks:
    target = parse_target(text)
    name = next((term.job for term in (*target.include, *target.exclude) if term.job is not None), None)
    return broker.job(name)[text]


def load_ipython_extension(shell: Shell) -> None:
    """Add ``%%ranks``, and make errors suggest code for a cell; ``%load_ext dbg_client`` calls this function."""
    # Import IPython here only: it calls this function, so it is installed.
    from IPython.display import display  # type: ignore[import-not-found, unused-ignore]

    shell.register_magic_function(RanksMagic(display), "cell", "ranks")
    shell.set_custom_exc((DbgError,), _show_error)


def _show_error(
    shell: Shell,
    kind: type[BaseException],
    error: BaseException,
    traceback: TracebackType | None,
    tb_offset: int | None = None,
) -> None:
    """Show an error; a DbgError suggests code for a cell instead of terminal commands."""
    shown = CellError(error) if isinstance(error, DbgError) else error
    shell.showtraceback((kind, shown, traceback), tb_offset=tb_offset)
