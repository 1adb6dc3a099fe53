"""What ranks and terminals do, as a recorder is told of it; nothing is done without one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dbg_broker.hub.links import TerminalLink
from dbg_broker.net.metrics import Recorded
from dbg_broker.ranks.rank_record import RankRecord
from dbg_broker.recording.recorder import Recorder
from dbg_broker.terminals.seats import Seats
from dbg_wire.messages import Notice


class RecordedStops:
    """The recorder of a hub, if there is one. All methods belong to the event loop's thread, and do not block."""

    def __init__(self, seats: Seats, terminals: Mapping[int, TerminalLink]) -> None:
        self._seats = seats
        self._terminals = terminals
        self.recorder: Recorder | None = None

    def changed(self, rank: RankRecord) -> None:
        """Take note of what a rank reports, and of its end."""
        if self.recorder is not None:
            self.recorder.changed(rank)

    def shown(self, key: str, frame: bytes, numbers: Sequence[int]) -> None:
        """Record terminal bytes that were sent to these terminals, and tell them so if a session begins with them."""
        if self.recorder is not None and self.recorder.shown(key, frame):
            for number in numbers:
                self.tell(number, key)

    def typed(self, key: str, keys: bytes) -> None:
        """Record keys that were passed on to a rank, if that is asked for."""
        if self.recorder is not None:
            self.recorder.typed(key, keys)

    def seated(self, key: str) -> None:
        """Take note of who types at a rank now."""
        if self.recorder is not None:
            self.recorder.seated(key, self._typing_at(key))

    def tell(self, number: int, key: str) -> None:
        """Tell a terminal at a rank that the session there is recorded, if it is."""
        if self.recorder is not None and (text := self.recorder.notice(key)):
            self._terminals[number].connection.send_message(Notice(text=text))

    def forget(self, key: str) -> None:
        """End the recording of a rank that is no longer listed."""
        if self.recorder is not None:
            self.recorder.forget(key)

    def close(self) -> None:
        """End all recordings, and give the disk a second for what waits."""
        if self.recorder is not None:
            self.recorder.close()

    def figures(self) -> Recorded | None:
        """Return what has been recorded; None without a recorder."""
        recorder = self.recorder
        if recorder is None:
            return None
        writer = recorder.writer
        return Recorded(
            open=recorder.open,
            begun=writer.begun,
            bytes=writer.written,
            lost=recorder.lost + writer.lost,
            removed=writer.removed,
        )

    def _typing_at(self, key: str) -> str:
        """Return in words who types at a rank; empty for nobody."""
        if self._seats.driver(key) is None:
            return ""
        link = self._terminals[self._seats.viewers(key)[0]]
        return f"{link.name}, {link.bearer.shown},"
