"""What a broker prints when it serves."""

from __future__ import annotations

import shlex
import socket
import subprocess

import pytest

from dbg_broker.settings import ClassicSettings, Listen, RecordSettings, ServeSettings
from dbg_broker.verbs.listening import announce, lines_to_paste
from dbg_wire.finding.endpoint import Endpoint
from dbg_wire.finding.rendezvous import DriverTokenPlace

ENDPOINT = Endpoint(host="login1", port=6900, secure=True, fingerprint="sha256:" + "0" * 64)
MEMORY: DriverTokenPlace = "memory"
ASK: DriverTokenPlace = "ask"
HERE = ClassicSettings(Listen(host="127.0.0.1", port=0))


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


@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize("pins", [1, 2])
def test_no_terminal_breaks_a_fingerprint_that_is_to_be_pasted(shell: str, pins: int) -> None:
    address = "login1.cluster:6900#" + ",".join(["sha256:" + "0" * 64] * pins)
    lines = lines_to_paste("where it is not", address, "DBG_TOKEN_FILE=/h/t", 80)
    assert lines[0] == "where it is not:"
    assert max(map(len, lines)) <= 80
    typed = "\n".join([*lines[1:], 'printf "%s %s" "$DBG_BROKER" "$DBG_TOKEN_FILE"'])
    ran = subprocess.run([shell, "-c", typed], capture_output=True, check=True, text=True)
    assert ran.stdout == f"{address} /h/t"


def test_a_line_that_fits_or_goes_to_a_file_stays_one() -> None:
    address = "login1:6900#sha256:" + "0" * 64
    line = f"where it is not:  export DBG_BROKER={shlex.quote(address)} DBG_TOKEN_FILE=/h/t"
    assert lines_to_paste("where it is not", address, "DBG_TOKEN_FILE=/h/t", None) == [line]
    assert lines_to_paste("where it is not", address, "DBG_TOKEN_FILE=/h/t", len(line)) == [line]
