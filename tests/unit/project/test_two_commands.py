"""Each command knows the verbs of the other one, so that it can say which program has a verb."""

from __future__ import annotations

from dbg_broker.cli.parser import OF_THE_TERMINAL, parser_of_the_command, verbs_of
from dbg_client.words.verbs import OF_THE_BROKER, VERBS

OF_BROKER = set(verbs_of(parser_of_the_command()))
OF_TERMINAL = {row.name for row in VERBS}


def test_each_command_knows_the_verbs_that_only_the_other_has() -> None:
    assert set(OF_THE_BROKER) == OF_BROKER - OF_TERMINAL
    assert OF_TERMINAL - OF_BROKER - {"help"} == OF_THE_TERMINAL
