"""The rank of a script of CPython's ``test_pdb``: ``python -m tests.unit.agent.pdb_script_rank KIND …``.

``conversation NAME`` runs a doctest; ``program [--stop-first] [-m] TARGET`` runs a file or module, and replies with the
lines of its stdin. Each line that calls pdb calls ``dbg_agent.set_trace(engine="pdb")`` instead; all else stays, down
to the file names. There is no broker: what is printed and asked goes as events to the file that the variable
``PDB_SCRIPT_EVENTS`` names.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import io
import json
import linecache
import os
import sys
import traceback
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dbg_agent.program import own_rank
from dbg_agent.rank.rank import Rank
from dbg_agent.settings import Settings
from dbg_wire.codec import Output, decode_data
from dbg_wire.messages import PromptState, Reply, Sender, Viewers
from tests.unit.agent.fake_link import FakeNetwork
from tests.unit.agent.pdb_scripts import MODULE, Conversation, conversations

EVENTS = "PDB_SCRIPT_EVENTS"


class Events:
    """A file of what is seen, written in order and at once, so that a process that is killed loses no event."""

    def __init__(self) -> None:
        self._file = os.open(os.environ[EVENTS], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(self, *event: object) -> None:
        os.write(self._file, json.dumps(event).encode() + b"\n")


class Printed(io.TextIOBase):
    """The program's stdout."""

    def __init__(self, events: Events) -> None:
        super().__init__()
        self._events = events

    def write(self, text: str) -> int:
        self._events.note("out", text)
        return len(text)


class EndingRank(Rank):
    """A rank that ends where it would be killed."""

    def kill(self) -> None:
        """End with status 0."""
        os._exit(0)


class Alone:
    """The broker and terminal of this rank, which reply at once and in the stopped thread."""

    def __init__(self, events: Events, *, rc: bool) -> None:
        self._events, self._answered = events, 0
        self._lines: Iterator[str] = iter(())
        network = FakeNetwork(self._read, lambda _message: None, self._look)
        self.rank = rank = EndingRank(Settings(engine="pdb", rc=rc), make_link=network.link)
        # This process becomes this rank at its first stop.
        vars(own_rank)["Rank"] = lambda *_arguments: rank
        rank.from_broker.on_message(Viewers(viewers=1, generation=1, rows=30, columns=100, colors=256))

    def feed(self, lines: Iterator[str]) -> None:
        """Reply with these lines from here on."""
        self._lines = lines

    def _read(self, frame: bytes) -> None:
        output = decode_data(frame, Sender.AGENT)
        if isinstance(output, Output):
            self._events.note("log", output.data.decode())

    def _look(self) -> None:
        prompt = self.rank.debuggers.console.prompt
        if prompt is None or prompt.number <= self._answered:
            return
        self._answered = prompt.number
        confirms = prompt.state is PromptState.CONFIRM
        reply = "k" if confirms else next(self._lines, None)
        self._events.note("confirm" if confirms else "prompt", prompt.text, reply)
        if reply is None:
            # The lines are used up: the process ends, as at the end of stdin.
            os._exit(0)
        self.rank.from_broker.on_message(Reply(prompt=prompt.number, generation=1, text=reply))


# ---------------------------------------------------------------------------------------------------- how pdb is called


class Stops(ast.NodeTransformer):
    """A transformer that puts a stop of the rank in place of each call of a plain pdb."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Replace ``pdb.Pdb(…).set_trace()``."""
        self.generic_visit(node)
        called = node.func
        if not isinstance(called, ast.Attribute) or called.attr not in STOPS or node.args:
            return node
        stop = _located(ast.parse(STOPS[called.attr], mode="eval").body, node.lineno, node.col_offset)
        return stop if _is_plain(called.value) else node


