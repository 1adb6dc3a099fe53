"""``dbg-broker certificate`` and ``serve --certificate``, with a broker that serves."""

from __future__ import annotations

import json
import re
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from dbg_broker.home.certificate import DAY_SECONDS
from tests.support.certificates import Authority
from tests.support.serving import Serve, Serving, run
from tests.support.time_unit import seconds
from tests.unit.broker.peers import trusting_context


def document(home: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((home / "broker.json").read_text())
    return found


def shown_by(home: Path) -> str:
    """Return the fingerprint of the certificate that a new connection is shown."""
    done = run(home, "check")
    assert done.returncode == 0, done.stderr
    (line,) = re.findall(r"^fingerprint  ok .* (sha256:\S+)$", done.stdout, re.MULTILINE)
    return str(line)


def test_two_steps_exchange_the_certificate_and_both_fingerprints_are_known_in_between(
    home: Path, serve: Serve
) -> None:
    serve()
    first = document(home)["fingerprint"]
    assert "fingerprints" not in document(home)
    prepared = run(home, "certificate", "--rotate")
    told = document(home)
    second = told["fingerprints"][1]
    # An older reader takes the first, which is shown until the switch.
    assert told["fingerprint"] == first == told["fingerprints"][0] == shown_by(home)
    url = told["url"].removeprefix("wss://")
    assert f"and the broker that serves has been told: {second}\n" in prepared.stdout
    assert f"export DBG_BROKER='{url}#{first},{second}'\n" in prepared.stdout
    assert "ready since before" in run(home, "certificate", "--rotate").stdout
    listed = run(home, "certificate").stdout.splitlines()
    assert [line.strip() for line in listed if "sha256:" in line] == [first, second]

    switched = run(home, "certificate", "--switch")
    assert switched.returncode == 0, switched.stderr
    assert document(home)["fingerprint"] == second == shown_by(home)
    assert "fingerprints" not in document(home)
    refused = run(home, "check", f"{url}#{first}")
    assert refused.returncode == 5
    assert f"its certificate is {second}, not {first}" in refused.stderr
    assert run(home, "check", f"{url}#{first},{second}").returncode == 0
    assert run(home, "certificate", "--switch").returncode == 2
    log = run(home, "log").stdout
    assert f"prepared {second}" in log
    assert f"switched: {second}" in log


def test_without_a_broker_the_next_start_shows_what_was_switched_to(home: Path, serve: Serve) -> None:
    serve().end()
    assert "the next certificate is ready: sha256:" in run(home, "certificate", "--rotate").stdout
    switched = run(home, "certificate", "--switch").stdout
    serve()
    assert f": {document(home)['fingerprint']}\n" in switched


def page(serving: Serving, path: str, token: str | None = None) -> str:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    url = f"{serving.url.replace('wss', 'https')}{path}"
    request = urllib.request.Request(url, headers=headers)  # noqa: S310
    with urllib.request.urlopen(request, context=trusting_context(), timeout=seconds(30)) as answer:  # noqa: S310
        text: str = answer.read().decode()
        return text


def test_a_certificate_of_an_authority_is_served_and_its_end_is_told_everywhere(
    home: Path, serve: Serve, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    options = authority.issue("own", "127.0.0.1", days=12.5)
    serving = serve("--listen", "127.0.0.1:0", *options)
    assert not (home / "certificate.pem").exists()
    by_pin = run(home, "check")
    assert re.search(r"^certificate  until \S+ \S+ \(in 12 days\)$", by_pin.stdout, re.MULTILINE)
    assert "warning: the certificate: until " in by_pin.stdout
    assert "\nauthority    " not in by_pin.stdout

    run(home, "token", "--role", "driver", "--name", "alice", "--for", "100d")
    by_both = run(home, "check", changes={"DBG_CA": str(authority.path)})
    assert by_both.returncode == 0, by_both.stderr
    assert re.search(r"^authority    .*trustme.*, until 3000-", by_both.stdout, re.MULTILINE)
    assert re.search(r"^issued token alice, a driver's, until \S+ \S+ \(in 99 days\)$", by_both.stdout, re.MULTILINE)
    assert by_both.stdout.count("warning") == 1

    other = Authority(tmp_path, "other")
    refused = run(home, "check", changes={"DBG_CA": str(other.path)})
    assert refused.returncode == 5
    assert "DBG_CA does not vouch for the certificate at wss://127.0.0.1:" in refused.stderr

    left = float(re.findall(r"^dbg_broker_certificate_expires_seconds (\S+)$", page(serving, "/metrics"), re.M)[0])
    assert abs(left - 12.5 * DAY_SECONDS) < 3600
    # The files are renewed where they are; the home's own certificate has nothing to do with it.
    assert "renew those files" in run(home, "certificate", "--rotate").stderr
    before = document(home)["fingerprint"]
    authority.issue("own", "127.0.0.1", days=400)
    assert run(home, "certificate", "--switch").returncode == 0
    assert shown_by(home) == document(home)["fingerprint"] != before
    authority.issue("own", "127.0.0.1", days=-1, from_days=-2)
    failed = run(home, "certificate", "--switch")
    assert "expired" in failed.stderr
    assert failed.returncode == 1
    assert run(home, "check").returncode == 0
    _, _, errors = serving.end()
    assert re.search(r"WARNING the broker's certificate is near its end: until \S+ \S+ \(in 12 days\)", errors)


def test_any_file_is_shown_with_names_and_dates(home: Path, tmp_path: Path) -> None:
    options = Authority(tmp_path).issue("own", "login1.example", days=-1, from_days=-2)
    done = run(home, "certificate", options[1])
    assert re.fullmatch(
        r"sha256:\w{64}\n  expired .* \(\d+ hours ago\), for login1.example, signed by .*trustme.*\n", done.stdout
    )
    assert run(home, "certificate", "/gone.pem").stderr == "dbg-broker: /gone.pem is not there; name a PEM file\n"
    assert run(home, "certificate", options[3]).returncode == 2


def test_the_bearer_of_a_token_learns_when_it_ends(home: Path, serve: Serve) -> None:
    serving = serve()
    token = run(home, "token", "--role", "watcher", "--name", "alice", "--job", "j", "--for", "2h").stdout.strip()
    told = json.loads(page(serving, "/bearer", token))
    assert (told["role"], told["name"], told["job"]) == ("watcher", "alice", "j")
    assert told["expires"] - told["made"] == pytest.approx(7200, abs=1)
    with pytest.raises(urllib.error.HTTPError, match="401"):
        page(serving, "/bearer", "x" * 43)
    assert 'dbg_broker_refusals_total{status="401"} 1' in page(serving, "/metrics")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--certificate", "x.pem"], "--certificate was given without --key"),
        (["--key", "x.pem"], "--key was given without --certificate"),
        (["--insecure", "--certificate", "x.pem", "--key", "x.key"], "--insecure serves without TLS"),
        (["--insecure", "--driver-token", "memory"], "--insecure sends tokens in the clear"),
    ],
)
def test_options_that_contradict_each_other(home: Path, arguments: list[str], why: str) -> None:
    done = run(home, "serve", *arguments)
    assert done.returncode == 2
    assert why in done.stderr
