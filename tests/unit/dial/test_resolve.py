"""Where the broker is and with which token it is dialled: broker.json, variables and arguments, and their order."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_dial import find
from dbg_dial.endpoint import (
    TOKEN_ROLES,
    Endpoint,
    Rendezvous,
    Route,
    TokenRole,
    format_rendezvous,
    known_endpoints,
    parse_rendezvous,
)
from dbg_dial.find import DiscoveryOptions
from dbg_wire.errors import BadEndpoint, BadInput, BadSecretFile, NoBroker
from tests.conftest import Approved
from tests.support.reach import (
    OTHER_PIN,
    PIN,
    RENDEZVOUS,
    SECRET,
    TOKENS,
    all_text,
    any_text,
    near_misses,
    refusal,
    rendezvous_files,
)


def test_file_has_the_documented_form_and_hides_its_tokens() -> None:
    assert format_rendezvous(RENDEZVOUS) == (
        '{"schema":1,"url":"wss://login1:6900","host":"login1","pid":4711,"fingerprint":"' + PIN + '","tokens":'
        f'{{"rank":"rank-{SECRET}","driver":"driver-{SECRET}","watcher":"watcher-{SECRET}"}}}}'
    )
    assert str(RENDEZVOUS.endpoint) == f"wss://login1:6900#{PIN}"
    assert SECRET not in repr(RENDEZVOUS) + str(RENDEZVOUS)


@given(rendezvous_files())
def test_a_file_reads_back(rendezvous: Rendezvous) -> None:
    assert parse_rendezvous(format_rendezvous(rendezvous), "broker.json") == rendezvous


def document(**changes: Any) -> str:
    return json.dumps({**json.loads(format_rendezvous(RENDEZVOUS)), **changes})


def test_unknown_fields_and_roles_are_ignored() -> None:
    text = document(colour="red", tokens={"watcher": TOKENS["watcher"], "auditor": 7})
    assert parse_rendezvous(text, "p") == replace(RENDEZVOUS, tokens={"watcher": TOKENS["watcher"]})


LOGIN2 = {"url": "wss://login2:6900"}
NO_BROKERS: list[object] = [
    "x",
    [LOGIN2],
    [{**LOGIN2, "fingerprint": 7}],
    [{**LOGIN2, "fingerprint": "sha256:1"}],
    [{**LOGIN2, "fingerprint": PIN}] * 65,
]


@pytest.mark.parametrize(
    "changes",
    [
        "",
        f'{{"tokens": "{SECRET}',
        "[" * 100_000,
        "{}",
        {"schema": 2},
        {"url": f"wss://u:{SECRET}@h"},
        {"host": "\x1b[2J"},
        {"pid": 0},
        {"fingerprint": SECRET},
        {"url": "ws://login1:6900"},
        {"tokens": [SECRET]},
        {"tokens": {"rank": SECRET + " x"}},
        *({"brokers": brokers} for brokers in NO_BROKERS[:-1]),
        pytest.param({"brokers": NO_BROKERS[-1]}, id="too many brokers"),
    ],
    ids=repr,
)
def test_a_bad_file_is_refused_by_its_path(approved: Approved, changes: str | dict[str, object]) -> None:
    text = changes if isinstance(changes, str) else document(**changes)
    with pytest.raises(BadSecretFile) as caught:
        parse_rendezvous(text, "/home/me/broker.json")
    assert str(caught.value).startswith("/home/me/broker.json ")
    approved(str(caught.value))
    assert SECRET not in all_text(caught.value)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | any_text,
    lambda inner: st.lists(inner) | st.dictionaries(any_text, inner),
    max_leaves=5,
)


@given(any_text | json_values.map(json.dumps))
def test_invalid_file_always_raises_bad_secret_file(text: str) -> None:
    with pytest.raises(BadSecretFile):
        parse_rendezvous(text, "broker.json")


FILES: dict[str, str | Exception] = {
    "/run/token": SECRET + "\n",
    "/run/bytes": UnicodeDecodeError("utf-8", SECRET.encode(), 0, 1, "bad"),
    "/run/open": BadSecretFile("others may read it", "close it"),
    "/etc/ca.pem": "-----BEGIN CERTIFICATE-----",
    "/etc/key.pem": "-----BEGIN PRIVATE KEY-----",
}


def read_file(path: str) -> str:
    found = FILES.get(path, FileNotFoundError(2, "No such file or directory", SECRET))
    if isinstance(found, Exception):
        raise found
    return found


def resolve(
    argument: str | None = None,
    environ: Mapping[str, str] = MappingProxyType({}),
    rendezvous: Rendezvous | None = RENDEZVOUS,
    role: TokenRole = "rank",
    read: Callable[[str], str] = read_file,
) -> Route:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(find, "read_secret", read)
        patch.setattr(find, "read_authorities", read_file)
        return find.resolve(DiscoveryOptions(role=role, argument_name="--broker"), argument, environ, rendezvous)


GIVEN = "t" * 20
FILE = "broker.json"
BY_FILE = (f"wss://login1:6900#{PIN}", TOKENS["rank"], FILE, FILE, FILE)
NAMED = {"DBG_BROKER": f"two#{OTHER_PIN}", "DBG_TOKEN": GIVEN}
BY_CA = {"DBG_CA": "/etc/ca.pem", "DBG_TOKEN": GIVEN}
ELSEWHERE = "wss://dbg.cluster.example"
NO_PIN = "none: DBG_CA is set"

FOUND: dict[str, tuple[str | None, dict[str, str], Rendezvous | None, tuple[str, str, str, str, str]]] = {
    "argument": ("one", NAMED, RENDEZVOUS, (f"wss://one:6900#{PIN}", GIVEN, "--broker", FILE, "DBG_TOKEN")),
    "file": (None, {}, RENDEZVOUS, BY_FILE),
    "empty variables": (None, {"DBG_BROKER": "", "DBG_TOKEN": "", "DBG_TOKEN_FILE": ""}, RENDEZVOUS, BY_FILE),
    "token file": (
        None,
        {"DBG_TOKEN_FILE": "/run/token", "DBG_TOKEN": GIVEN},
        RENDEZVOUS,
        (f"wss://login1:6900#{PIN}", SECRET, FILE, FILE, "DBG_TOKEN_FILE /run/token"),
    ),
    "authority": (ELSEWHERE, BY_CA, None, (f"{ELSEWHERE}:6900", GIVEN, "--broker", NO_PIN, "DBG_TOKEN")),
    "not the home's pin": (ELSEWHERE, BY_CA, RENDEZVOUS, (f"{ELSEWHERE}:6900", GIVEN, "--broker", NO_PIN, "DBG_TOKEN")),
    "authority and pin": (
        f"elsewhere#{OTHER_PIN}",
        BY_CA,
        RENDEZVOUS,
        (f"wss://elsewhere:6900#{OTHER_PIN}", GIVEN, "--broker", "--broker", "DBG_TOKEN"),
    ),
}


@pytest.mark.parametrize(("argument", "environ", "rendezvous", "expected"), FOUND.values(), ids=FOUND)
def test_argument_overrides_variable_and_variable_overrides_file(
    argument: str | None,
    environ: dict[str, str],
    rendezvous: Rendezvous | None,
    expected: tuple[str, str, str, str, str],
) -> None:
    reach = resolve(argument, environ, rendezvous)
    sources = tuple(reach.sources[part] for part in ("address", "fingerprint", "token"))
    assert (str(reach.endpoint), reach.token, *sources) == expected
    assert reach.endpoint.ca == (FILES["/etc/ca.pem"] if environ.get("DBG_CA") == "/etc/ca.pem" else None)
    assert SECRET not in repr(reach) + str(reach)


@pytest.mark.parametrize(
    ("role", "there", "taken"),
    [
        ("rank", ["rank", "driver", "watcher"], "rank"),
        ("driver", ["rank", "driver", "watcher"], "driver"),
        ("driver", ["rank", "watcher"], "watcher"),
        ("watcher", ["rank", "driver", "watcher"], "watcher"),
        ("driver", ["rank"], None),
        ("rank", ["driver", "watcher"], None),
        ("watcher", ["driver"], None),
    ],
)
def test_each_role_takes_its_own_token(role: TokenRole, there: list[TokenRole], taken: TokenRole | None) -> None:
    rendezvous = replace(RENDEZVOUS, tokens={name: TOKENS[name] for name in there})
    if taken is None:
        with pytest.raises(BadInput):
            resolve(rendezvous=rendezvous, role=role)
    else:
        assert resolve(rendezvous=rendezvous, role=role).token == TOKENS[taken]


REFUSED: dict[str, tuple[str | None, dict[str, str], Rendezvous | None, type[Exception]]] = {
    "no broker": (None, {}, None, NoBroker),
    "a port that is a word": ("a:b", {}, None, BadEndpoint),
    "no token": (f"h#{PIN}", {}, None, BadInput),
    "a token as the name of its file": (None, {"DBG_TOKEN_FILE": SECRET}, RENDEZVOUS, BadSecretFile),
    "an open token file": (None, {"DBG_TOKEN_FILE": "/run/open"}, RENDEZVOUS, BadSecretFile),
    "no pin": ("login1", {"DBG_TOKEN": SECRET}, None, BadEndpoint),
    "no authority": ("h", {**BY_CA, "DBG_CA": "/gone.pem"}, None, BadSecretFile),
    "an authority without a certificate": ("h", {**BY_CA, "DBG_CA": "/etc/key.pem"}, None, BadSecretFile),
    "in the clear": ("ws://login1", {"DBG_TOKEN": SECRET}, RENDEZVOUS, BadEndpoint),
}


@pytest.mark.parametrize(("argument", "environ", "rendezvous", "error"), REFUSED.values(), ids=REFUSED)
def test_mistake_is_reported_without_the_token(
    approved: Approved,
    argument: str | None,
    environ: dict[str, str],
    rendezvous: Rendezvous | None,
    error: type[Exception],
) -> None:
    with pytest.raises(error) as caught:
        resolve(argument, environ, rendezvous)
    assert type(caught.value) is error
    assert SECRET not in all_text(caught.value)
    approved(str(caught.value))


@given(
    st.none() | near_misses,
    st.dictionaries(st.sampled_from(["DBG_BROKER", "DBG_TOKEN", "DBG_TOKEN_FILE"]), near_misses),
    st.none() | rendezvous_files(),
    st.sampled_from(TOKEN_ROLES),
    st.sampled_from([lambda path: SECRET, lambda path: SECRET + "\x00", lambda path: open("\x00").read()]),  # noqa: PTH123, SIM115
)
def test_any_input_resolves_or_raises_bad_input(
    argument: str | None,
    environ: dict[str, str],
    rendezvous: Rendezvous | None,
    role: TokenRole,
    read: Callable[[str], str],
) -> None:
    def reach() -> Route:
        return resolve(argument, environ, rendezvous, role, read)

    refused = refusal(reach)
    if refused is not None:
        assert SECRET not in all_text(refused)
    else:
        assert reach().endpoint.fingerprint is not None
        assert SECRET not in repr(reach())


OTHERS = tuple(Endpoint(host=f"login{n}", port=6900, fingerprint=OTHER_PIN) for n in (2, 3))
SITE = replace(RENDEZVOUS, brokers=OTHERS)


def test_route_from_the_file_has_the_other_brokers_of_the_file() -> None:
    text = format_rendezvous(SITE)
    assert json.loads(text)["brokers"] == [
        {"url": "wss://login2:6900", "fingerprint": OTHER_PIN},
        {"url": "wss://login3:6900", "fingerprint": OTHER_PIN},
    ]
    assert resolve(rendezvous=parse_rendezvous(text, "p")).others == OTHERS


@pytest.mark.parametrize(("address", "count"), [(f"login2#{OTHER_PIN}", 2), (f"elsewhere#{OTHER_PIN}", 0)])
def test_address_given_by_the_user_has_other_brokers_only_if_it_is_in_the_site(address: str, count: int) -> None:
    assert len(resolve(address, {}, SITE).others) == count


def test_invalid_brokers_of_a_list_are_left_out() -> None:
    listed = [("wss://login2:6900", OTHER_PIN), ("wss://login4:6900", ""), ("http://x", PIN)]
    assert known_endpoints(listed) == OTHERS[:1]
