"""The check that the peer is the pinned broker, and that a token may be sent to it.

A broker makes its own certificate, so no authority vouches for it: only its fingerprint tells the broker from an
impostor. Without TLS, as with ``--insecure``, anybody may listen, so only throw-away tokens are sent.
"""

from __future__ import annotations

import ssl

from dbg_wire.endpoint import Endpoint, fingerprint_of, same_fingerprint
from dbg_wire.errors import BadEndpoint, WrongCertificate
from dbg_wire.throw_away import WHERE_THEY_ARE, is_throw_away


def check_endpoint(endpoint: Endpoint) -> None:
    """Refuse TLS without a fingerprint, and a fingerprint without TLS. Raise BadEndpoint."""
    if endpoint.secure and endpoint.fingerprint is None:
        raise BadEndpoint(
            f"{endpoint.url} has no fingerprint, and only a pinned broker is dialled",
            "add #sha256:… as `dbg-broker serve` prints it",
        )
    if not endpoint.secure and endpoint.fingerprint is not None:
        raise BadEndpoint(
            f"{endpoint.url} has a fingerprint, but ws:// shows no certificate",
            "write wss://, or leave the fingerprint out",
        )


def check_token(endpoint: Endpoint, token: str) -> None:
    """Refuse to send a lasting token without TLS, and any token without a pin. Raise BadEndpoint."""
    check_endpoint(endpoint)
    if not endpoint.secure and not is_throw_away(token):
        raise BadEndpoint(f"{endpoint.url} is without TLS, and a lasting token must not travel there", WHERE_THEY_ARE)


def client_context() -> ssl.SSLContext:
    """Return a context for TLS 1.2 or later that accepts any certificate; :func:`check_certificate` compares it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def check_certificate(endpoint: Endpoint, certificate: bytes | None, wording: str) -> str:
    """Return the fingerprint of the DER certificate that was shown, compared in constant time.

    Raise WrongCertificate if another one is pinned, with ``wording``, its ``{shown}`` and ``{pinned}`` filled in.
    """
    if not certificate:
        raise WrongCertificate(endpoint.url, "it shows no certificate")
    shown, pinned = fingerprint_of(certificate), endpoint.fingerprint
    if pinned is None or not same_fingerprint(shown, pinned):
        raise WrongCertificate(endpoint.url, wording.format(shown=shown, pinned=pinned))
    return shown
