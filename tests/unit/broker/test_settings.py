"""The settings of ``serve`` by its command line, and a sentence for each that can't be used."""

# ruff: noqa: S104 - nothing here listens anywhere

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.cli.main import parse
from dbg_broker.settings import (
    EVERYBODY,
    IDLE_SECONDS,
    ClusterSettings,
    Listen,
    ServeSettings,
    home,
    idle_seconds,
    parse_allowed,
    parse_classic,
    parse_cluster,
    parse_command,
    parse_listen,
    ports_to_try,
    serve_settings,
)
from dbg_wire.errors import BadInput
from tests.conftest import Approved
from tests.support.sentence import refusals

ALLOWED = parse_allowed(["10.1.0.0/16", "192.0.2.7", "fd00::/8"])


def serve(*words: str, **environ: str) -> ServeSettings:
    return serve_settings(parse(["serve", *words]), {"DBG_HOME": "/h", **environ}, "/here")


@pytest.mark.parametrize(
    ("words", "environ", "settings"),
    [
        ([], {}, {"home": "/h", "listen": Listen(), "idle_seconds": None, "cluster": None}),
        (["--home", "x", "-vv"], {}, {"home": "/here/x", "verbosity": 2}),
        (["--while-used"], {}, {"idle_seconds": IDLE_SECONDS}),
        (["--while-used"], {"DBG_IDLE": ""}, {"idle_seconds": IDLE_SECONDS}),
        (["--while-used"], {"DBG_IDLE": "604800"}, {"idle_seconds": 604800}),
        (
            ["--classic", "6899"],
            {},
            {"classic": Listen(host="127.0.0.1", port=6899)},
        ),
        (["--allow", "10.0.0.0/8"], {}, {"allowed": parse_allowed(["10.0.0.0/8"])}),
        (["--on-event", "sh -c 'echo a b'"], {}, {"on_event": ("sh", "-c", "echo a b")}),
        (["--max-lease", "8h", "--audit-input"], {}, {"max_lease": 28800.0, "audits_input": True}),
        (["--log-format", "json"], {}, {"logs_json": True}),
        (["--certificate", "a.pem", "--key", "/k"], {}, {"certificate": ("/here/a.pem", "/k")}),
        ([], {"DBG_CLUSTER_CREDENTIALS": "file"}, {"cluster": None}),
        (["--cluster", "h1"], {}, {"cluster": ClusterSettings(servers=("nats://h1:4222",))}),
        (
            ["--cluster", "h1"],
            {"DBG_CLUSTER_CREDENTIALS": "file"},
            {"cluster": ClusterSettings(servers=("nats://h1:4222",), credentials="/here/file")},
        ),
        (
            ["--cluster", "h1", "--cluster-credentials", "/etc/nats"],
            {"DBG_CLUSTER_CREDENTIALS": "file"},
            {"cluster": ClusterSettings(servers=("nats://h1:4222",), credentials="/etc/nats")},
        ),
    ],
)
def test_settings_are_read_from_arguments_and_variables(
    words: list[str], environ: dict[str, str], settings: dict[str, object]
) -> None:
    found = serve(*words, **environ)
    assert {name: getattr(found, name) for name in settings} == settings


REFUSED = [
    "--listen [",
    "--max-lease soon",
    "--certificate x.pem",
    "--key x.pem",
    "--cluster-credentials x",
]


def test_invalid_options_are_refused(approved: Approved) -> None:
    approved(refusals(lambda line: serve(*line.split()), REFUSED))


ADDRESSES = ["", "6900", "h:x", "h:99999", "::1", "[gpu]:1", "a b:1", "h:1:2", "h\x1b:1", "wss://h:1", "h:-1"]
SERVERS = ["", "nats://", "nats://h1,", "http://h1", "nats://h1:0", "nats://h1:99999", "h1 h2", "nats://::1", "h\x1b"]
SERVERS += ["nats://h1,tls://h2", "nats://h1/path", "nats://[gpu]"]


@pytest.mark.parametrize(
    ("read", "texts"),
    [
        (parse_listen, ADDRESSES),
        (parse_classic, ["", "99999", "h:x", "h:1:2"]),
        (parse_command, ["", "''", "sh 'unclosed", "no-such-program-here now", "sh \0"]),
        (parse_cluster, SERVERS),
        (lambda text: parse_allowed(["10.0.0.0/8", text]), ["", "10.1.0.1/16", "10/8", "host", "10.0.0.0/33"]),
        (lambda text: idle_seconds({"DBG_IDLE": text}), ["0", "-1", "nan", "inf", "604801", "a minute", "1\x1b"]),
        (lambda text: home(text, {}, "/here"), [""]),
    ],
    ids=["listen", "classic", "command", "cluster", "allow", "idle", "home"],
)
def test_invalid_value_is_refused_with_the_expected_form(
    read: Callable[[str], object], texts: list[str], approved: Approved
) -> None:
    approved(refusals(read, texts))


