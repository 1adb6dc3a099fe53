"""What keys mean in the picker: in its list, its filter, its question, and while it breaks into a rank."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import TYPE_CHECKING

from prompt_toolkit.filters import Condition, Filter
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from dbg_client.terminal.prompt_keys import PrefixKey

if TYPE_CHECKING:
    from dbg_client.terminal.picker import Picker


class Mode(enum.Enum):
    """What the keys are for."""

    LIST = enum.auto()
    FILTER = enum.auto()
    QUESTION = enum.auto()
    BUSY = enum.auto()


def pick_keys(picker: Picker) -> KeyBindings:
    """Return the keys of a picker."""
    keys = KeyBindings()

    def when(mode: Mode) -> Filter:
        return Condition(lambda: picker.mode is mode)

    _bind_list(keys, picker, when(Mode.LIST))
    _bind_filter(keys, picker, when(Mode.FILTER))
    _bind_moves(keys, picker, when(Mode.LIST), when(Mode.LIST) | when(Mode.FILTER))
    for key in (Keys.Any, "enter", "escape"):
        keys.add(key, filter=when(Mode.QUESTION))(lambda event: picker.answered(event.data in ("y", "Y")))
    keys.add("escape", filter=when(Mode.BUSY))(lambda event: picker.give_up())
    keys.add("c-c", eager=True)(lambda event: picker.interrupt())
    PrefixKey(picker.prefix).bind_for_session(keys, lambda event, typed: picker.leave_with(typed))
    return keys


def _bind_list(keys: KeyBindings, picker: Picker, when: Filter) -> None:
    keys.add("enter", filter=when)(lambda event: picker.pick())
    keys.add("q", filter=when)(lambda event: picker.leave())

    @keys.add("/", filter=when)
    def _begin_filter(event: KeyPressEvent) -> None:
        picker.mode = Mode.FILTER

    @keys.add("escape", filter=when)
    def _escape(event: KeyPressEvent) -> None:
        if picker.list.filter:
            picker.narrow("")
        else:
            picker.leave()


def _bind_filter(keys: KeyBindings, picker: Picker, when: Filter) -> None:
    @keys.add(Keys.Any, filter=when)
    def _type(event: KeyPressEvent) -> None:
        if event.data.isprintable():
            picker.narrow(picker.list.filter + event.data)

    @keys.add("enter", filter=when)
    def _enter(event: KeyPressEvent) -> None:
        picker.to_list()
        picker.pick()

    @keys.add("escape", filter=when)
    def _stop(event: KeyPressEvent) -> None:
        picker.to_list()
        picker.narrow("")

    keys.add("backspace", filter=when)(lambda event: picker.narrow(picker.list.filter[:-1]))


def _bind_moves(keys: KeyBindings, picker: Picker, in_list: Filter, anywhere: Filter) -> None:
    moves: tuple[tuple[str, Callable[[], int]], ...] = (
        ("down", lambda: 1),
        ("up", lambda: -1),
        ("pagedown", lambda: picker.height),
        ("pageup", lambda: -picker.height),
        ("home", lambda: -picker.list.total),
        ("end", lambda: picker.list.total),
    )
    for key, lines in moves:
        keys.add(key, filter=anywhere)(lambda event, lines=lines: picker.move(lines()))
    keys.add("j", filter=in_list)(lambda event: picker.move(1))
    keys.add("k", filter=in_list)(lambda event: picker.move(-1))
