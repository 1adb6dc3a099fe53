from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_dial.find import Seeker
from dbg_dial.find import resolve as resolve_for
from dbg_wire.errors import BadEndpoint, BadInput, BadSecretFile, NoBroker
from dbg_wire.finding.endpoint import TOKEN_ROLES, Endpoint, Reach, TokenRole
from dbg_wire.finding.rendezvous import Rendezvous, format_rendezvous, known_endpoints, parse_rendezvous
from tests.conftest import Approved
from tests.support.reach import (
    INSECURE,
    OTHER_PIN,
    PIN,
    RENDEZVOUS,
    SECRET,
    THROW_AWAY,
    TOKENS,
    any_text,
    near_misses,
    refusal,
    rendezvous_files,
    said,
)

# broker.json


def test_the_file_is_exactly_this() -> None:
    assert format_rendezvous(RENDEZVOUS) == (
        '{"schema":1,"url":"wss://login1:6900","host":"login1","pid":4711,"fingerprint":"' + PIN + '","tokens":'
        f'{{"rank":"rank-{SECRET}","driver":"driver-{SECRET}","watcher":"watcher-{SECRET}"}}}}'
    )


@given(rendezvous_files())
def test_a_file_reads_back(rendezvous: Rendezvous) -> None:
    assert parse_rendezvous(format_rendezvous(rendezvous), "broker.json") == rendezvous


def test_the_file_gives_a_pinned_endpoint_and_hides_its_tokens() -> None:
    assert str(RENDEZVOUS.endpoint) == f"wss://login1:6900#{PIN}"
    assert SECRET not in repr(RENDEZVOUS)
    assert SECRET not in str(RENDEZVOUS)


def document(**changes: Any) -> str:
    return json.dumps({**json.loads(format_rendezvous(RENDEZVOUS)), **changes})


def test_unknown_fields_and_roles_are_ignored() -> None:
    text = document(colour="red", tokens={"watcher": TOKENS["watcher"], "auditor": 7})
    assert parse_rendezvous(text, "p") == replace(RENDEZVOUS, tokens={"watcher": TOKENS["watcher"]})


@pytest.mark.parametrize(
    "text",
    [
        "",
        f'{{"tokens": "{SECRET}',
        "[1]",
        "[" * 100_000,
        "{}",
        document(schema=2),
        document(schema=True),
        document(schema=SECRET),
        document(url=None),
        document(url=f"wss://u:{SECRET}@h"),
        document(host=""),
        document(host="\x1b[2J"),
        document(host=7),
        document(pid=0),
        document(pid=True),
        document(pid="4711"),
        document(fingerprint=None),
        document(fingerprint=SECRET),
        document(url="ws://login1:6900", fingerprint=SECRET),
        document(url="ws://login1:6900"),
        document(tokens=[SECRET]),
        document(tokens={"rank": SECRET + " x"}),
        document(tokens={"driver": None}),
    ],
)
def test_a_bad_file_is_refused_by_its_path(approved: Approved, text: str) -> None:
    with pytest.raises(BadSecretFile) as caught:
        parse_rendezvous(text, "/home/me/broker.json")
    assert str(caught.value).startswith("/home/me/broker.json ")
    approved(str(caught.value))
    assert SECRET not in said(caught.value)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | any_text,
    lambda inner: st.lists(inner) | st.dictionaries(any_text, inner),
    max_leaves=5,
)


@given(any_text | json_values.map(json.dumps))
def test_no_file_raises_anything_but_bad_secret_file(text: str) -> None:
    with pytest.raises(BadSecretFile):
        parse_rendezvous(text, "broker.json")


@given(st.sampled_from(["schema", "url", "host", "pid", "fingerprint", "extra"]), json_values)
def test_one_bad_field_never_shows_a_token(name: str, value: object) -> None:
    refused = refusal(lambda: parse_rendezvous(document(**{name: value}), "broker.json"))
    assert refused is None or (type(refused) is BadSecretFile and SECRET not in said(refused))