def test_a_password_in_an_address_is_not_repeated() -> None:
    with pytest.raises(BadInput) as refused:
        parse_cluster("nats://me:s3cret@h1")
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (
            parse_listen,
            {
                "0.0.0.0:6900": Listen(host="0.0.0.0", port=6900),
                "0.0.0.0": Listen(host="0.0.0.0", port=None),
                ":7000": Listen(host="127.0.0.1", port=7000),
                "login1:0": Listen(host="login1", port=0),
                "[::1]:6900": Listen(host="::1", port=6900),
                "[::]": Listen(host="::", port=None),
            },
        ),
        # A classic port is the loopback's unless a host is given.
        (
            parse_classic,
            {
                "6899": Listen(host="127.0.0.1", port=6899),
                "0": Listen(host="127.0.0.1", port=0),
                "0.0.0.0:7000": Listen(host="0.0.0.0", port=7000),
                "login1": Listen(host="login1", port=6899),
            },
        ),
        (
            parse_cluster,
            {
                "nats://h1,h2,h3": ("nats://h1:4222", "nats://h2:4222", "nats://h3:4222"),
                "tls://nats.example:4333,10.0.0.7": ("tls://nats.example:4333", "tls://10.0.0.7:4222"),
                "h1": ("nats://h1:4222",),
                "nats://[::1]:5000,[fe80::1]": ("nats://[::1]:5000", "nats://[fe80::1]:4222"),
                "nats://h1/,h1": ("nats://h1:4222",),
                "nats://h1,nats://h2": ("nats://h1:4222", "nats://h2:4222"),
            },
        ),
        # Only a port that was given must be free.
        (lambda text: ports_to_try(parse_listen(text)), {"h": (6900, 0), "h:7000": (7000,), "h:0": (0,)}),
        (
            lambda text: (Listen(host=text).is_loopback, Listen(host=text).is_everywhere),
            {
                **dict.fromkeys(("127.0.0.1", "localhost", "::1"), (True, False)),
                **dict.fromkeys(("0.0.0.0", "::"), (False, True)),
                **dict.fromkeys(("login1", "10.0.0.5"), (False, False)),
            },
        ),
    ],
    ids=["listen", "classic", "cluster", "ports", "reach"],
)
def test_option_values_are_read(read: Callable[[str], object], expected: Mapping[str, object]) -> None:
    assert {text: read(text) for text in expected} == expected


@pytest.mark.parametrize(
    ("argument", "environ", "path"),
    [
        ("/x", {"DBG_HOME": "/y"}, "/x"),
        ("x/../z", {}, "/here/z"),
        (None, {"DBG_HOME": "/y"}, "/y"),
        (None, {"HOME": "/home/me"}, "/home/me/.local/state/dbg-broker"),
    ],
)
def test_home_is_the_argument_then_the_variable_then_the_default(
    argument: str | None, environ: dict[str, str], path: str
) -> None:
    assert home(argument, environ, "/here") == path


# ------------------------------------------------------------------------------------------- addresses that may come


@pytest.mark.parametrize(
    ("host", "may"),
    [
        ("10.1.2.3", True),
        ("10.2.2.3", False),
        ("192.0.2.7", True),
        ("192.0.2.8", False),
        ("::ffff:10.1.2.3", True),
        ("::ffff:10.2.2.3", False),
        ("fd00::1%eth0", True),
        ("fe80::1", False),
        ("127.0.0.1", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("no address", False),
    ],
)
def test_addresses_of_allowed_networks_and_this_host_are_admitted(host: str, may: bool) -> None:
    assert ALLOWED.admits((host, 4711)) is may
    assert EVERYBODY.admits((host, 4711))


def test_own_address_is_admitted_and_an_invalid_one_is_not() -> None:
    assert ALLOWED.admits(("10.2.2.3", 1), lambda: ("10.2.2.3", 6900))
    assert not ALLOWED.admits(("10.2.2.3", 1), lambda: ("10.2.2.4", 6900))
    none: list[Any] = ["", (), None, 7]
    assert not any(ALLOWED.admits(address) for address in none)
    assert EVERYBODY.admits("")


@given(st.text())
def test_any_text_is_a_network_or_refused(text: str) -> None:
    with suppress(BadInput):
        parse_allowed([text])
