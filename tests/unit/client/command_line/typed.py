"""The verb that a command line makes, for tests."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TypeVar

from dbg_client.command_line.reading import Surroundings, read_verb
from dbg_client.verbs.preferences import NO_CONFIG, Config
from dbg_client.verbs.verb import Verb

V = TypeVar("V", bound=Verb)


def settled(line: str, kind: type[V], environ: Mapping[str, str] | None = None, *, config: Config = NO_CONFIG) -> V:
    """Return the verb of a command line, which is of this kind."""
    verb = read_verb(shlex.split(line), Surroundings(environ or {}, config))
    assert isinstance(verb, kind)
    return verb
