"""The life of a run: which processes it has, and what follows when one of them ends or a signal comes.

A run holds the broker, starts the command and a terminal beside it, and waits for any of them to end. Only the
terminal, which is ``dbg-attach`` in a process of its own, touches the screen; only a small keeper waits for the
command, so that it and its broker outlive the terminal that they were started from.
"""

from __future__ import annotations

import contextlib
import os
import select
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

from dbg_broker.home.private_files import open_home
from dbg_broker.home.tokens import job_is_over
from dbg_broker.journal.audit import note
from dbg_broker.run.environment import (
    end_by_scheduler,
    is_for_many_hosts,
    job_environment,
    job_name,
    own_command,
    own_environment,
    token_file_of,
)
from dbg_broker.run.keeper import END_SECONDS, JobProcess, JobTerminal, is_wanted
from dbg_broker.run.own_broker import RunBroker, notes_of
from dbg_broker.run.plan import Plan, make_plan, notes_of_unfound
from dbg_broker.run.remembered import Folder, Remembered, folder_of
from dbg_broker.run.settings import RunOptions, RunSettings, check
from dbg_broker.run.terminal import Screen, TerminalProcess, Wakeup, is_attachable
from dbg_wire.errors import BadInput, BadSecretFile, printable
from dbg_wire.finding.environment import HOME, JOB
from dbg_wire.finding.home import home_directory
from dbg_wire.messages.run_terminal import Task, Told
from dbg_wire.records.audit import What

NO_RANK_TOOK_PART = "no rank took part in the debugger; is dbg-broker installed in the Python that runs the job?"

LONG_SECONDS = 10.0
"""Seconds after which a job's ranks have registered, even if the job fails."""

HUNG_STATUS = 9
"""Exit status of a run that has ended its job because that hung; none of dbg-attach means something else by it."""

PASSED_ON = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
"""Signals that are meant for the job: Ctrl-C and Ctrl-\\ are typed at it, and a scheduler ends it by SIGTERM."""

Say = Callable[[str], None]
"""Write a line for people."""


def run(settings: RunSettings, environ: Mapping[str, str], say: Say) -> int:
    """Run a command until it ends and return its exit status; what it prints also goes to a file. Raise DbgError.

    The job and what it needs outlive this process, if its terminal is closed or it is killed.
    """
    number, cycle = f"{os.getpid()}", 1
    last: Remembered | None = None
    while True:
        one = _start(settings, environ, say, number, last)
        try:
            status = one.go()
        finally:
            one.close()
        if not one.again:
            return status
        settings = replace(settings, options=RunOptions(), command=(), again=True)
        # Not what lies in the folder: another run of this directory may have been the last one there.
        last = one.remembered
        cycle += 1
        number = f"{os.getpid()}.{cycle}"


@dataclass(frozen=True, slots=True)
class _Surroundings:
    """What all runs of one command line share."""

    home: str
    folder: Folder
    environ: Mapping[str, str]
    say: Say
    tmux: bool
    web: bool


def _start(
    settings: RunSettings, environ: Mapping[str, str], say: Say, number: str, last: Remembered | None
) -> _RunLife:
    settings = check(settings)
    folder = _open_folder(open_home(settings.home), settings.directory)
    plan = make_plan(settings, last or folder.load())
    _require_file(plan.options.commands)
    unfound = notes_of_unfound(plan.stops, plan.directory, plan.command)
    plan = replace(plan, notes=(*plan.notes, *unfound))
    return _RunLife(plan, _Surroundings(settings.home, folder, environ, say, settings.tmux, settings.web), number)


def _require_file(commands: str | None) -> None:
    if commands is not None and not os.access(commands, os.R_OK):
        raise BadInput(f"-x {printable(commands)} can't be read", "name a file of pdb commands")


def _open_folder(home: Path, directory: str) -> Folder:
    try:
        return folder_of(home, directory)
    except OSError as error:
        raise BadInput(
            f"nothing can be written to {printable(str(home))} ({error.strerror})", "set DBG_HOME to another directory"
        ) from None


