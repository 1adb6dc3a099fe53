"""The broker's log of refused requests: enough of the path to recognize it, and never a token."""

from __future__ import annotations

import http.client
import ssl

import pytest

from dbg_broker.net.http import path_shown
from tests.support.serving import SECONDS, Serve, tokens

LONG = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFG"


@pytest.mark.parametrize(
    ("target", "shown"),
    [
        ("/client", "/client"),
        (f"/client?token={LONG}", "/client"),
        (f"/client#token={LONG}", "/client"),
        (f"/client/{LONG}", "/client/0123456…"),
        (f"/{LONG}", "/0123456789abcd…"),
        ("/\x1b]0;x\x07", r"/\x1b]0;x\x07"),
        ("", ""),
    ],
)
def test_a_path_is_shown_without_what_may_be_a_token(target: str, shown: str) -> None:
    assert path_shown(target) == shown


def test_a_token_in_a_query_is_not_logged(serve: Serve) -> None:
    serving = serve("--listen", "127.0.0.1:0", "-vv")
    secrets = tokens(serving.home)
    context = ssl.create_default_context(cafile=str(serving.home / "certificate.pem"))
    context.check_hostname = False
    for secret in secrets:
        for path in (f"/client?token={secret}", f"/nothing?{secret}", f"/{secret}"):
            asking = http.client.HTTPSConnection("127.0.0.1", serving.port, timeout=SECONDS, context=context)
            asking.request("GET", path)
            assert asking.getresponse().status in (401, 404)
            asking.close()
    _, _, errors = serving.end()
    assert errors.count("is refused: 40") == 9
    assert not any(secret in errors for secret in secrets)
