"""A stock ``remote_pdb`` as a session that terminals can leave and rejoin: its log, its prompts, the replies. Pure."""

from __future__ import annotations

import codecs
import re

from dbg_broker.classic.session import NOWHERE, QUIET_SECONDS, SESSION, ClassicSession, SessionOutput, Write
from dbg_wire.codec import Output, SessionLog
from dbg_wire.limits import MAX_DATA_BYTES
from dbg_wire.messages import Message, PromptInfo, PromptState, Replay, Replied, Reply, Report
from dbg_wire.records.ranks import Place
from dbg_wire.records.record import fitted
from dbg_wire.tables.engines import PDB

MAX_TAIL = 4096
"""Characters held back of a line that has no end yet, as it may be a prompt."""

_PROMPT = re.compile(r"(?<!\()\(+Pdb(?:\+\+)?\)+ \Z|\(com\) \Z|^>>> \Z|^\.\.\. \Z", re.MULTILINE)
_STATES = {"(com) ": PromptState.COMMANDS, ">>> ": PromptState.INTERACT, "... ": PromptState.MORE}
_BLOCKS = (PromptState.INTERACT, PromptState.MORE)
_PLACE = re.compile(r"^> (?P<file>.+)\((?P<line>[0-9]{1,9})\)(?P<function>[^\s()]{1,200})\(\)", re.MULTILINE)


class LineSession(ClassicSession):
    """Session that turns what a stock pdb writes into a log and prompts, and replies into lines for pdb."""

    engine = PDB
    no_screen = "a stock pdb has no screen; attach to see its log"
    no_continue = "a stock pdb goes on only when somebody types c; attach and type it"

    def __init__(self, now: float) -> None:
        super().__init__(now)
        self._running = True
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._log = SessionLog()
        self._tail = ""
        self._number = 0
        self._prompt: PromptInfo | None = None
        self._where = NOWHERE

    def received(self, data: bytes, now: float) -> list[SessionOutput]:
        """Take what pdb writes; pdb waits for a reply if its text ends in a prompt."""
        text = self._tail + self._decoder.decode(data)
        had_prompt, self._prompt = self._prompt is not None, None
        for place in _PLACE.finditer(text):
            self._where = fitted(Place, file=place["file"], line=int(place["line"]), function=place["function"])
        lines, newline, self._tail = text.rpartition("\n")
        outputs = self._append((lines + newline).replace("\r\n", "\n"))
        if len(self._tail) > MAX_TAIL:
            outputs += self._append(self._tail)
            self._tail = ""
        if (found := _PROMPT.search(self._tail)) is not None:
            outputs += self._append(self._tail[: found.start()])
            self._tail = found[0]
            self.is_proven = True
            return [*outputs, *self._ask(_STATES.get(found[0], PromptState.COMMAND), now)]
        self.due = now + QUIET_SECONDS
        return [*outputs, Report(report=self.report(now))] if had_prompt else outputs

    def message(self, message: Message, now: float) -> list[SessionOutput]:
        """Take replies and replays, too."""
        if isinstance(message, Reply):
            return self._reply(message, now)
        if isinstance(message, Replay):
            return self._replay(message)
        return super().message(message, now)

    # ---------------------------------------------------------------------------------------------------------- inner

    def _place(self) -> Place:
        return self._where

    def _prompt_info(self) -> PromptInfo | None:
        return self._prompt

    def _append(self, text: str) -> list[SessionOutput]:
        data = text.encode("utf-8", "replace")
        self._log.append(data)
        return self._show(data)

    def _ask(self, state: PromptState, now: float) -> list[SessionOutput]:
        self.due = None
        self._number += 1
        self._prompt = fitted(PromptInfo, number=self._number, offset=self._log.end, text=self._tail, state=state)
        return self._set_running(False, now) or [Report(report=self.report(now))]

    def _quiet(self, now: float) -> list[SessionOutput]:
        # A line without an end is taken for a question of the program itself.
        return self._ask(PromptState.INPUT, now) if self._tail else self._set_running(True, now)

    def _reply(self, reply: Reply, now: float) -> list[SessionOutput]:
        prompt = self._prompt
        refusal = ""
        if prompt is None or reply.prompt != prompt.number:
            refusal = "that prompt is gone"
        elif reply.generation != self._generation:
            refusal = "the keyboard was taken"
        elif "\n" in reply.text.rstrip("\n") and prompt.state not in _BLOCKS:
            refusal = "a stock pdb takes one line at a time"
        if prompt is None or refusal:
            return [Replied(prompt=reply.prompt, taken=False, reason=refusal)]
        line = reply.text.rstrip("\n") + "\n"
        self._prompt, self._tail = None, ""
        self.due = now + QUIET_SECONDS
        shown = self._append(prompt.text + line)
        settled = Replied(prompt=reply.prompt, taken=True)
        return [Write(line.encode("utf-8", "replace")), *shown, settled, Report(report=self.report(now))]

    def _replay(self, replay: Replay) -> list[SessionOutput]:
        if replay.session != SESSION:
            return []
        begin, data = self._log.since(replay.offset)
        starts = range(0, len(data), MAX_DATA_BYTES)
        return [Output(SESSION, begin + start, data[start : start + MAX_DATA_BYTES]) for start in starts]

    def _typed(self, data: bytes, now: float) -> list[SessionOutput]:
        return [self._lost(len(data), "a stock pdb takes whole lines")]
