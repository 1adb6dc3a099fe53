"""Pods of several brokers and of their NATS servers, each on a host of its own: a rank outlives its broker there."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.full.deploy.test_pods import IMAGE, RANK, make_secrets
from tests.support.manifests import documents, manifest, one, pod_spec
from tests.support.nats_servers import needs_nats
from tests.support.netns import Host, hosts
from tests.support.pods import Node
from tests.support.processes import Child, Processes
from tests.support.requirements import missing_for_netns
from tests.support.time_unit import seconds

pytestmark = needs_nats

BROKERS = manifest("brokers.yaml")
BROKER, NATS = (pod_spec(one(BROKERS, "StatefulSet", name)) for name in ("dbg-broker", "nats"))
COUNT = one(BROKERS, "StatefulSet", "nats")["spec"]["replicas"]

STOPS = "value = 41\nimport dbg_agent; dbg_agent.set_trace()\nprint('went on', flush=True)\n"


@dataclass
class Site:
    """Hosts with a pod of NATS and a broker's pod each, and one for a pod of the job."""

    nodes: list[Node]
    hosts: list[Host]
    train: Host
    processes: Processes

    def start_nats(self, number: int) -> Child:
        """Run a pod of NATS."""
        host = self.hosts[number]
        named = Host(f"nats-{number}", host.ip, host.namespace, host.hosts_file)
        nats = self.processes.start(f"nats-{number}", self.nodes[number].command(named, NATS, "nats", None))
        nats.wait_for_output("Server is ready", stream="stderr")
        return nats

    def serve(self, number: int) -> Child:
        """Run a broker's pod: what prepares it, and then the broker, until that is ready."""
        node, host = self.nodes[number], self.hosts[number]
        prepared = node.command(host, BROKER, "home", IMAGE)
        assert subprocess.run(prepared, timeout=seconds(20), check=False).returncode == 0
        broker = self.processes.start(f"broker-{number}", node.command(host, BROKER, "broker", IMAGE))
        broker.wait_for_output("ready at wss://")
        return broker

    def in_broker(self, number: int, *command: str) -> subprocess.CompletedProcess[str]:
        """Do what ``kubectl exec`` does in a broker's pod."""
        argv = self.nodes[number].command(self.hosts[number], BROKER, "broker", IMAGE, None, *command)
        return subprocess.run(argv, capture_output=True, text=True, timeout=seconds(60), check=False)


@pytest.fixture
def site(tmp_path: Path, processes: Processes) -> Iterator[Site]:
    if reason := missing_for_netns():
        pytest.skip(reason)
    made = make_secrets(tmp_path, "--cluster", "train")
    assert made.returncode == 0, made.stderr
    secrets = {secret["metadata"]["name"]: secret for secret in documents(made.stdout)}
    names = [f"dbg-broker-{number}" for number in range(COUNT)]
    with hosts([*names, "train-0"], tmp_path) as (*brokers, train):
        nodes = []
        with train.hosts_file.open("a") as file:
            for number, host in enumerate(brokers):
                (tmp_path / host.name).mkdir()
                nodes.append(Node(tmp_path / host.name, secrets))
                file.write(f"{host.ip} nats-{number}.nats.dbg-broker.svc\n")
            # The balancer in front has led to the first one.
            file.write(f"{brokers[0].ip} dbg-broker.dbg-broker.svc\n")
        yield Site(nodes, brokers, train, processes)


def test_a_rank_outlives_its_brokers_pod_and_is_asked_at_another(site: Site) -> None:
    for number in range(COUNT):
        site.start_nats(number)
    brokers = [site.serve(number) for number in range(COUNT)]
    (site.nodes[0].folder / "rank").mkdir()
    node = Node(site.nodes[0].folder / "rank", site.nodes[0].secrets)
    stops = node.command(site.train, RANK, "train", None, 0, sys.executable, "-c", STOPS)
    rank = site.processes.start("train-0", stops)
    asked = site.in_broker(2, "dbg-attach", "eval", "0", "value + 1", "--wait", "--for", "60")
    assert "42" in asked.stdout, asked.stderr
    (listed,) = json.loads(site.in_broker(1, "dbg-attach", "list", "--json").stdout)["ranks"]
    assert (listed["address"], listed["job"], listed["state"]) == ("train-0:0", "train", "stopped")
    # The pod is gone that the balancer leads to: the rank has learnt of the others.
    brokers[0].kill()
    brokers[0].wait()
    asked = site.in_broker(2, "dbg-attach", "eval", "0", "value + 2", "--wait", "--for", "60")
    assert "43" in asked.stdout, asked.stderr
    assert site.in_broker(1, "dbg-attach", "continue", "0").returncode == 0
    rank.wait_for_output("went on")