# what to dial


def no_file(path: str) -> str:
    raise AssertionError(f"no file should be read, and {path} was")


def resolve(
    *,
    argument: str | None,
    environ: Mapping[str, str],
    rendezvous: Rendezvous | None,
    role: TokenRole,
    token_file_text: Callable[[str], str],
    ca_text: Callable[[str], str] = no_file,
    argument_name: str = "the argument broker=",
) -> Reach:
    seeker = Seeker(
        role=role,
        argument_name=argument_name,
        if_unreadable="mend it",
        read=token_file_text,
        read_ca=ca_text,
    )
    return resolve_for(seeker, argument, environ, rendezvous)


class TestResolve:
    def test_an_argument_is_stronger_than_a_variable_and_that_than_the_file(self) -> None:
        environ = {"DBG_BROKER": f"two#{OTHER_PIN}", "DBG_TOKEN": "t" * 20}
        reach = resolve(
            argument="one",
            environ=environ,
            rendezvous=RENDEZVOUS,
            role="rank",
            token_file_text=no_file,
        )
        assert str(reach.endpoint) == f"wss://one:6900#{PIN}"
        assert reach.token == "t" * 20
        assert reach.sources == {
            "address": "the argument broker",
            "fingerprint": "broker.json",
            "token": "DBG_TOKEN",
        }
        reach = resolve(argument=None, environ=environ, rendezvous=RENDEZVOUS, role="rank", token_file_text=no_file)
        assert str(reach.endpoint) == f"wss://two:6900#{OTHER_PIN}"
        assert reach.sources["fingerprint"] == "DBG_BROKER"
        reach = resolve(argument=None, environ={}, rendezvous=RENDEZVOUS, role="rank", token_file_text=no_file)
        assert str(reach.endpoint) == f"wss://login1:6900#{PIN}"
        assert reach.token == TOKENS["rank"]
        assert set(reach.sources.values()) == {"broker.json"}

    def test_without_a_file_address_pin_and_token_are_enough(self) -> None:
        environ = {"DBG_BROKER": f"wss://h:1#{PIN}", "DBG_TOKEN": SECRET}
        reach = resolve(argument=None, environ=environ, rendezvous=None, role="watcher", token_file_text=no_file)
        assert (str(reach.endpoint), reach.token) == (f"wss://h:1#{PIN}", SECRET)

    def test_empty_variables_count_as_unset(self) -> None:
        environ = {"DBG_BROKER": "", "DBG_TOKEN": "", "DBG_TOKEN_FILE": ""}
        reach = resolve(
            argument=None,
            environ=environ,
            rendezvous=RENDEZVOUS,
            role="driver",
            token_file_text=no_file,
        )
        assert (reach.endpoint, reach.token) == (RENDEZVOUS.endpoint, TOKENS["driver"])

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
    def test_each_role_takes_its_own_token(
        self, role: TokenRole, there: list[TokenRole], taken: TokenRole | None
    ) -> None:
        rendezvous = replace(RENDEZVOUS, tokens={name: TOKENS[name] for name in there})

        def token() -> str:
            reach = resolve(argument=None, environ={}, rendezvous=rendezvous, role=role, token_file_text=no_file)
            return reach.token

        if taken is None:
            with pytest.raises(BadInput, match=f"no {role} token is known; set DBG_TOKEN_FILE"):
                token()
        else:
            assert token() == TOKENS[taken]

    def test_a_token_file_is_read_by_the_given_reader_and_beats_the_bare_token(self) -> None:
        environ = {"DBG_TOKEN_FILE": "/run/token", "DBG_TOKEN": "t" * 20}
        files = {"/run/token": SECRET + "\n"}
        reach = resolve(
            argument=None,
            environ=environ,
            rendezvous=RENDEZVOUS,
            role="rank",
            token_file_text=files.__getitem__,
        )
        assert reach.token == SECRET
        assert reach.sources["token"] == "DBG_TOKEN_FILE /run/token"  # noqa: S105 - a path
        assert SECRET not in repr(reach) + str(reach)

    @pytest.mark.parametrize(
        "failure",
        [
            FileNotFoundError(2, "No such file or directory", SECRET),
            UnicodeDecodeError("utf-8", SECRET.encode(), 0, 1, "bad"),
            BadSecretFile("it is open to others", "close it"),
        ],
    )
    def test_an_unreadable_token_file_is_bad_input(self, approved: Approved, failure: Exception) -> None:
        def read(path: str) -> str:
            raise failure

        with pytest.raises(BadSecretFile) as caught:
            resolve(
                argument=None,
                environ={"DBG_TOKEN_FILE": SECRET},
                rendezvous=RENDEZVOUS,
                role="rank",
                token_file_text=read,
            )
        approved(str(caught.value))
        assert SECRET not in said(caught.value)

    def test_no_broker_at_all_says_what_to_do(self, approved: Approved) -> None:
        with pytest.raises(NoBroker) as caught:
            resolve(argument=None, environ={}, rendezvous=None, role="rank", token_file_text=no_file)
        approved(str(caught.value))

    @pytest.mark.parametrize("rendezvous", [None, INSECURE])
    def test_a_token_goes_to_a_pinned_broker_alone(self, approved: Approved, rendezvous: Rendezvous | None) -> None:
        with pytest.raises(BadEndpoint) as caught:
            resolve(
                argument="login1",
                environ={"DBG_TOKEN": SECRET},
                rendezvous=rendezvous,
                role="rank",
                token_file_text=no_file,
            )
        approved(str(caught.value))

    def test_the_token_of_a_tls_broker_never_travels_in_the_clear(self, approved: Approved) -> None:
        with pytest.raises(BadEndpoint) as caught:
            resolve(
                argument="ws://login1",
                environ={},
                rendezvous=RENDEZVOUS,
                role="rank",
                token_file_text=no_file,
            )
        approved(str(caught.value))

    @pytest.mark.parametrize(("argument", "rendezvous"), [("ws://login1", INSECURE), (None, INSECURE)])
    def test_plain_ws_works_where_it_was_asked_for(self, argument: str | None, rendezvous: Rendezvous) -> None:
        reach = resolve(argument=argument, environ={}, rendezvous=rendezvous, role="rank", token_file_text=no_file)
        assert reach.endpoint.url == "ws://login1:6900"
        assert reach.token == THROW_AWAY["rank"]

    @pytest.mark.parametrize(
        "environ", [{"DBG_TOKEN": SECRET}, {"DBG_TOKEN_FILE": "/run/token"}, {"DBG_TOKEN": "x" * 30}]
    )
    @pytest.mark.parametrize("rendezvous", [None, INSECURE, RENDEZVOUS])
    def test_no_lasting_token_travels_in_the_clear_wherever_it_comes_from(
        self, environ: dict[str, str], rendezvous: Rendezvous | None
    ) -> None:
        with pytest.raises(BadEndpoint, match=r"lasting token from \S.* in the clear; .*wss://") as caught:
            resolve(
                argument="ws://login1",
                environ=environ,
                rendezvous=rendezvous,
                role="driver",
                token_file_text=lambda path: SECRET,
            )
        assert SECRET not in said(caught.value)

    def test_a_throw_away_token_may_come_from_anywhere(self) -> None:
        environ = {"DBG_BROKER": "ws://login1", "DBG_TOKEN": THROW_AWAY["driver"]}
        reach = resolve(argument=None, environ=environ, rendezvous=None, role="driver", token_file_text=no_file)
        assert reach.token == THROW_AWAY["driver"]

    def test_an_error_names_the_option_that_was_typed(self) -> None:
        with pytest.raises(BadEndpoint, match=r"^--broker 'a:b' has a port"):
            resolve(
                argument="a:b",
                environ={},
                rendezvous=None,
                role="rank",
                token_file_text=no_file,
                argument_name="--broker",
            )

    @given(
        st.none() | near_misses,
        st.dictionaries(st.sampled_from(["DBG_BROKER", "DBG_TOKEN", "DBG_TOKEN_FILE"]), near_misses),
        st.none() | rendezvous_files(),
        st.sampled_from(TOKEN_ROLES),
        st.sampled_from([lambda path: SECRET, lambda path: SECRET + "\x00", lambda path: open("\x00").read()]),  # noqa: PTH123, SIM115
    )
    def test_nothing_raises_but_bad_input(
        self,
        argument: str | None,
        environ: dict[str, str],
        rendezvous: Rendezvous | None,
        role: TokenRole,
        read: Callable[[str], str],
    ) -> None:
        def reach() -> Reach:
            return resolve(argument=argument, environ=environ, rendezvous=rendezvous, role=role, token_file_text=read)

        refused = refusal(reach)
        if refused is not None:
            assert SECRET not in said(refused)
        else:
            assert reach().endpoint.fingerprint is not None or not reach().endpoint.secure
            assert SECRET not in repr(reach())


