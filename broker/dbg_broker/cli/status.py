"""``dbg-broker status``: whether the broker is up, and its number of ranks in each state."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from dbg_broker.cli.broker_client import BrokerProbe, find_broker
from dbg_broker.cli.console import PrintLine, home_of, print_line
from dbg_command.home import user_name
from dbg_dial.endpoint import Route
from dbg_wire.errors import DbgError, printable
from dbg_wire.messages import Welcome
from dbg_wire.records.ranks import RankInfo, RankState

SCHEMA = 1


def status(home: str, environ: Mapping[str, str], print_line: PrintLine, *, as_json: bool) -> int:
    """Print the broker's state and return 0. Raise DbgError, of exit status 4, if it is down."""
    others = ""
    try:
        reach = find_broker(None, home, environ, "watcher")
        others = ", ".join(printable(one.url) for one in reach.others)
        welcome, ranks = asyncio.run(_ask(reach))
    except DbgError as error:
        if as_json:
            print_line(json.dumps({"schema": SCHEMA, "up": False, "error": str(error)}))
        elif others:
            print_line(f"down; ranks and terminals of this home connect to other brokers of its cluster: {others}")
        raise
    if as_json:
        print_line(json.dumps(_document(reach.endpoint.url, welcome, ranks)))
    else:
        for line in _lines(reach.endpoint.url, welcome, ranks):
            print_line(line)
    return 0


async def _ask(reach: Route) -> tuple[Welcome, list[RankInfo]]:
    async with BrokerProbe(reach) as probe:
        for step in (probe.look_up, probe.connect, probe.secure, probe.compare, probe.present):
            await step()
        return await probe.greet(user_name()), await probe.ranks()


def _document(url: str, welcome: Welcome, ranks: Sequence[RankInfo]) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "up": True,
        "url": url,
        "host": welcome.host,
        "pid": welcome.pid,
        "release": welcome.release,
        "uptime": welcome.uptime,
        **_cluster(welcome),
        "states": _by_state(ranks),
    }


def _cluster(welcome: Welcome) -> dict[str, object]:
    """Return the part of the JSON document about the cluster; empty for a single broker."""
    if not welcome.brokers:
        return {}
    urls = [broker.url for broker in welcome.brokers]
    return {"cluster": {"brokers": urls, "nats_silent": welcome.nats_silent}}


def _cluster_lines(welcome: Welcome) -> Iterator[str]:
    if not welcome.brokers:
        return
    others = ", ".join(printable(broker.url) for broker in welcome.brokers[1:])
    yield f"brokers: {len(welcome.brokers)}{f' (with {others})' if others else ''}"
    if welcome.nats_silent is not None:
        silent = _duration(welcome.nats_silent)
        yield f"NATS has not answered for {silent}: ranks wait only for ranks of this broker, and new tokens stay here"


def _lines(url: str, welcome: Welcome, ranks: Sequence[RankInfo]) -> list[str]:
    who = f"pid {welcome.pid} on {printable(welcome.host)}, release {printable(welcome.release)}"
    lines = [f"up at {url} ({who}) for {_duration(welcome.uptime)}"]
    lines.extend(_cluster_lines(welcome))
    states = ", ".join(f"{count} {state}" for state, count in _by_state(ranks).items() if count)
    lines.append(f"ranks: {len(ranks)}{f' ({states})' if states else ''}")
    return lines


def _by_state(ranks: Sequence[RankInfo]) -> dict[str, int]:
    counts = Counter(rank.state for rank in ranks)
    return {state.value: counts[state] for state in RankState}


def _duration(seconds: float) -> str:
    """Format a duration in its two largest units."""
    minutes, hours, days = int(seconds // 60), int(seconds // 3600), int(seconds // 86400)
    if days:
        return f"{days} d {hours % 24} h"
    if hours:
        return f"{hours} h {minutes % 60} min"
    return f"{minutes} min {int(seconds) % 60} s" if minutes else f"{int(seconds)} s"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(given: argparse.Namespace) -> int:
    """Run the verb, and return the exit status. Raise DbgError."""
    return status(home_of(given), os.environ, print_line, as_json=given.json)
