"""The settings of ``serve``: addresses to listen on, the home, and seconds without use."""

# ruff: noqa: S104 - nothing here listens anywhere

from __future__ import annotations

import argparse
import re

import pytest

from dbg_broker.cli.parser import parser_of_the_command
from dbg_broker.settings import (
    IDLE_SECONDS,
    ClassicSettings,
    ClusterSettings,
    EventCommand,
    Listen,
    RecordSettings,
    home,
    idle_seconds,
    parse_allowed,
    parse_bytes,
    parse_classic,
    parse_cluster,
    parse_command,
    parse_listen,
    parse_size,
    ports_to_try,
    serve_settings,
)
from dbg_wire.errors import BadInput


@pytest.mark.parametrize(
    ("text", "listen"),
    [
        ("0.0.0.0:6900", Listen(host="0.0.0.0", port=6900)),
        ("0.0.0.0", Listen(host="0.0.0.0", port=None)),
        (":7000", Listen(host="127.0.0.1", port=7000)),
        ("login1:0", Listen(host="login1", port=0)),
        ("[::1]:6900", Listen(host="::1", port=6900)),
        ("[::]", Listen(host="::", port=None)),
    ],
)
def test_addresses_are_read(text: str, listen: Listen) -> None:
    assert parse_listen(text) == listen


@pytest.mark.parametrize(
    "text", ["", "6900", "h:x", "h:99999", "::1", "[gpu]:1", "a b:1", "h:1:2", "h\x1b:1", "wss://h:1", "h:-1"]
)
def test_what_is_no_address_is_named_with_what_to_write(text: str) -> None:
    with pytest.raises(BadInput, match=r"--listen .*; write ") as refused:
        parse_listen(text)
    assert str(refused.value).isprintable()


def test_only_a_port_that_was_given_must_be_free() -> None:
    assert ports_to_try(Listen()) == (6900, 0)
    assert ports_to_try(Listen(port=7000)) == (7000,)
    assert ports_to_try(Listen(port=0)) == (0,)


@pytest.mark.parametrize(
    ("host", "loopback", "everywhere"),
    [("127.0.0.1", True, False), ("localhost", True, False), ("::1", True, False), ("0.0.0.0", False, True),
     ("::", False, True), ("login1", False, False), ("10.0.0.5", False, False)],
)  # fmt: skip
def test_reach_of_an_address(host: str, loopback: bool, everywhere: bool) -> None:
    assert (Listen(host=host).is_loopback, Listen(host=host).is_everywhere) == (loopback, everywhere)


def test_home_is_the_argument_then_the_variable_then_the_default() -> None:
    assert home("/x", {"DBG_HOME": "/y"}, "/here") == "/x"
    assert home("x/../z", {}, "/here") == "/here/z"
    assert home(None, {"DBG_HOME": "/y"}, "/here") == "/y"
    assert home(None, {"HOME": "/home/me"}, "/here") == "/home/me/.local/state/dbg-broker"
    with pytest.raises(BadInput):
        home("", {}, "/here")


def test_serve_settings() -> None:
    given = argparse.Namespace(
        home=None,
        listen=None,
        insecure=True,
        insecure_anywhere=False,
        verbose=1,
        while_used=False,
        classic="6899",
        classic_size="240x72",
        allow=["10.0.0.0/8"],
        audit_input=True,
        certificate=None,
        key=None,
        driver_token="file",  # noqa: S106 - a word
        record="casts",
        record_input=True,
        record_max="500M",
        on_event="sh -c 'echo a b'",
        max_lease="8h",
        event_directory=None,
        log_format="json",
        cluster=None,
        cluster_credentials=None,
    )
    settings = serve_settings(given, {"DBG_HOME": "/y", "DBG_IDLE": "5"}, "/here")
    assert (settings.home, settings.listen, settings.insecure, settings.verbosity) == ("/y", Listen(), True, 1)
    assert settings.idle_seconds is None
    assert settings.audits_input
    assert settings.record == RecordSettings(directory="/here/casts", max_bytes=500 * 2**20, records_input=True)
    assert (settings.on_event, settings.max_lease) == (EventCommand(("sh", "-c", "echo a b")), 28800.0)
    assert settings.logs_json
    assert settings.allowed == parse_allowed(["10.0.0.0/8"])
    assert settings.classic == ClassicSettings(Listen(host="127.0.0.1", port=6899), (72, 240))


@pytest.mark.parametrize(("text", "idle"), [(None, IDLE_SECONDS), ("", IDLE_SECONDS), ("0.5", 0.5), ("604800", 604800)])
def test_a_runs_own_broker_stays_for_some_seconds_without_use(text: str | None, idle: float) -> None:
    given = argparse.Namespace(
        home="/y",
        listen=None,
        insecure=False,
        insecure_anywhere=False,
        verbose=0,
        while_used=True,
        classic=None,
        classic_size=None,
        allow=[],
        audit_input=False,
        certificate=None,
        key=None,
        driver_token="file",  # noqa: S106 - a word
        record=None,
        record_input=False,
        record_max=None,
        on_event=None,
        max_lease=None,
        event_directory=None,
        log_format="text",
        cluster=None,
        cluster_credentials=None,
    )
    environ = {} if text is None else {"DBG_IDLE": text}
    assert serve_settings(given, environ, "/here").idle_seconds == idle


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "604801", "a minute", "1\x1b"])
def test_what_is_no_such_number_of_seconds_is_named(text: str) -> None:
    with pytest.raises(BadInput, match=r"DBG_IDLE .* is not a number of seconds") as refused:
        idle_seconds({"DBG_IDLE": text})
    assert str(refused.value).isprintable()