class TestAuthority:
    """What DBG_CA changes."""

    FILES: ClassVar = {"/etc/ca.pem": "-----BEGIN CERTIFICATE-----"}

    def reach(self, broker: str | None, rendezvous: Rendezvous | None, ca: str = "/etc/ca.pem") -> Reach:
        environ = {"DBG_CA": ca, "DBG_TOKEN": "t" * 20} | ({"DBG_BROKER": broker} if broker else {})

        def read(path: str) -> str:
            try:
                return self.FILES[path]
            except KeyError:
                raise FileNotFoundError(2, "No such file or directory") from None

        return resolve(
            argument=None,
            environ=environ,
            rendezvous=rendezvous,
            role="rank",
            token_file_text=no_file,
            ca_text=read,
        )

    @pytest.mark.parametrize("rendezvous", [None, RENDEZVOUS, INSECURE])
    def test_a_broker_elsewhere_needs_no_pin_and_takes_none_of_the_homes(self, rendezvous: Rendezvous | None) -> None:
        reach = self.reach("wss://dbg.cluster.example", rendezvous)
        assert str(reach.endpoint) == "wss://dbg.cluster.example:6900"
        assert reach.endpoint.ca == "-----BEGIN CERTIFICATE-----"
        assert reach.sources["fingerprint"] == "none: DBG_CA is set"

    @pytest.mark.parametrize("broker", [None, "login1"])
    def test_a_pin_that_is_known_must_hold_as_well(self, broker: str | None) -> None:
        reach = self.reach(broker, RENDEZVOUS)
        assert (reach.endpoint.fingerprint, reach.endpoint.ca) == (PIN, "-----BEGIN CERTIFICATE-----")
        reach = self.reach(f"elsewhere#{OTHER_PIN}", RENDEZVOUS)
        assert (reach.endpoint.fingerprint, reach.endpoint.ca) == (OTHER_PIN, "-----BEGIN CERTIFICATE-----")

    def test_a_file_that_is_not_there_is_named(self) -> None:
        with pytest.raises(
            BadSecretFile, match=r"DBG_CA /gone.pem can't be read \(No such file or directory\); set it"
        ):
            self.reach("h", None, "/gone.pem")

    def test_a_file_without_a_certificate_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(self.FILES, "/etc/key.pem", "-----BEGIN PRIVATE KEY-----")
        with pytest.raises(BadSecretFile, match=r"DBG_CA /etc/key\.pem holds no certificate"):
            self.reach("h", None, "/etc/key.pem")

    def test_without_tls_no_authority_is_asked(self) -> None:
        environ = {"DBG_CA": "/gone.pem", "DBG_BROKER": "ws://h", "DBG_TOKEN": THROW_AWAY["rank"]}
        reach = resolve(argument=None, environ=environ, rendezvous=None, role="rank", token_file_text=no_file)
        assert reach.endpoint.ca is None


