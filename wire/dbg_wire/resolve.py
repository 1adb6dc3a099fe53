"""Which broker to dial, and with which pin, authority and token: arguments, then variables, then ``broker.json``. Pure.

No error made here holds a token.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from dbg_wire.endpoint import MIN_TOKEN, Endpoint, Reach, TokenRole, parse_endpoint, parse_token
from dbg_wire.environment import BROKER, CA, TOKEN, TOKEN_FILE
from dbg_wire.errors import BadEndpoint, BadInput, BadSecretFile, NoBroker, printable
from dbg_wire.rendezvous import Rendezvous
from dbg_wire.throw_away import WHERE_THEY_ARE, is_throw_away

_TO_TOKEN = "set it to a file with the token"  # noqa: S105 - a sentence
_TO_CA = "set it to a PEM file of the authorities that sign brokers"


def resolve(
    *,
    argument: str | None,
    environ: Mapping[str, str],
    rendezvous: Rendezvous | None,
    role: TokenRole,
    token_file_text: Callable[[str], str],
    ca_text: Callable[[str], str],
    argument_name: str = "the argument broker=",
) -> Reach:
    """Decide which broker to dial with which pin and token: argument, then DBG_* variable, then broker.json.

    ``token_file_text`` and ``ca_text`` read the files that DBG_TOKEN_FILE and DBG_CA name; their OSError or ValueError
    becomes BadSecretFile. Raise NoBroker if no broker is known, BadInput if no token is known, and BadEndpoint if the
    broker can't be told from an impostor: neither fingerprint nor authority, or a lasting token without TLS.
    """
    if argument is not None:
        endpoint, address_from = parse_endpoint(argument, source=argument_name), argument_name.rstrip("=")
    elif environ.get(BROKER):
        endpoint, address_from = parse_endpoint(environ[BROKER], source=BROKER), BROKER
    elif rendezvous is not None:
        endpoint, address_from = rendezvous.endpoint, "broker.json"
    else:
        raise NoBroker
    if endpoint.secure and environ.get(CA):
        endpoint = replace(endpoint, ca=_ca(environ[CA], ca_text))
    endpoint, pin_from = _pinned(endpoint, address_from, rendezvous)
    token, token_from = _token(environ, rendezvous, role, token_file_text)
    if not (endpoint.secure or is_throw_away(token)):
        pinned = rendezvous.url if rendezvous is not None and rendezvous.fingerprint else None
        raise BadEndpoint(
            f"{address_from} says {endpoint.url}, and the lasting token from {token_from} must not travel in the clear",
            f"write wss://, as the broker at {pinned} does" if pinned else WHERE_THEY_ARE,
        )
    return Reach(
        endpoint=endpoint,
        token=token,
        sources={"address": address_from, "fingerprint": pin_from, "token": token_from},
    )


def _pinned(endpoint: Endpoint, address_from: str, rendezvous: Rendezvous | None) -> tuple[Endpoint, str]:
    if not endpoint.secure:
        return endpoint, "none: ws:// shows no certificate"
    if endpoint.fingerprint is not None:
        return endpoint, address_from
    # With an authority a broker elsewhere is known without a pin, and the home's may be another broker's.
    is_homes = rendezvous is not None and (endpoint.ca is None or rendezvous.url == endpoint.url)
    if rendezvous is not None and rendezvous.fingerprint is not None and is_homes:
        others = rendezvous.other_fingerprints
        return replace(endpoint, fingerprint=rendezvous.fingerprint, other_fingerprints=others), "broker.json"
    if endpoint.ca is not None:
        return endpoint, f"none: {CA} is set"
    raise BadEndpoint(
        f"{address_from} says {endpoint.url} without a fingerprint, and a token is sent only to a pinned broker",
        "add #sha256:… as `dbg-broker serve` prints it, set DBG_CA, or write ws:// if it serves --insecure",
    )


def _ca(path: str, ca_text: Callable[[str], str]) -> str:
    named = f"{CA} {printable(path)}"
    text = _file_text(path, named, ca_text, _TO_CA)
    if "-----BEGIN CERTIFICATE-----" not in text:
        raise BadSecretFile(f"{named} holds no certificate", _TO_CA)
    return text


def _token(
    environ: Mapping[str, str], rendezvous: Rendezvous | None, role: TokenRole, token_file_text: Callable[[str], str]
) -> tuple[str, str]:
    if path := environ.get(TOKEN_FILE):
        named = f"{TOKEN_FILE} {_path_shown(path)}"
        return parse_token(_file_text(path, named, token_file_text, _TO_TOKEN), source=named), named
    if text := environ.get(TOKEN):
        return parse_token(text, source=TOKEN), TOKEN
    wanted: tuple[TokenRole, ...] = ("driver", "watcher") if role == "driver" else (role,)
    found = [rendezvous.token(role) for role in wanted] if rendezvous is not None else []
    for token in found:
        if token is not None:
            return token
    if role != "rank" and rendezvous is not None and rendezvous.driver_token != "file":  # noqa: S105 - a word
        raise _kept_in_memory(rendezvous)
    raise BadInput(
        f"no {role} token is known",
        f"set DBG_TOKEN_FILE to a file with the {role} token that `dbg-broker token` prints on the broker's host",
    )


def _kept_in_memory(rendezvous: Rendezvous) -> BadInput:
    host = printable(rendezvous.host)
    if rendezvous.driver_token == "memory":  # noqa: S105 - a word
        return BadInput(
            f"this broker keeps the driver's token in its memory on {host}",
            "run `dbg-attach` there, or give what `dbg-broker token --role driver` prints there with --ask-token",
        )
    return BadInput(
        f"this broker has the driver's token in its memory alone, as its user gave it on {host}",
        "type it with --ask-token",
    )


def _file_text(path: str, named: str, read: Callable[[str], str], remedy: str) -> str:
    try:
        return read(path)
    except OSError as error:
        why = error.strerror or type(error).__name__
    except ValueError:
        why = "not a text file"
    raise BadSecretFile(f"{named} can't be read ({why})", remedy)


def _path_shown(path: str) -> str:
    """Return a path for people, or ``…`` for a text that may be a token in place of its file's path."""
    return printable(path) if len(path) < MIN_TOKEN or path.startswith(("/", "./", "../", "~/")) else "…"
