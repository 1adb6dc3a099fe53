"""Each fault in the middle of PuDB, of pdb under output and of a question: no key is lost or applied twice."""

from __future__ import annotations

import pytest

from tests.full.hosts.figures import note
from tests.full.hosts.stage import Stage
from tests.full.hosts.table_of_faults import HOSTS, NETWORK, PROCESSES, Fault
from tests.support.time_unit import seconds


@pytest.mark.xdist_group("faults on one host")
@pytest.mark.parametrize("fault", [*NETWORK, *PROCESSES], ids=lambda fault: fault.name)
def test_nothing_is_lost_and_nothing_doubled(fault: Fault, stage: Stage) -> None:
    undergo(fault, stage)


@pytest.mark.xdist_group("faults between two hosts")
@pytest.mark.parametrize("fault", HOSTS, ids=lambda fault: fault.name)
def test_between_two_hosts_neither(fault: Fault, stage_of_two_hosts: Stage) -> None:
    undergo(fault, stage_of_two_hosts)


def undergo(fault: Fault, stage: Stage) -> None:
    """Let a fault pass, print what was measured, and hold it to the fault's bounds."""
    measured = stage.undergo(fault)
    for figures in measured:
        note(figures)
    for figures in measured:
        assert (figures.lost, figures.doubled, figures.lines_lost) == (0, 0, 0), figures
        assert figures.back <= seconds(fault.back), figures
        assert figures.noticed is None or figures.noticed <= seconds(fault.noticed or 0), figures
