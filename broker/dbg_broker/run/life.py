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
from dbg_broker.run import keeper
from dbg_broker.run.environment import (
    is_for_many_hosts,
    job_environment,
    job_name,
    own_command,
    own_environment,
    token_file_of,
)
from dbg_broker.run.keeper import JobTerminal, is_wanted
from dbg_broker.run.own_broker import Found, broker_options, find_or_start, notes_of
from dbg_broker.run.plan import Plan, make_plan
from dbg_broker.run.remembered import Folder, Remembered, folder_of
from dbg_broker.run.settings import RunSettings, Wishes, check
from dbg_broker.run.terminal import Screen, TerminalProcess, Wakeup, is_attachable
from dbg_wire.errors import BadInput, BadSecretFile, DbgError, printable
from dbg_wire.finding.environment import HOME, JOB
from dbg_wire.finding.home import home_directory
from dbg_wire.messages.run_terminal import Task, Told

END_SECONDS = 10.0
"""Seconds between SIGTERM to a job that is to run again, and its end by force: launchers take up to five to end all
their ranks, and stopped ranks don't react to SIGTERM."""

LONG_SECONDS = 10.0
"""Seconds after which a job's ranks have registered, even if the job fails."""

RESTARTS = 3
"""Brokers that a run finds or starts in place of ones that died, at most: a further one would die, too."""

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
        settings = replace(settings, wishes=Wishes(), command=(), again=True)
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