STOP = "__import__('dbg_agent').set_trace(engine='pdb')"
STOP_ASYNC = (
    "__import__('dbg_agent.program.entry').program.entry.stop_async(__import__('sys')._getframe(), {'engine': 'pdb'})"
)
STOPS = {"set_trace": STOP, "set_trace_async": STOP_ASYNC}
STOP_WITH_RC = "__import__('dbg_agent').set_trace(engine='pdb', rc=True)"


def _is_plain(node: ast.expr) -> bool:
    """Tell whether an expression is pdb without options, but those that a rank's pdb has in any case."""
    if isinstance(node, ast.Call):
        usual = {keyword.arg for keyword in node.keywords} <= {"nosigint", "readrc"}
        return ast.unparse(node.func) == "pdb.Pdb" and usual
    return ast.unparse(node) in ("pdb", "pdb_instance")


def _located(tree: ast.expr, line: int, column: int) -> ast.expr:
    for node in ast.walk(tree):
        if isinstance(node, ast.expr):
            node.lineno = node.end_lineno = line
            node.col_offset = node.end_col_offset = column
    return tree


def _stop_first(tree: ast.Module) -> None:
    """Have the program stop before its first line, as under ``python -m pdb``."""
    first = tree.body[0]
    # Up to Python 3.12 pdb stops at the next line, from 3.13 on at once.
    line = first.lineno - (sys.version_info < (3, 13))
    stop = ast.Expr(_located(ast.parse(STOP_WITH_RC, mode="eval").body, line, 0))
    stop.lineno, stop.col_offset = line, 0
    tree.body.insert(0, stop)


# -------------------------------------------------------------------------------------------------------- conversations


def run_conversation(conversation: Conversation, events: Events, alone: Alone) -> None:
    """Run the examples of a doctest as doctest does; a stand-in takes the lines that pdb is to read."""

    @contextmanager
    def feed(lines: list[str]) -> Iterator[None]:
        alone.feed(iter(lines))
        yield

    namespace = {**importlib.import_module(MODULE).__dict__, "PdbTestInput": feed}
    for number, example in enumerate(conversation.examples):
        name = conversation.file_of(number)
        # doctest keeps its examples in linecache while they run.
        linecache.cache[name] = (len(example.source), None, example.source.splitlines(keepends=True), name)
        tree = Stops().visit(ast.parse(example.source, name, "single"))
        events.note("begin", number)
        try:
            exec(compile(tree, name, "single"), namespace)  # noqa: S102
        except Exception:
            events.note("out", traceback.format_exc())


# ------------------------------------------------------------------------------------------------------------- programs


def run_program(arguments: list[str]) -> None:
    """Run a file or a module as the main program."""
    stop_first = arguments[0] == "--stop-first"
    target = arguments[1:] if stop_first else arguments
    main = types.ModuleType("__main__")
    if target[0] == "-m":
        sys.path[0] = str(Path.cwd())
        path = _describe_module(target[1], main)
        sys.argv[:] = target[1:]
    else:
        path = target[0]
        sys.path[0] = str(Path(path).resolve().parent)
        sys.argv[:] = target
    main.__file__ = path
    with io.open_code(path) as file:
        tree = Stops().visit(ast.parse(file.read(), path))
    if stop_first:
        _stop_first(tree)
    sys.modules["__main__"] = main
    exec(compile(tree, path, "exec"), main.__dict__)  # noqa: S102


def _describe_module(name: str, main: types.ModuleType) -> str:
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = importlib.util.find_spec(f"{name}.__main__")
    if spec is None or spec.origin is None:
        raise ImportError(f"No module named {name}")
    main.__spec__, main.__package__ = spec, spec.parent
    return spec.origin


def run(kind: str, *arguments: str) -> None:
    """Run what the command line names."""
    events = Events()
    sys.stdout = Printed(events)
    alone = Alone(events, rc="--stop-first" in arguments)
    if kind == "conversation":
        run_conversation(conversations()[arguments[0]], events, alone)
    else:
        alone.feed(line.rstrip("\n") for line in sys.stdin)
        run_program(list(arguments))


if __name__ == "__main__":
    run(*sys.argv[1:])
