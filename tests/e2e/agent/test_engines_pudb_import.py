"""The import of PuDB leaves nothing behind, and loads no large module that the program has not loaded itself."""

from __future__ import annotations

import subprocess
import sys

from tests.support.time_unit import seconds

IMPORTS = """\
import sys
from dbg_agent.engines.faults import unwarned
from dbg_agent.engines.pudb_import import OPTIONAL_MODULES, doing_without
before = set(sys.modules)
with unwarned(), doing_without(OPTIONAL_MODULES):
    import pudb.debugger
for name, module in list(sys.modules.items()):
    if "." not in name and name not in before and "site-packages" in (getattr(module, "__file__", None) or ""):
        print(name)
"""


WHAT_PUDB_NEEDS = {"pudb", "urwid", "urwid_readline", "wcwidth", "pygments", "jedi", "parso", "typing_extensions"}


def test_no_library_is_loaded_that_pudb_can_do_without() -> None:
    command = [sys.executable, "-c", IMPORTS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds(30), check=True)
    assert set(done.stdout.split()) <= WHAT_PUDB_NEEDS
