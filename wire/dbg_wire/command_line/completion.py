"""The scripts that make a shell complete our commands. Pure.

They ask the command itself, ``COMMAND --complete WORD…``, the last word being the one under the cursor. It answers by a
line for each candidate, with what it means behind a tab, or by :data:`FILES`.
"""

from __future__ import annotations

from collections.abc import Iterable

SHELLS = ("bash", "zsh", "fish")

FILES = ":files"
"""The line that leaves it to the shell to offer files."""

_BASH = """\
# Completion of {program} for bash; in ~/.bashrc:  eval "$({program} completion bash)"
_{name}() {{
    local line=${{COMP_LINE:0:COMP_POINT}} words current fixed value reply
    read -ra words <<< "$line"
    [[ $line == *[[:space:]] ]] && words+=('')
    current=${{words[${{#words[@]}}-1]}}
    # Of gpu013:5 bash replaces what stands behind the colon, and says so.
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

MIN_LIKENESS = 0.7
"""How alike two words are, from 0 to 1, for one to be offered for the other; a slip in a short verb leaves 0.85."""


def completion_script(program: str, shell: str) -> str:
    """Return what a user's shell has to evaluate; ``shell`` is one of :data:`SHELLS`."""
    return _SCRIPTS[shell].format(program=program, name=program.replace("-", "_"), files=FILES)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that is most like this one, the first of equals; None if none is much like it."""
    from difflib import SequenceMatcher  # loaded for mistakes alone

    likeness = {one: SequenceMatcher(None, one, word).ratio() for one in known}
    best = max(likeness, key=likeness.__getitem__, default=None)
    return best if best is not None and likeness[best] >= MIN_LIKENESS else None
