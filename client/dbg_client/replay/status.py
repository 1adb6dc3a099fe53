"""The status line of a replay. Pure; its texts come from the recording and may be hostile."""

from __future__ import annotations

from dbg_wire.errors import printable

from ..views.width import clip, text_width
from .player import Player
from .text import clock

_KEYS = (
    "space pauses  + - speed  ← → 5 s  [ ] markers  / searches  . next  q quits",
    "space pauses  + - speed  / searches  q quits",
    "space + - [ ] / . q",
    "q quits",
)


def status_line(player: Player, rank_size: tuple[int, int], columns: int, sought: str | None) -> str:
    """Return the line, padded to one column less than ``columns``; ``sought`` is what is typed behind ``/``."""
    room = max(0, columns - 1)
    if sought is not None:
        line = clip(f" /{printable(sought)}   Enter searches, Esc gives up", room)
        return line + " " * (room - text_width(line))
    state = "the end" if player.is_over else "paused" if player.is_paused else "playing"
    speed = "" if player.speed == 1.0 else f"  {player.speed:g}x"
    left = f" {state}  {clock(player.position)}/{clock(player.tape.duration)}{speed}"
    rows, of_columns = player.size
    is_cropped = rows > rank_size[0] or of_columns > rank_size[1]
    parts = [player.note, f"part of a larger screen, {of_columns}x{rows}" if is_cropped else "", player.marker]
    for part in filter(None, parts):
        shown = f"   {printable(part)}"
        if text_width(left) + text_width(shown) <= room - text_width(_KEYS[-1]) - 3:
            left += shown
    keys = next((text for text in _KEYS if text_width(left) + text_width(text) + 4 <= room), "")
    line = clip(left, room)
    return line + " " * (room - text_width(line) - text_width(keys) - bool(keys)) + keys + " " * bool(keys)