def _start(
    settings: RunSettings, environ: Mapping[str, str], say: Say, number: str, last: Remembered | None
) -> _RunLife:
    settings = check(settings)
    folder = _open_folder(open_home(settings.home), settings.directory)
    plan = make_plan(settings, last or folder.load())
    _require_file(plan.wishes.commands)
    if plan.stops:
        from dbg_broker.run.plan import notes_of_unfound  # loaded where it is needed

        unfound = notes_of_unfound(plan.stops, plan.directory, plan.command)
        plan = replace(plan, notes=(*plan.notes, *unfound))
    return _RunLife(plan, _Surroundings(settings.home, folder, environ, say, settings.tmux), number)


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

    def __init__(self, plan: Plan, surroundings: _Surroundings, number: str) -> None:
        self._plan = plan
        self._home, self._folder = surroundings.home, surroundings.folder
        self._environ, self._say = surroundings.environ, surroundings.say
        self._tmux = surroundings.tmux
        self._name = job_name(plan.command, number, self._environ.get(JOB))
        self._listen = plan.wishes.listen or ("0.0.0.0" if is_for_many_hosts(plan.command) else "")  # noqa: S104
        self._options = broker_options(plan.wishes, plan.directory)
        self._screen = Screen()
        self._status: int | None = None
        self._left = False
        self._deadline: float | None = None
        self._restarts = 0
        self.again = False
        self.remembered: Remembered | None = None
        self._broker = Found("")
        self._brokers: list[subprocess.Popen[bytes]] = []
        """Brokers that this run has started and that have not been waited for yet."""
        self._began = 0.0
        self._output = Path()
        self._token_file: str | None = None
        self._is_starting = False
        self._missed: list[int] = []
        self._job: keeper.Job | None = None
        self._job_terminal: JobTerminal | None = None
        self._terminal: TerminalProcess | None = None
        self._wakeup = Wakeup(
            {
                **dict.fromkeys(PASSED_ON, self._pass_on),
                signal.SIGHUP: self._leave,
                signal.SIGWINCH: self._resize,
            }
        )

    def _start_job(self) -> keeper.Job:
        plan = self._plan
        output, self._output = self._folder.open_output(self._name, plan.wishes.output)
        self._token_file = token_file_of(self._name, self._home, self._environ)
        environ = job_environment(
            own_environment(self._environ),
            home=self._home,
            job=self._name,
            wishes=plan.wishes,
            stops=plan.stops,
            token_file=self._token_file,
        )
        self._job_terminal = self._open_job_terminal()
        self._note_start()
        try:
            return keeper.start(plan.command, environ, output, self._job_terminal)
        finally:
            os.close(output)
            if self._job_terminal is not None:
                self._job_terminal.close()

    def _note_start(self) -> None:
        from dbg_broker.audit.entries import Entry, What, encode_entry
        from dbg_broker.audit.files import append
        from dbg_dial.user import user_name

        entry = Entry(
            at=time.time(),
            what=What.RUN,
            terminal=user_name(),
            job=self._name,
            text=shlex.join(self._plan.command),
        )
        # The job matters more than the entry.
        with contextlib.suppress(OSError):
            append(Path(self._home), encode_entry(entry))

    def _open_job_terminal(self) -> JobTerminal | None:
        if not is_wanted(self._plan.wishes.pty, self._plan.command):
            return None
        try:
            return JobTerminal()
        except OSError as error:
            self._say(
                f"the job has no terminal of its own ({error.strerror}); its output goes to its file all the same"
            )
            return None

    def _start_terminal(self) -> TerminalProcess:
        plan = self._plan
        task = Task(
            job=self._name,
            output=str(self._output),
            ranks=plan.wishes.rank_filter or "all",
            prefer=plan.prefer,
            commands=plan.wishes.commands,
            attach=is_attachable(),
            stops=tuple(stop.place for stop in plan.stops),
            tmux=self._tmux,
            hang_after=float(plan.wishes.hang_after or 0) or None,
        )
        self._tell_beginning(task)
        return TerminalProcess(task, self._environ, self._home)

    def _tell_beginning(self, task: Task) -> None:
        plan = self._plan
        for note in (*plan.notes, *notes_of(self._broker, plan.wishes, self._options, plan.command)):
            self._say(note)
        self._say(f"job {self._name}, its output in {printable(task.output)}")
        when = "if this terminal closes" if task.attach else "there is no terminal here; from one"
        self._say(f"{when}: {self._way_back}")

    @property
    def _way_back(self) -> str:
        """Return what to type elsewhere to follow the job."""
        elsewhere = {name: value for name, value in self._environ.items() if name != HOME}
        home = f"DBG_HOME={printable(shlex.quote(self._home))} "
        with contextlib.suppress(BadInput):
            home = "" if home_directory(elsewhere) == self._home else home
        return f"{home}dbg-attach --follow {self._name}/stopped"

    def go(self) -> int:
        """Wait until job and terminal have ended, or until the terminal was closed; return the exit status."""
        with self._wakeup:
            self._begin()
            while not self._is_over:
                self._wait()
        if self._left and self._status is None:
            return 128 + signal.SIGHUP
        return self._status or 0

    def _begin(self) -> None:
        self._find_broker()
        self._began = time.monotonic()
        self._is_starting = True
        self._job = self._start_job()
        for number in self._missed:
            self._job.signal(number)
        # The terminal starts beside the job, so that the job doesn't wait for it.
        try:
            self._terminal = self._start_terminal()
        except OSError as error:
            self._say(f"no terminal can be started ({error.strerror}), and the job goes on: {self._way_back}")
        # The run is remembered at its start, so that `--again` works even if this process is killed.
        self._remember()

    @property
    def _is_over(self) -> bool:
        return self._terminal is None and (self._left or self._status is not None)

    # ----------------------------------------------------------------------------------------------------- what comes

    def _wait(self) -> None:
        poll = select.poll()
        poll.register(self._wakeup, select.POLLIN)
        if self._terminal is not None and self._terminal.has_more:
            poll.register(self._terminal, select.POLLIN)
        if self._broker.hold is not None:
            # Only the broker's end is waited for, not room in its pipe.
            poll.register(self._broker.hold, 0)
        left = None if self._deadline is None else max(0.0, self._deadline - time.monotonic()) * 1000
        ready = {descriptor for descriptor, _ in poll.poll(left)}
        self._wakeup.drain()
        if self._terminal is not None and self._terminal.has_more and self._terminal.fileno() in ready:
            self._terminal.read()
            self._take_wish(self._terminal)
        if self._broker.hold is not None and self._broker.hold in ready:
            self._broker_died(self._broker.hold)
        self._reap()
        if self._deadline is not None and time.monotonic() >= self._deadline:
            self._deadline = None
            self._end_by_force()

    def _reap(self) -> None:
        """Take note of child processes that have ended."""
        if self._job is not None and self._status is None:
            pid, status = os.waitpid(self._job.keeper, os.WNOHANG)
            if pid:
                self._job_ended(keeper.shell_status(os.waitstatus_to_exitcode(status)))
        if self._terminal is not None and self._terminal.process.poll() is not None:
            self._terminal_ended(self._terminal)
        self._brokers = [broker for broker in self._brokers if broker.poll() is None]

    def _job_ended(self, status: int) -> None:
        self._status = status
        self._deadline = None
        if self._terminal is not None:
            self._terminal.job_is_over()

    def _take_wish(self, terminal: TerminalProcess) -> None:
        """End the job if that is asked for, so that it can run again; the terminal ends after it."""
        if terminal.told.again and not self.again:
            self.again = True
            self._end_job()

    def _terminal_ended(self, terminal: TerminalProcess) -> None:
        terminal.close()
        self._take_wish(terminal)
        self._terminal = None
        if terminal.process.returncode < 0:
            self._screen.restore()
        self._remember(terminal)
        if self._status is None and not self._left and not self.again:
            self._say(
                f"the terminal of job {self._name} has ended, and the job goes on; its output in "
                f"{printable(str(self._output))}, back to its ranks: {self._way_back}"
            )
        elif is_attachable() and not terminal.told.took_part and self._has_had_time:
            # Only an attached terminal can tell whether a rank took part.
            self._say("no rank took part in the debugger; is dbg-broker installed in the Python that runs the job?")

    @property
    def _has_had_time(self) -> bool:
        return self._status == 0 or time.monotonic() - self._began > LONG_SECONDS

    def _broker_died(self, hold: int) -> None:
        os.close(hold)
        self._broker = Found(self._broker.url)
        if self._status is not None or self._restarts == RESTARTS:
            return
        self._restarts += 1
        # The terminal shows the outcome, as the screen is the terminal's.
        with contextlib.suppress(DbgError):
            self._find_broker()

    def _find_broker(self) -> None:
        self._broker = find_or_start(self._home, self._listen, self._options, self._environ)
        if self._broker.process is not None:
            self._brokers.append(self._broker.process)

    # ----------------------------------------------------------------------------------------------------- what is done

    def _pass_on(self, number: int, _: FrameType | None) -> None:
        if self._job is not None:
            if self._status is None:
                self._job.signal(number)
        elif self._is_starting:
            # The job may run already, and not be known yet.
            self._missed.append(number)
        else:
            raise KeyboardInterrupt

    def _leave(self, number: int, _: FrameType | None) -> None:
        self._left = True
        if self._terminal is not None:
            self._terminal.process.send_signal(number)

    def _resize(self, number: int, _: FrameType | None) -> None:
        """Make the job's terminal as large as this one; after its end the terminal may be another's."""
        if self._job_terminal is not None and self._job is not None and self._status is None:
            self._job_terminal.resize()
            self._job.signal(number)

    def _end_job(self) -> None:
        if self._job is not None and self._status is None:
            self._job.signal(signal.SIGTERM)
            # A process that was suspended, by Ctrl-Z for instance, takes SIGTERM only after this signal.
            self._job.signal(signal.SIGCONT)
            self._deadline = time.monotonic() + END_SECONDS

    def _end_by_force(self) -> None:
        """End a job that did not end by itself: its ranks on all hosts, and its launcher."""
        command = own_command("dbg_client.cli", [f"{self._name}/all", "--kill", "-y"])
        environ = {**own_environment(self._environ), HOME: self._home}
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            subprocess.run(command, env=environ, capture_output=True, timeout=END_SECONDS, check=False)
        if self._job is not None:
            self._reap()
            if self._status is None:
                self._job.signal(signal.SIGKILL)

    def _remember(self, terminal: TerminalProcess | None = None) -> None:
        told = terminal.told if terminal is not None else Told()
        self.remembered = self._plan.to_remember(told.breakpoints, told.rank)
        try:
            self._folder.save(self.remembered)
        except BadSecretFile as error:
            self._say(f"--again will not know this run: {error}")

    def close(self) -> None:
        """Let go of the broker, and of the job's token if the job is over."""
        if self._token_file is not None and self._status is not None:
            job_is_over(Path(self._token_file))
        if self._broker.hold is not None:
            os.close(self._broker.hold)
