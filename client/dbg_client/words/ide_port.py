"""The port of ``--dap``, and the options that go with it. Pure."""

from __future__ import annotations

from dbg_client.words.arguments import ANY_PORT, Arguments
from dbg_wire.errors import BadInput, printable

MAX_PORT = 65535


def target_and_port(arguments: Arguments) -> tuple[str | None, int | None]:
    """Return the ranks to serve and the port, 0 for a free one, None for stdin and stdout. Raises BadInput."""
    target, text = arguments.target, arguments.port
    _refuse_contradictions(arguments)
    if text is None or text == ANY_PORT:
        return target, None if text is None else 0
    if not (text.isascii() and text.isdecimal()):
        # `--dap gpu01:*`: argparse took the only target for the option's value.
        if target is None:
            return text, 0
        raise BadInput(f"--dap {printable(text)!r} is no port", "write a number, or leave it out for a free port")
    if len(text) > 5 or int(text) > MAX_PORT:
        raise BadInput(f"--dap {printable(text, 20)} is no port", f"write 1024 to {MAX_PORT}, or leave it out")
    return target, int(text)


def _refuse_contradictions(arguments: Arguments) -> None:
    if arguments.wait is not None:
        raise BadInput("--wait waits for one stop, and an IDE is told of each", "leave --wait out")
    if arguments.no_secret and arguments.port is None:
        raise BadInput("--no-secret is for a port, and stdin and stdout have no need of a secret", "add --dap")
    if arguments.vscode and arguments.port is not None:
        raise BadInput("--vscode writes a file and --dap serves an IDE", "give one of them")
