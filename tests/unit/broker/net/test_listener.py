"""Listening sockets, and the errors where none can be opened."""

from __future__ import annotations

import pytest

from dbg_broker.net.tcp import CantListen, PortTaken, listen


def test_port_that_is_taken_is_named() -> None:
    with listen("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(PortTaken, match=f"port {port} on 127.0.0.1 is taken"):
            listen("127.0.0.1", port)


def test_address_of_another_host_is_named() -> None:
    with pytest.raises(CantListen, match=r"can't listen on 192\.0\.2\.1"):
        listen("192.0.2.1", 0)