def test_the_file_names_the_next_certificate_beside_the_present_one_which_older_readers_take() -> None:
    text = format_rendezvous(replace(RENDEZVOUS, other_fingerprints=(OTHER_PIN,)))
    assert json.loads(text)["fingerprint"] == PIN
    assert json.loads(text)["fingerprints"] == [PIN, OTHER_PIN]
    assert parse_rendezvous(text, "broker.json").endpoint.fingerprints == (PIN, OTHER_PIN)


@pytest.mark.parametrize("pins", ["x", {}, [1], [PIN, "sha256:1"], [PIN] * 17])
def test_fingerprints_that_are_none_are_refused(approved: Approved, pins: object) -> None:
    with pytest.raises(BadSecretFile) as caught:
        parse_rendezvous(document(fingerprints=pins), "broker.json")
    approved(str(caught.value))


OTHERS = tuple(Endpoint(host=f"login{n}", port=6900, secure=True, fingerprint=OTHER_PIN) for n in (2, 3))
SITE = replace(RENDEZVOUS, brokers=OTHERS)


def test_the_file_names_other_brokers_and_a_reach_by_it_has_them() -> None:
    text = format_rendezvous(SITE)
    assert json.loads(text)["brokers"] == [
        {"url": "wss://login2:6900", "fingerprints": [OTHER_PIN]},
        {"url": "wss://login3:6900", "fingerprints": [OTHER_PIN]},
    ]
    reach = resolve(
        argument=None, environ={}, rendezvous=parse_rendezvous(text, "p"), role="rank", token_file_text=no_file
    )
    assert reach.others == OTHERS


