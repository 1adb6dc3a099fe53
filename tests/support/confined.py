"""Run a command under what a unit of systemd forbids to a process: `confined.py UNIT -- COMMAND…`.

Applied are SystemCallFilter=, RestrictAddressFamilies=, RestrictNamespaces=, MemoryDenyWriteExecute= and
NoNewPrivileges=, in the way systemd does. This file runs by itself in a root without our other files.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

PR_SET_NO_NEW_PRIVS, PR_SET_MDWE = 38, 65
NAMESPACE_CALLS = frozenset({"unshare", "setns"})


def option(unit: str, name: str) -> list[str]:
    return re.findall(rf"^{name}=(.*)$", unit, re.MULTILINE)


def calls_of(words: list[str]) -> set[str]:
    """Return the system calls that a filter's words stand for, sets such as @process taken apart."""
    found: set[str] = set()
    for word in words:
        if word.startswith("@"):
            listed = subprocess.run(["systemd-analyze", "syscall-filter", word], capture_output=True, check=True)
            lines = [line.strip() for line in listed.stdout.decode().splitlines()[1:]]
            found |= calls_of([line for line in lines if line and not line.startswith("#")])
        else:
            found.add(word)
    return found


def allowed_calls(unit: str) -> set[str]:
    allowed: set[str] = set()
    for value in option(unit, "SystemCallFilter"):
        if value.startswith("~"):
            allowed -= calls_of(value[1:].split())
        else:
            allowed |= calls_of(value.split())
    return allowed - (NAMESPACE_CALLS if option(unit, "RestrictNamespaces") == ["yes"] else set())


def confine(unit: str) -> None:
    """Forbid this process and all that it starts what the unit forbids; this is for good."""
    import pyseccomp

    prctl = ctypes.CDLL(None, use_errno=True).prctl
    assert option(unit, "NoNewPrivileges") == option(unit, "MemoryDenyWriteExecute") == ["yes"]
    for number in (PR_SET_NO_NEW_PRIVS, PR_SET_MDWE):
        assert prctl(number, 1, 0, 0, 0) == 0, os.strerror(ctypes.get_errno())
    calls = pyseccomp.SyscallFilter(pyseccomp.ERRNO(errno.EPERM))
    for name in allowed_calls(unit) - {"socket", "clone3"}:
        try:
            number = pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, name)
        except (ValueError, OSError):
            continue  # a call of another processor or of a later kernel
        if number >= 0:
            calls.add_rule(pyseccomp.ALLOW, name)
    # Flags of clone3 can't be looked at by a filter; the C library then takes clone.
    calls.add_rule(pyseccomp.ERRNO(errno.ENOSYS), "clone3")
    for family in option(unit, "RestrictAddressFamilies")[0].split():
        calls.add_rule(pyseccomp.ALLOW, "socket", pyseccomp.Arg(0, pyseccomp.EQ, int(getattr(socket, family))))
    calls.load()


if __name__ == "__main__":
    _, path, _, *command = sys.argv
    confine(Path(path).read_text())
    os.execvp(command[0], command)  # noqa: S606 - there is no shell to keep away from
