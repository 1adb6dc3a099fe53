"""What a broker prints when it serves."""

from __future__ import annotations

import socket

import pytest

from dbg_broker.settings import Listen, RecordSettings, ServeSettings
from dbg_broker.verbs.announcing import announce
from dbg_wire.endpoint import Endpoint
from dbg_wire.rendezvous import DriverTokenPlace

ENDPOINT = Endpoint(host="login1", port=6900, secure=True, fingerprint="sha256:" + "0" * 64)
MEMORY: DriverTokenPlace = "memory"
ASK: DriverTokenPlace = "ask"
HERE = Listen(host="127.0.0.1", port=0)


def said(settings: ServeSettings, classic: socket.socket | None = None) -> str:
    lines: list[str] = []
    announce(settings, ENDPOINT, classic, lines.append)
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        (ServeSettings(home="/h"), "for them: dbg-broker serve --listen 0.0.0.0"),
        (ServeSettings(home="/h", record=RecordSettings(directory="/casts")), "records each stop in /casts"),
        (ServeSettings(home="/h", driver_token=MEMORY), "the driver's token is in this broker's memory: terminals"),
        (ServeSettings(home="/h", driver_token=ASK), "in this broker's memory alone: each terminal asks for it"),
    ],
)
def test_what_a_user_has_to_know_is_said_where_it_holds(settings: ServeSettings, line: str) -> None:
    text = said(settings)
    assert line in text
    assert "export DBG_HOME=/h" in text
    elsewhere = said(ServeSettings(home="/h", listen=Listen(host="::", port=6900)))
    assert line not in elsewhere


def test_a_runs_own_broker_says_one_line() -> None:
    assert said(ServeSettings(home="/h", idle_seconds=1.0)).startswith("dbg-broker ")
    assert "\n" not in said(ServeSettings(home="/h", idle_seconds=1.0))


def test_a_longest_lease_does_not_hold_for_stock_sessions_which_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as classic:
        text = said(ServeSettings(home="/h", classic=HERE, max_lease=60.0), classic)
        assert f"port={classic.getsockname()[1]}" in text
        assert "--max-lease does not hold there" in text
        assert "--max-lease" not in said(ServeSettings(home="/h", classic=HERE), classic)
    assert "--max-lease" not in said(ServeSettings(home="/h", max_lease=60.0))
