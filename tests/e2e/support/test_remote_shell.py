"""Both remote shells reach the host that they name, and pass it no variable of the caller's environment."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.netns import Host
from tests.support.processes import Processes
from tests.support.remote_shell import remote_shell, ssh_servers
from tests.support.requirements import needs_ssh

WORDS = ("hostname;", "echo", "$MINE-$DBG_HOME", "'two  words'")
"""Words that a shell at the other end gets as one text."""


def said(host: Host, command: str) -> str:
    """Call the other host from this one, with variables set that must not arrive."""
    result = host.run(command, "h2", *WORDS, env={**os.environ, "MINE": "set", "DBG_HOME": "/set"})
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_a_remote_shell_is_like_ssh(two_hosts: tuple[Host, Host], processes: Processes, tmp_path: Path) -> None:
    shell = remote_shell(tmp_path, two_hosts, processes)
    assert said(two_hosts[0], str(shell)) == "h2\n- two  words\n"


@needs_ssh
def test_ssh_is_like_ssh(two_hosts: tuple[Host, Host], processes: Processes, tmp_path: Path) -> None:
    commands = ssh_servers(tmp_path, two_hosts, processes)
    assert said(two_hosts[0], str(commands / "ssh")) == "h2\n- two  words\n"
