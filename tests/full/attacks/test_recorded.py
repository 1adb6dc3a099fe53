"""Floods of output that the broker records: no key waits for long."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from dbg_wire import limits
from tests.full.attacks import terminals
from tests.full.attacks.cases import Case
from tests.full.attacks.conftest import Attacked, under_attack

CASES = [
    Case("recorded output in pieces of one byte", terminals.shown_to_many, {"count": 4}),
    Case(
        "recorded output of 64 KiB at once",
        terminals.shown_to_many,
        {"count": 4, "size": limits.MAX_DATA_BYTES, "times": 4},
    ),
]


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Attacked]:
    """A broker that records."""
    folder = tmp_path_factory.mktemp("recording")
    with under_attack(folder, request.config.getoption("logs"), "--record", str(folder / "casts")) as attacked:
        yield attacked


def recorded_bytes(attacked: Attacked) -> float:
    """Return how many bytes the broker has recorded."""
    (written,) = re.findall(r"^dbg_broker_recorded_bytes_total (\S+)$", attacked.echo.page(), re.MULTILINE)
    return float(written)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_flood_that_is_recorded_delays_no_key(recording: Attacked, case: Case) -> None:
    with recording.by(case.attack, **case.options):
        felt = recording.feel()
        while recorded_bytes(recording) <= limits.MAX_DATA_BYTES:
            felt = recording.feel()
    recording.tell(case.name, felt)
    felt.check()
