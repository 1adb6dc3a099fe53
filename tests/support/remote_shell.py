"""Remote shells from one host of the tests to another, to which no variable of the caller's environment passes.

``remote_shell`` writes a stand-in for ssh that needs no server; ``ssh_servers`` starts real servers for a real client.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.support.netns import Host
from tests.support.processes import MARK, Child, Processes
from tests.support.requirements import find_command
from tests.support.time_unit import seconds

LOGIN_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""The PATH of root at a login without any profile."""

STAND_IN = """\
#!/bin/sh
host=$1
shift
case $host in
{cases}
esac
echo "no such host: $host" >&2
exit 255
"""

WITH_ACCOUNTS = 'mount --bind "$1" /etc/passwd && shift && exec "$@"'
"""Shell code for a host, which has mounts of its own: it gives the user another home there, with the test's keys."""

CLIENT = """\
#!/bin/sh
exec {ssh} -F {configuration} "$@"
"""

CLIENT_CONFIGURATION = """\
Host *
IdentityFile {folder}/client
IdentitiesOnly yes
BatchMode yes
StrictHostKeyChecking no
UserKnownHostsFile /dev/null
LogLevel ERROR
"""


def remote_shell(folder: Path, hosts: Sequence[Host], processes: Processes) -> Path:
    """Write a command ``HOST WORD…`` that has a shell on that host run the words, as ssh does; return its path."""
    login = ["env", "-i", *(f"{name}={value}" for name, value in _login(processes, str(folder)).items())]
    cases = (f'{host.name}) exec {shlex.join([*login, *host.command(["sh", "-c"])])} "$*" ;;' for host in hosts)
    return _write_command(folder / "remote-shell", STAND_IN.format(cases="\n".join(cases)))


def ssh_servers(folder: Path, hosts: Sequence[Host], processes: Processes) -> Path:
    """Start an ssh server on each host, and return a folder for PATH with an ``ssh`` that gets in there."""
    home = folder / "login"
    (home / ".ssh").mkdir(parents=True, mode=0o700)
    home.chmod(0o700)
    _make_key(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "client")])
    _make_key(["dropbearkey", "-t", "ed25519", "-f", str(folder / "server")])
    shutil.copy(folder / "client.pub", home / ".ssh/authorized_keys")
    accounts = folder / "passwd"
    accounts.write_text(f"root:x:0:0:root:{home}:/bin/bash\n")
    for host in hosts:
        _start_server(folder, accounts, host, processes)
    configuration = folder / "ssh.conf"
    configuration.write_text(CLIENT_CONFIGURATION.format(folder=folder))
    commands = folder / "bin"
    commands.mkdir()
    _write_command(commands / "ssh", CLIENT.format(ssh=find_command("ssh"), configuration=configuration))
    return commands


def _start_server(folder: Path, accounts: Path, host: Host, processes: Processes) -> Child:
    # In the foreground, logged to stderr, no passwords, no forwarding. -e gives sessions the server's environment,
    # which here holds a login's variables and the mark by which the test finds leftover processes.
    server = [str(find_command("dropbear")), "-F", "-E", "-s", "-j", "-k", "-e", "-r", str(folder / "server")]
    command = host.command(["sh", "-c", WITH_ACCOUNTS, "sh", str(accounts), *server, "-p", f"{host.ip}:22"])
    started = processes.start(f"ssh-{host.name}", command, env=_login(processes, str(folder)))
    started.wait_for_output("Not backgrounding", stream="stderr")
    return started


def _login(processes: Processes, home: str) -> dict[str, str]:
    return {"PATH": LOGIN_PATH, "HOME": home, MARK: processes.mark}


def _make_key(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=seconds(30))


def _write_command(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path
