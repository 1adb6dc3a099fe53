"""The parser of the command line, and the place to which each verb is added."""

from __future__ import annotations

import argparse
from typing import NoReturn, TypeAlias

from dbg_wire.errors import BadInput, printable


class BrokerParser(argparse.ArgumentParser):
    """Parser that reports a mistake in one sentence, like every other error of this command."""

    def error(self, message: str) -> NoReturn:
        raise BadInput(printable(message, 300), "see `dbg-broker --help`")


Verbs: TypeAlias = "argparse._SubParsersAction[BrokerParser]"
