"""What the parts of one IDE's window share: the ranks of its target, questions to them, and what the IDE is told."""

from __future__ import annotations

from collections.abc import Sequence

from dbg_client.api.values import Values, values_of
from dbg_client.command_line.session_line import read_scope
from dbg_client.core.asking import Asker
from dbg_client.core.switchboard import Switchboard
from dbg_client.dap.messages import Message, Send, event, output
from dbg_client.questions.inspection import ask_one
from dbg_command.targets import Target, select
from dbg_wire.errors import NoSuchRank
from dbg_wire.messages import Action, RankAnswer
from dbg_wire.records.ranks import RankInfo, RankState


class Window:
    """The job as one window of an IDE has it; belongs to one event loop."""

    def __init__(self, switchboard: Switchboard, target: Target, send: Send) -> None:
        self.switchboard = switchboard
        self.target = target
        self._job = ""
        self._send = send

    @property
    def ranks(self) -> tuple[RankInfo, ...]:
        """Return the ranks of the target that have not exited, as the broker lists them now; empty if there are none.

        Raises AmbiguousTarget if they are of several jobs.
        """
        try:
            found = select(self.target, self.switchboard.directory.ranks).ranks
        except NoSuchRank:
            return ()
        self._keep_job(found)
        return tuple(rank for rank in found if rank.state is not RankState.EXITED)

    @property
    def job(self) -> str:
        """Return the job of the window's ranks, the first one's of several. Raises NoSuchRank."""
        if not self._job:
            _ = self.ranks
        if not self._job:
            raise NoSuchRank(self.target.text, len(self.switchboard.directory.ranks))
        return self._job

    def _keep_job(self, found: Sequence[RankInfo]) -> None:
        """Stay with the job whose ranks were found first: another one that starts is not for this window."""
        if not self._job:
            self._job = found[0].job
            self.target = read_scope(self.target, self._job)

    @property
    def may_act(self) -> bool:
        """Tell whether the token lets this window change anything."""
        return self.switchboard.may_act

    def now(self, rank: RankInfo) -> RankInfo:
        """Return a rank as it is listed now, or as it was at last."""
        return self.switchboard.directory.by_key.get(rank.key, rank)

    def asker(self, seconds: float | None = None) -> Asker:
        """Return what puts questions to ranks. Each raises TimedOut while the broker is away, or Declined."""
        return Asker(self.switchboard, seconds)

    async def ask_one(self, action: Action, rank: RankInfo, text: str = "") -> RankAnswer:
        """Return the answer of one rank. Raises RankError for any other than a value, and what questions raise."""
        return await ask_one(self.asker(), action, rank, text)

    def values(self, rank: RankInfo) -> Values:
        """Return the values of a stopped rank."""
        return values_of(self.switchboard, rank)

    # ----------------------------------------------------------------------------------------------------- what is told

    def event(self, name: str, body: Message | None = None) -> None:
        """Send an event to the IDE."""
        self._send(event(name, body))

    def tell(self, text: str, category: str = "console") -> None:
        """Print lines in the debug console; ``important`` as category opens a window with them in VS Code."""
        self._send(output(text, category))
