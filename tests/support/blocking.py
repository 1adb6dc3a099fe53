"""The library without ``await``, made of the asynchronous one: ``python -m tests.support.blocking`` writes it."""

from __future__ import annotations

import ast
import subprocess
import sys
import textwrap
from collections.abc import Iterator

from tests.support.packages import ROOT

API = ROOT / "client/dbg_client/api"
MODULE = API / "blocking.py"

HEAD = '''\
"""The library without ``await``: each call runs in a thread with an event loop of its own, so it works in notebooks.

One thread serves one connection. Ctrl-C gives the call up; what a rank has begun goes on.

Made of the asynchronous classes by ``python -m tests.support.blocking``; a test holds that it is current.
"""

from __future__ import annotations

from collections.abc import Iterator

from dbg_client.api.answers import Answer, Breakpoints, Collectives, Slow, Where, Why
from dbg_client.api.broker import TIMEOUT, AsyncBroker, open_broker
from dbg_client.api.loop_thread import Blocking, Entered, LoopThread
from dbg_client.api.ranks import AsyncJob, AsyncRanks
from dbg_client.api.stop import AsyncStop
from dbg_client.api.targets import Wanted
from dbg_client.api.values import ExceptionInfo, Variable, Variables
from dbg_client.core.directory import RankChange
from dbg_client.questions.inspection import Source
from dbg_client.words.settings import DEFAULT_SECONDS
from dbg_wire.records.ranks import Place, RankInfo
'''

TAIL = '''\
def connect(broker: str | None = None, *, timeout: float = TIMEOUT) -> Broker:
    """Return a connection to a broker; ``with connect() as broker:`` closes it at the end, and so does dropping it.

    ``broker`` is an address as in ``$DBG_BROKER``; without it the broker is found as the command line finds it.
    ``timeout`` is in seconds, for the broker and for answers. Raises NoBroker, BrokerUnreachable, or a Refused.
    """
    thread = LoopThread()
    try:
        opened = thread.do(open_broker(broker, timeout))
        thread.closed_by(opened.close)
        return Broker(opened, thread)
    except BaseException:
        thread.end()
        raise
'''

CLASSES = (
    ("stop", "AsyncStop", "Stop(Entered[AsyncStop])", "A stopped rank whose keyboard this program holds."),
    ("ranks", "AsyncRanks", "Ranks(Blocking[AsyncRanks])", "Ranks of a job, found anew at each call."),
    ("ranks", "AsyncJob", "Job(Ranks)", "All ranks of one job; ``job[5]`` and ``job['@1']`` are some of them."),
    ("broker", "AsyncBroker", "Broker(Blocking[AsyncBroker])", "A connection to a broker that comes back by itself."),
)
"""Each asynchronous class with its module, and the class that is made of it."""

NAMES = {"AsyncStop": "Stop", "AsyncRanks": "Ranks", "AsyncJob": "Job", "AsyncBroker": "Broker"}

DUNDERS = {"__getitem__": "", "__repr__": "", "_repr_html_": "", "__aenter__": "__enter__", "__aexit__": "__exit__"}
"""Names with underscores that both have, some by another name."""

BODIES = {
    # The connection's thread ends with it.
    "AsyncBroker.close": "self._thread.close(self._twin.close)",
    "AsyncBroker.__aenter__": "return self",
    "AsyncBroker.__aexit__": "self.close()",
    "AsyncBroker.ranks": "return self._now(lambda: self._twin.ranks)",
}


def text() -> str:
    """Return the module, not formatted."""
    parts = [HEAD]
    for module, name, header, sentence in CLASSES:
        tree = ast.parse((API / f"{module}.py").read_text())
        found = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
        methods = "\n\n".join(textwrap.indent(method, "    ") for method in _methods(found))
        parts.append(f'class {header}:\n    """{sentence}"""\n\n{_twin(name)}{methods}\n')
    return "\n\n".join([*parts, TAIL])


def _twin(name: str) -> str:
    return "    _twin: AsyncJob\n\n" if name == "AsyncJob" else ""


def _methods(found: ast.ClassDef) -> Iterator[str]:
    for node in found.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and (
            not node.name.startswith("_") or node.name in DUNDERS
        ):
            yield _method(node, f"{found.name}.{node.name}")


def _method(node: ast.FunctionDef | ast.AsyncFunctionDef, path: str) -> str:
    name = DUNDERS.get(node.name) or node.name
    decorators = [ast.unparse(one) for one in node.decorator_list]
    returned = ast.unparse(node.returns) if node.returns is not None else "None"
    for old, new in (*NAMES.items(), ("AsyncGenerator[RankChange, None]", "Iterator[RankChange]")):
        returned = returned.replace(old, new)
    if "asynccontextmanager" in decorators:
        returned = returned.removeprefix("AsyncIterator[").removesuffix("]")
    lines = ["@property"] if "property" in decorators else []
    lines.append(f"def {name}({ast.unparse(node.args)}) -> {returned}:")
    doc = ast.get_docstring(node)
    if doc is not None:
        last = "\n" if "\n" in doc else ""
        lines.append(textwrap.indent(f'"""{doc}{last}"""', "    "))
    lines.append(f"    {BODIES.get(path) or _body(node, name, decorators, returned)}")
    return "\n".join(lines)


def _body(node: ast.FunctionDef | ast.AsyncFunctionDef, name: str, decorators: list[str], returned: str) -> str:
    if "property" in decorators:
        return f"return self._twin.{name}"
    call = f"self._twin[{node.args.args[1].arg}]" if name == "__getitem__" else f"self._twin.{name}({_passed(node)})"
    if "asynccontextmanager" in decorators:
        return f"return {returned}({call}, self._thread)"
    if returned.startswith("Iterator["):
        return f"return self._thread.each({call})"
    if isinstance(node, ast.AsyncFunctionDef):
        return f"{'return ' if returned != 'None' else ''}self._thread.do({call})"
    if name == "__getitem__":
        return f"return {returned}({call}, self._thread)"
    if name == "__repr__":
        return f"return {call}"
    told = f"self._now(lambda: {call})" if _passed(node) else f"self._now(self._twin.{name})"
    if returned == "tuple[Job, ...]":
        return f"return tuple(Job(one, self._thread) for one in {told})"
    return f"return {returned}({told}, self._thread)" if returned in NAMES.values() else f"return {told}"


def _passed(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Return the arguments as a call passes them on."""
    names = [one.arg for one in node.args.args[1:]]
    return ", ".join([*names, *(f"{one.arg}={one.arg}" for one in node.args.kwonlyargs)])


def main() -> None:
    """Write the module."""
    MODULE.write_text(text(), encoding="utf-8")
    for arguments in (("check", "--fix", "--select", "I,F401"), ("format",)):
        subprocess.run([sys.executable, "-m", "ruff", *arguments, "--quiet", str(MODULE)], check=True)


if __name__ == "__main__":
    main()