@pytest.mark.parametrize(("address", "count"), [(f"login2#{OTHER_PIN}", 2), (f"elsewhere#{OTHER_PIN}", 0)])
def test_an_address_that_the_user_named_has_the_others_if_it_is_one_of_the_homes_site(address: str, count: int) -> None:
    environ = {"DBG_BROKER": address}
    reach = resolve(argument=None, environ=environ, rendezvous=SITE, role="rank", token_file_text=no_file)
    assert len(reach.others) == count


@pytest.mark.parametrize(
    "brokers",
    [
        "x",
        [1],
        [{"url": "wss://login2:6900"}],
        [{"url": "wss://login2:6900", "fingerprints": []}],
        [{"url": "wss://login2:6900", "fingerprints": [PIN, 7]}],
        [{"url": "wss://login2:6900", "fingerprints": ["sha256:1"]}],
        [{"url": "ws://login2:6900", "fingerprints": [PIN]}],
        [{"url": "ws://login2:x", "fingerprints": []}],
        [{"url": "ws://login2:6900", "fingerprints": []}] * 65,
    ],
)
def test_other_brokers_that_can_be_none_are_refused(approved: Approved, brokers: object) -> None:
    with pytest.raises(BadSecretFile) as caught:
        parse_rendezvous(document(brokers=brokers), "broker.json")
    approved(str(caught.value))


def test_of_the_brokers_that_one_names_those_that_can_be_none_are_left_out() -> None:
    told = [("wss://login2:6900", [OTHER_PIN]), ("wss://login4:6900", []), ("http://x", [PIN])]
    assert known_endpoints(told) == OTHERS[:1]


@pytest.mark.parametrize(
    "place",
    [
        "memory",
        "ask",
        "of a later release",
    ],
)
def test_where_no_file_holds_the_drivers_token_the_way_to_it_is_said(approved: Approved, place: str) -> None:
    tokens = {"rank": TOKENS["rank"]}
    rendezvous = parse_rendezvous(document(tokens=tokens, driver_token=place), "broker.json")
    with pytest.raises(BadInput) as caught:
        resolve(argument=None, environ={}, rendezvous=rendezvous, role="driver", token_file_text=no_file)
    approved(str(caught.value))
    reach = resolve(argument=None, environ={}, rendezvous=rendezvous, role="rank", token_file_text=no_file)
    assert reach.token == TOKENS["rank"]
