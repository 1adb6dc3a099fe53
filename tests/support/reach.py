"""Addresses, tokens and ``broker.json`` for tests, and all text that an error shows, to find no token in it."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from dbg_dial.endpoint import MAX_TOKEN, MIN_TOKEN, TOKEN_ROLES, Endpoint, Rendezvous, TokenRole
from dbg_wire.errors import BadInput, NoBroker
from dbg_wire.limits import MAX_BROKERS

PIN = "sha256:" + "0123456789abcdef" * 4
OTHER_PIN = "sha256:" + "f" * 64
SECRET = "s3cret-T0ken_of-a-Rank"  # noqa: S105 - nobody's
TOKENS: dict[TokenRole, str] = {"rank": "rank-" + SECRET, "driver": "driver-" + SECRET, "watcher": "watcher-" + SECRET}
RENDEZVOUS = Rendezvous(url="wss://login1:6900", host="login1", pid=4711, fingerprint=PIN, tokens=TOKENS)

names = st.from_regex(r"[a-z_][a-z0-9_.-]{0,60}", fullmatch=True)
hosts = names | st.ip_addresses(v=4).map(str) | st.ip_addresses(v=6).map(str)
pins = st.binary(min_size=32, max_size=32).map(lambda raw: f"sha256:{raw.hex()}")
tokens = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=MIN_TOKEN, max_size=MAX_TOKEN)
any_text = st.text(st.characters())
fragments = st.sampled_from(
    [*"wss:// ws:// tcp:// @ : / ? # [ ] ::1 sha256: 6900 h %e".split(), PIN, "\n", " "]  # noqa: SIM905
)
near_misses = st.lists(fragments | any_text, max_size=8).map("".join)


@st.composite
def endpoints(draw: st.DrawFn, *, pinned: bool = False) -> Endpoint:
    return Endpoint(
        host=draw(hosts), port=draw(st.integers(1, 65535)), fingerprint=draw(pins if pinned else pins | st.none())
    )


@st.composite
def rendezvous_files(draw: st.DrawFn) -> Rendezvous:
    endpoint = draw(endpoints())
    roles = draw(st.sets(st.sampled_from(TOKEN_ROLES)))
    return Rendezvous(
        url=endpoint.url,
        host=draw(names),
        pid=draw(st.integers(1, 2**22)),
        fingerprint=draw(pins),
        tokens={role: draw(tokens) for role in roles},
        brokers=tuple(draw(st.lists(endpoints(pinned=True), max_size=MAX_BROKERS // 16))),
    )


def refusal(call: Callable[[], object]) -> BadInput | NoBroker | None:
    """Return the error by which a call refused its input, or None if it accepted the input."""
    try:
        call()
    except (BadInput, NoBroker) as error:
        return error
    return None


def all_text(error: BaseException) -> str:
    """Return all text that a log or a traceback could show of an error and its causes."""
    parts: list[str] = []
    seen: BaseException | None = error
    while seen is not None:
        parts += [str(seen), repr(seen), repr(seen.args), repr(vars(seen))]
        seen = seen.__cause__ or (None if seen.__suppress_context__ else seen.__context__)
    return "\n".join(parts)