@pytest.mark.parametrize(
    ("text", "listen"),
    [
        ("6899", Listen(host="127.0.0.1", port=6899)),
        ("0", Listen(host="127.0.0.1", port=0)),
        ("0.0.0.0:7000", Listen(host="0.0.0.0", port=7000)),
        ("login1", Listen(host="login1", port=6899)),
    ],
)
def test_a_classic_port_is_the_loopback_s_unless_a_host_is_given(text: str, listen: Listen) -> None:
    assert parse_classic(text) == listen


@pytest.mark.parametrize("text", ["", "99999", "h:x", "h:1:2"])
def test_what_is_no_classic_port_is_named(text: str) -> None:
    with pytest.raises(BadInput, match="--classic"):
        parse_classic(text)


@pytest.mark.parametrize("text", ["", "240", "240x", "0x72", "240x0", "9999x9999", "a240x72"])
def test_what_is_no_size_is_named(text: str) -> None:
    with pytest.raises(BadInput, match="--classic-size"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "size"), [("104857600", 100 * 2**20), ("500M", 500 * 2**20), ("2g", 2 * 2**30), ("10GB", 10 * 2**30)]
)
def test_a_number_of_bytes_has_a_unit(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "0", "-1G", "99M", "1001T", "2x", "1.5G", "٣G", "1\x1b"])
def test_what_is_no_such_size_is_named(text: str) -> None:
    with pytest.raises(BadInput, match=r"--record-max .* is not a size") as refused:
        parse_bytes(text)
    assert str(refused.value).isprintable()


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"record_input": True}, "--record-input says how to record, and nothing is recorded"),
        ({"record_max": "2G"}, "--record-max says how to record, and nothing is recorded"),
        ({"record": ""}, "--record is empty"),
    ],
)
def test_how_to_record_without_a_directory_is_refused(given: dict[str, object], why: str) -> None:
    arguments = parser_of_the_command().parse_args(["serve"])
    vars(arguments).update(given)
    with pytest.raises(BadInput, match=why):
        serve_settings(arguments, {"HOME": "/home/me"}, "/here")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "--on-event '' names no program"),
        ("''", "names no program"),
        ("sh 'unclosed", "is no command"),
        ("no-such-program-here now", "names 'no-such-program-here', which is no program here"),
        ("sh \0", "names no program"),
    ],
)
def test_what_is_no_command_for_events_is_named(text: str, said: str) -> None:
    with pytest.raises(BadInput, match=re.escape(said)):
        parse_command(text)


@pytest.mark.parametrize(
    ("text", "urls"),
    [
        ("nats://h1,h2,h3", ("nats://h1:4222", "nats://h2:4222", "nats://h3:4222")),
        ("tls://nats.example:4333,10.0.0.7", ("tls://nats.example:4333", "tls://10.0.0.7:4222")),
        ("h1", ("nats://h1:4222",)),
        ("nats://[::1]:5000,[fe80::1]", ("nats://[::1]:5000", "nats://[fe80::1]:4222")),
        ("nats://h1/,h1", ("nats://h1:4222",)),
        ("nats://h1,nats://h2", ("nats://h1:4222", "nats://h2:4222")),
    ],
)
def test_servers_of_a_cluster_are_read(text: str, urls: tuple[str, ...]) -> None:
    assert parse_cluster(text) == urls


@pytest.mark.parametrize(
    "text",
    [
        *("", "nats://", "nats://h1,", "http://h1", "nats://h1:0", "nats://h1:99999", "h1 h2", "nats://::1"),
        *("nats://h\x1b", "nats://me:word@h1", "nats://h1,tls://h2", "nats://h1/path", "nats://[gpu]"),
    ],
)
def test_what_is_no_server_of_nats_is_named_with_what_to_write(text: str) -> None:
    with pytest.raises(BadInput, match=r"^--cluster ") as refused:
        parse_cluster(text)
    assert str(refused.value).isprintable()
    assert "word" not in str(refused.value).replace("password", "")


def test_the_settings_of_a_cluster() -> None:
    def cluster(*words: str, **environ: str) -> ClusterSettings | None:
        given = parser_of_the_command().parse_args(["serve", *words])
        return serve_settings(given, {"HOME": "/home/me", **environ}, "/here").cluster

    assert cluster() is cluster(DBG_CLUSTER_CREDENTIALS="file") is None
    assert cluster("--cluster", "h1") == ClusterSettings(servers=("nats://h1:4222",))
    given = cluster("--cluster", "h1", DBG_CLUSTER_CREDENTIALS="file")
    assert given == ClusterSettings(servers=("nats://h1:4222",), credentials="/here/file")
    given = cluster("--cluster", "h1", "--cluster-credentials", "/etc/nats.creds", DBG_CLUSTER_CREDENTIALS="file")
    assert given == ClusterSettings(servers=("nats://h1:4222",), credentials="/etc/nats.creds")
    for words, why in [
        (["--cluster-credentials", "x"], "--cluster-credentials was given without --cluster"),
        (["--cluster", "h1", "--insecure"], "--insecure makes some for this one alone"),
        (["--cluster", "h1", "--driver-token", "memory"], "--driver-token memory keeps one in this broker's memory"),
    ]:
        with pytest.raises(BadInput, match=why):
            cluster(*words)
