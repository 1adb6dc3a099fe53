"""``dbg-broker config``: the settings of this user's terminals, as they tell themselves."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping

from dbg_broker.run.own_programs import own_command, own_environment
from dbg_wire.finding.environment import HOME


def show_config(home: str | None, environ: Mapping[str, str], *, as_json: bool) -> int:
    """Have ``dbg-attach config`` print, and return its exit status: one program reads the file for both.

    ``home`` is what was given as option, None if nothing was.
    """
    words = own_command("dbg_client.cli", ["config", *(["--json"] if as_json else [])])
    variables = own_environment(environ) | ({HOME: home} if home is not None else {})
    return subprocess.run(words, env=variables, check=False).returncode
