"""From which addresses peers may come. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class Allowed:
    """Networks that peers may come from; none means all. This host itself is always among them."""

    networks: tuple[Network, ...] = ()

    def admits(self, peer: object, own: object = ()) -> bool:
        """Tell whether a socket's peer may come, by the addresses of both its ends; a peer on this host may."""
        if not self.networks:
            return True
        host = _host_of(peer)
        if host is None:
            return False
        return host.is_loopback or host == _host_of(own) or any(host in network for network in self.networks)


def _host_of(address: object) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    if not isinstance(address, tuple) or not address:
        return None
    try:
        host = ipaddress.ip_address(str(address[0]).partition("%")[0])
    except ValueError:
        return None
    # An IPv6 socket shows IPv4 peers in a form of their own.
    return getattr(host, "ipv4_mapped", None) or host


def parse_networks(texts: Sequence[str]) -> Allowed:
    """Read networks such as ``10.0.0.0/8``, or single addresses. Raise ValueError, with the text that is none."""
    networks = []
    for text in texts:
        try:
            networks.append(ipaddress.ip_network(text))
        except ValueError:
            raise ValueError(text) from None
    return Allowed(tuple(networks))


EVERYBODY = Allowed()