class _RunLife:
    """One job from its start to its end; one thread, which waits for any of its processes to end."""

    def __init__(self, plan: Plan, around: _Surroundings, number: str) -> None:
        self._plan, self._around = plan, around
        self._name = job_name(plan.command, number, around.environ.get(JOB))
        listen = plan.options.listen or ("0.0.0.0" if is_for_many_hosts(plan.command) else "")  # noqa: S104
        self._broker = RunBroker(around.home, listen, plan.options.broker, around.environ)
        self._job = JobProcess()
        self._output = Path()
        self._token_file: str | None = None
        self._terminal: TerminalProcess | None = None
        self._screen = Screen()
        self._left = False
        self._is_hung = False
        self.again = False
        self.remembered: Remembered | None = None
        passed_on = dict.fromkeys(PASSED_ON, self._job.pass_on)
        self._wakeup = Wakeup({**passed_on, signal.SIGHUP: self._leave, signal.SIGWINCH: self._job.resize})

    def _start_job(self) -> None:
        plan, around = self._plan, self._around
        output, self._output = around.folder.open_output(self._name, plan.options.output)
        try:
            self._token_file = token_file_of(self._name, around.home, around.environ)
            environ = job_environment(
                own_environment(around.environ),
                home=around.home,
                job=self._name,
                options=plan.options,
                stops=plan.stops,
                token_file=self._token_file,
            )
            terminal = self._open_job_terminal()
            note(Path(around.home), What.RUN, job=self._name, text=shlex.join(plan.command))
            self._job.start(plan.command, environ, output, terminal)
        finally:
            os.close(output)

    def _open_job_terminal(self) -> JobTerminal | None:
        if not is_wanted(self._plan.options.pty, self._plan.command):
            return None
        try:
            return JobTerminal()
        except OSError as error:
            self._around.say(
                f"the job has no terminal of its own ({error.strerror}); its output goes to its file all the same"
            )
            return None

    def _start_terminal(self) -> TerminalProcess:
        plan = self._plan
        task = Task(
            job=self._name,
            output=str(self._output),
            ranks=plan.options.rank_filter or "all",
            prefer=plan.prefer,
            commands=plan.options.commands,
            attach=is_attachable(),
            stops=tuple(stop.place for stop in plan.stops),
            tmux=self._around.tmux,
            hang_after=float(plan.options.hang_after or 0) or None,
            on_hang=plan.options.on_hang,
            ends_at=end_by_scheduler(self._around.environ, time.time()),
            web=self._around.web,
        )
        self._tell_beginning(task)
        return TerminalProcess(task, self._around.environ, self._around.home)

    def _tell_beginning(self, task: Task) -> None:
        plan, say = self._plan, self._around.say
        asks_where = plan.options.listen is not None
        of_broker = notes_of(self._broker.found, plan.options.broker, plan.command, asks_where=asks_where)
        for sentence in (*plan.notes, *of_broker):
            say(sentence)
        say(f"job {self._name}, its output in {printable(task.output)}")
        when = "if this terminal closes" if task.attach else "there is no terminal here; from one"
        say(f"{when}: {self._way_back}")

    @property
    def _way_back(self) -> str:
        """Return what to type elsewhere to follow the job."""
        elsewhere = {name: value for name, value in self._around.environ.items() if name != HOME}
        home = f"DBG_HOME={printable(shlex.quote(self._around.home))} "
        with contextlib.suppress(BadInput):
            home = "" if home_directory(elsewhere) == self._around.home else home
        return f"{home}dbg-attach --follow {self._name}/stopped"

    def go(self) -> int:
        """Wait until job and terminal have ended, or until the terminal was closed; return the exit status."""
        with self._wakeup:
            self._begin()
            while not self._is_over:
                self._wait()
        if self._left and self._job.status is None:
            return 128 + signal.SIGHUP
        return HUNG_STATUS if self._is_hung else self._job.status or 0

    def _begin(self) -> None:
        self._broker.find()
        self._start_job()
        # The terminal starts beside the job, so that the job doesn't wait for it.
        try:
            self._terminal = self._start_terminal()
        except OSError as error:
            self._around.say(f"no terminal can be started ({error.strerror}), and the job goes on: {self._way_back}")
        # The run is remembered at its start, so that `--again` works even if this process is killed.
        self._remember()

    @property
    def _is_over(self) -> bool:
        return self._terminal is None and (self._left or self._job.status is not None)

    # ----------------------------------------------------------------------------------------------------- what comes

    def _wait(self) -> None:
        poll = select.poll()
        poll.register(self._wakeup, select.POLLIN)
        terminal, hold = self._terminal, self._broker.found.hold
        if terminal is not None and terminal.has_more:
            poll.register(terminal, select.POLLIN)
        if hold is not None:
            # Only the broker's end is waited for, not room in its pipe.
            poll.register(hold, 0)
        ready = {descriptor for descriptor, _ in poll.poll(self._job.milliseconds_left)}
        self._wakeup.drain()
        if terminal is not None and terminal.has_more and terminal.fileno() in ready:
            terminal.read()
            self._take_wish(terminal)
        if hold is not None and hold in ready:
            self._broker.has_died(is_needed=self._job.status is None)
        self._reap()
        if self._job.is_overdue():
            self._end_by_force()

    def _reap(self) -> None:
        """Take note of child processes that have ended."""
        if self._job.reap() and self._terminal is not None:
            self._terminal.job_is_over()
        if self._terminal is not None and self._terminal.process.poll() is not None:
            self._terminal_ended(self._terminal)
        self._broker.reap()

    def _take_wish(self, terminal: TerminalProcess) -> None:
        """End the job if that is asked for, so that it can run again or since it hangs; the terminal ends after it."""
        if terminal.told.again and not self.again:
            self.again = True
            self._job.end()
        if terminal.told.hung and not self._is_hung and self._job.status is None:
            self._is_hung = True
            self._job.end()

    def _terminal_ended(self, terminal: TerminalProcess) -> None:
        terminal.close()
        self._take_wish(terminal)
        self._terminal = None
        if terminal.process.returncode < 0:
            self._screen.restore()
        self._remember(terminal)
        if self._job.status is None and not self._left and not self.again:
            self._around.say(
                f"the terminal of job {self._name} has ended, and the job goes on; its output in "
                f"{printable(str(self._output))}, back to its ranks: {self._way_back}"
            )
        elif is_attachable() and not terminal.told.took_part and self._has_had_time:
            # Only an attached terminal can tell whether a rank took part.
            self._around.say(NO_RANK_TOOK_PART)

    @property
    def _has_had_time(self) -> bool:
        return self._job.status == 0 or time.monotonic() - self._job.began > LONG_SECONDS

    # ----------------------------------------------------------------------------------------------------- what is done

    def _leave(self, number: int, _: FrameType | None) -> None:
        self._left = True
        if self._terminal is not None:
            self._terminal.process.send_signal(number)

    def _end_by_force(self) -> None:
        """End a job that did not end by itself: its ranks on all hosts, and its launcher."""
        command = own_command("dbg_client.cli.main", ["kill", f"{self._name}/all", "-y"])
        environ = {**own_environment(self._around.environ), HOME: self._around.home}
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            subprocess.run(command, env=environ, capture_output=True, timeout=END_SECONDS, check=False)
        self._reap()
        self._job.kill()

    def _remember(self, terminal: TerminalProcess | None = None) -> None:
        told = terminal.told if terminal is not None else Told()
        self.remembered = self._plan.to_remember(told.breakpoints, told.rank)
        try:
            self._around.folder.save(self.remembered)
        except BadSecretFile as error:
            self._around.say(f"--again will not know this run: {error}")

    def close(self) -> None:
        """Let go of the broker, and of the job's token if the job is over."""
        if self._token_file is not None and self._job.status is not None:
            job_is_over(Path(self._token_file))
        self._broker.release()
