"""Argparse parser of a command, options for help and completion, durations, mistyped words. Pure.

The completion scripts call ``COMMAND --complete WORD…``; the last word is the word at the cursor. The command prints a
line for each candidate, with a description after a tab, or :data:`FILES`.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Sequence
from typing import NoReturn

from dbg_wire.errors import BadInput, printable

SHELLS = ("bash", "zsh", "fish")

FILES = ":files"
"""Line that the command prints instead of candidates, so that the shell completes file names."""

_BASH = """\
# Completion of {program} for bash; in ~/.bashrc:  eval "$({program} completion bash)"
_{name}() {{
    local line=${{COMP_LINE:0:COMP_POINT}} words current fixed value reply
    read -ra words <<< "$line"
    [[ $line == *[[:space:]] ]] && words+=('')
    current=${{words[${{#words[@]}}-1]}}
    # For gpu013:5 bash replaces only the part after the colon, which is $2.
    fixed=${{current%"$2"}}
    COMPREPLY=()
    reply=$("$1" --complete "${{words[@]:1}}" 2> /dev/null)
    if [[ $reply == '{files}' ]]; then
        compopt -o default 2> /dev/null
        return
    fi
    while IFS=$'\\t' read -r value _; do
        [[ -n $value ]] && printf -v value %q "$value" && COMPREPLY+=("${{value#"$fixed"}}")
    done <<< "$reply"
}}
complete -F _{name} {program}
"""

_ZSH = """\
#compdef {program}
# Completion of {program} for zsh; in ~/.zshrc, below compinit:  eval "$({program} completion zsh)"
_{name}() {{
    local -a lines values shown
    local line
    lines=("${{(@f)$("$words[1]" --complete "${{(@)words[2,CURRENT-1]}}" "$PREFIX" 2> /dev/null)}}")
    if [[ $lines[1] == '{files}' ]]; then
        _files
        return
    fi
    for line in $lines; do
        values+=("${{line%%$'\\t'*}}")
        shown+=("${{line/$'\\t'/  -- }}")
    done
    (( $#values )) && compadd -l -d shown -a values
}}
if [[ ${{funcstack[1]}} == _{name} ]]; then
    _{name} "$@"
else
    compdef _{name} {program}
fi
"""

_FISH = """\
# Completion of {program} for fish; in ~/.config/fish/config.fish:  {program} completion fish | source
function __{name}_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l lines ($words[1] --complete $words[2..-1] "$current" 2> /dev/null)
    if test "$lines[1]" = '{files}'
        __fish_complete_path "$current"
    else
        printf '%s\\n' $lines
    end
end
complete -c {program} -f -a '(__{name}_complete)'
"""

_SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def completion_script(program: str, shell: str) -> str:
    """Return the script for a user's shell to evaluate; ``shell`` is one of :data:`SHELLS`."""
    return _SCRIPTS[shell].format(program=program, name=program.replace("-", "_"), files=FILES)


_FILES = frozenset({"FILE", "DIR"})
"""Metavars of options with a file or a folder as value."""


class CommandParser(argparse.ArgumentParser):
    """Parser that reports a mistake in one sentence, like every other error of its command."""

    @property
    def help_page(self) -> str:
        """The command that shows the help."""
        return f"{self.prog.split()[0]} --help"

    def error(self, message: str) -> NoReturn:
        raise BadInput(printable(message, 300), f"see `{self.help_page}`")

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if action.option_strings and action.choices is not None and value not in action.choices:
            *others, last = action.choices
            take = f"{', '.join(map(str, others))} or {last}"
            what = f"{action.option_strings[0]} {printable(str(value))!r} is not a valid choice"
            raise BadInput(what, f"use {take}")
        super()._check_value(action, value)


def options_of(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return the options that the help shows."""
    return [action for action in parser._actions if action.option_strings and action.help != argparse.SUPPRESS]


def help_of(option: argparse.Action) -> str:
    """Return the help of an option, with its default inserted."""
    return (option.help or "") % vars(option)


def usage_of(action: argparse.Action) -> str:
    """Return an option or an operand as it is typed."""
    value = action.metavar if isinstance(action.metavar, str) else None
    if value is None and action.choices is not None:
        value = "|".join(map(str, action.choices))
    if not action.option_strings:
        return value or action.dest
    takes_value = action.nargs != 0 and value is not None
    shown = f"[{value}]" if action.nargs == "?" else value
    return ", ".join(action.option_strings) + (f" {shown}" if takes_value else "")


def complete_option(parser: argparse.ArgumentParser, before: Sequence[str], current: str) -> list[str] | None:
    """Return a line for each option or value of an option that completes ``current``; None if no option fits there."""
    option = next((action for action in options_of(parser) if before and before[-1] in action.option_strings), None)
    if option is not None and option.nargs is None:
        return [FILES] if option.metavar in _FILES else lines([(each, "") for each in option.choices or ()], current)
    if not current.startswith("-"):
        return None
    return lines([(flag, help_of(action)) for action in options_of(parser) for flag in action.option_strings], current)


def lines(candidates: Iterable[tuple[str, str]], current: str) -> list[str]:
    """Return a line for each possible completion of the current word, with its description after a tab."""
    return [f"{word}\t{meaning}" if meaning else word for word, meaning in candidates if word.startswith(current)]


MIN_LIKENESS = 0.7
"""Minimum similarity, from 0 to 1, to suggest a known word for a mistyped word: one wrong letter in a short verb gives
0.85."""


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the most similar known word, the first if several are equally similar; None without a similar word."""
    from difflib import SequenceMatcher  # not at the top, because only a mistyped word needs it

    likeness = {one: SequenceMatcher(None, one, word).ratio() for one in known}
    best = max(likeness, key=likeness.__getitem__, default=None)
    return best if best is not None and likeness[best] >= MIN_LIKENESS else None


_SPAN = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)(s|m|h|d)?")
_SECONDS = {None: 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def read_duration(text: str, name: str, most: float) -> float:
    """Parse a duration into seconds. Raise BadInput, which names the option, if it is invalid or too long."""
    found = _SPAN.fullmatch(text)
    seconds = float(found[1]) * _SECONDS[found[2]] if found is not None else 0.0
    if seconds > most:
        raise BadInput(f"{name} {printable(text)!r} is too long", f"use {_shown(most)} at most")
    if seconds <= 0:
        raise BadInput(f"{name} {printable(text)!r} is not a duration", "write e.g. 60s, 5m or 1h")
    return seconds


def _shown(seconds: float) -> str:
    return f"{seconds / 86400:g}d" if seconds >= 86400 else f"{seconds:g}s"
