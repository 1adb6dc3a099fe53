"""What a command line makes, for tests."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TypeVar

from dbg_client.words.command_line import parse
from dbg_client.words.config import NO_CONFIG, Config
from dbg_client.words.settings import VerbSettings
from dbg_client.words.settle import settle

Settings = TypeVar("Settings", bound=VerbSettings)


def settled(
    line: str,
    kind: type[Settings],
    environ: Mapping[str, str] | None = None,
    *,
    tty: bool = True,
    config: Config = NO_CONFIG,
) -> Settings:
    """Return the settings of a command line, which are of this kind."""
    settings = settle(parse(shlex.split(line)), environ or {}, stdout_is_tty=tty, config=config)
    assert isinstance(settings, kind)
    return settings
