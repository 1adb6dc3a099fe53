"""The verb that a command line makes, for tests."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TypeVar

from dbg_client.command_line.reading import read_verb
from dbg_client.verbs.verb import Verb

V = TypeVar("V", bound=Verb)


def settled(line: str, kind: type[V], environ: Mapping[str, str] | None = None) -> V:
    """Return the verb of a command line, which is of this kind."""
    verb = read_verb(shlex.split(line), environ or {})
    assert isinstance(verb, kind)
    return verb
