"""The manifests' containers run on this machine as their pods would; ranks outlive their broker's pod."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import OpenTerminal
from tests.support.manifests import DEPLOY, RELEASES, broker_image, check_schema, documents, manifest, one, pod_spec
from tests.support.nats_servers import needs_nats
from tests.support.netns import Host, hosts
from tests.support.pods import Node
from tests.support.processes import Child, Processes
from tests.support.ranks import attach_command
from tests.support.requirements import missing_for_netns
from tests.support.time_unit import seconds

TRAIN = """\
import os
from dbg_agent import set_trace
attempt = os.environ["ATTEMPT"]
set_trace()
print("attempt", attempt, "went on", flush=True)
"""

PROBE = """\
import http.client, ssl, sys
connection = http.client.HTTPSConnection("127.0.0.1", 6900, context=ssl._create_unverified_context())
connection.request("GET", "/healthz", headers={"User-Agent": "kube-probe/1.37", "Accept": "*/*", "Connection": "close"})
print(connection.getresponse().status)
"""

IMAGE = broker_image()
WATCHING = ("env", "TERM=xterm", "dbg-attach", "0", "--watch")
BROKER = pod_spec(one(manifest("broker.yaml"), "Deployment"))
RANK = pod_spec(one(manifest("train.yaml"), "Job"))


@dataclass
class Cluster:
    """The broker's pod and one of the job's, each on a host of its own, and an administrator's laptop."""

    node: Node
    broker: Host
    train_0: Host
    laptop: Path
    processes: Processes

    def serve(self) -> Child:
        """Run the broker's pod: what prepares it, and then the broker, until that is ready."""
        prepared = self.node.command(self.broker, BROKER, "home", IMAGE)
        assert subprocess.run(prepared, timeout=seconds(20), check=False).returncode == 0
        broker = self.processes.start("broker", self.node.command(self.broker, BROKER, "broker", IMAGE))
        broker.wait_for_output("ready at wss://")
        return broker

    def train(self, script: Path, attempt: int) -> Child:
        """Run the pod train-0."""
        command = self.node.command(
            self.train_0, RANK, "train", None, 0, "env", f"ATTEMPT={attempt}", sys.executable, "-c", script.read_text()
        )
        return self.processes.start("train-0", command)

    def in_broker(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Do what ``kubectl exec`` does in the broker's pod."""
        argv = self.node.command(self.broker, BROKER, "broker", IMAGE, None, *command)
        return subprocess.run(argv, capture_output=True, text=True, timeout=seconds(30), check=False)

    def forwarded(self) -> list[str]:
        """Return the variables of a terminal that comes by ``kubectl port-forward``: from the pod's own loopback."""
        pin = self.node.secrets["train-dbg"]["stringData"]["broker"].partition("#")[2]
        return [f"DBG_BROKER=127.0.0.1:6900#{pin}", f"DBG_TOKEN_FILE={self.laptop / 'tokens/driver'}"]


def make_secrets(home: Path, *jobs: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        [str(DEPLOY / "kubernetes/make-secrets"), *jobs],
        env={"PATH": path, "HOME": str(home), "DBG_HOME": str(home / "laptop")},
        capture_output=True,
        text=True,
        timeout=seconds(30),
        check=False,
    )


@pytest.fixture
def cluster(tmp_path: Path, processes: Processes) -> Iterator[Cluster]:
    if reason := missing_for_netns():
        pytest.skip(reason)
    made = make_secrets(tmp_path, "train")
    assert made.returncode == 0, made.stderr
    secrets = {secret["metadata"]["name"]: secret for secret in documents(made.stdout)}
    with hosts(["broker", "train-0"], tmp_path) as (broker, train_0):
        with broker.hosts_file.open("a") as file:
            file.write(f"{broker.ip} dbg-broker.dbg-broker.svc\n")
        yield Cluster(Node(tmp_path, secrets), broker, train_0, tmp_path / "laptop", processes)


def test_a_restarted_pod_keeps_the_address_of_its_rank_and_its_terminal(
    cluster: Cluster, open_terminal: OpenTerminal, tmp_path: Path
) -> None:
    broker = cluster.serve()
    probed = cluster.broker.run(sys.executable, "-c", PROBE)
    assert probed.stdout == "200\n", probed.stderr
    (tmp_path / "train.py").write_text(TRAIN)
    first = cluster.train(tmp_path / "train.py", 1)
    follow = attach_command("wait", "0", "--for", "60", "--follow", "--engine", "pdb")
    terminal = open_terminal(cluster.broker.command(["env", *cluster.forwarded(), *follow]))
    terminal.wait_for(re.compile(r"^\(Pdb\)", re.MULTILINE))
    seen = cluster.in_broker("dbg-attach", "list", "--json")
    (rank,) = json.loads(seen.stdout)["ranks"]
    assert (rank["address"], rank["job"], rank["world_size"]) == ("train-0:0", "train", 4), seen.stderr

    beside = open_terminal(cluster.node.command(cluster.broker, BROKER, "broker", IMAGE, None, *WATCHING))
    beside.wait_for(re.compile(r"Watching train-0:0|train-0:0 .*watch", re.IGNORECASE))
    beside.send("\x1dd")
    assert beside.exit_status() == 0
    healthy = cluster.in_broker(*IMAGE.health)
    assert healthy.returncode == 0, healthy.stderr

    # The pod is evicted, and the job's controller makes another one of the same name.
    first.kill()
    first.wait()
    second = cluster.train(tmp_path / "train.py", 2)
    terminal.wait_for(re.compile(r"died: .*train-0:0 .*\(Pdb\)", re.DOTALL))
    terminal.send("p attempt\r")
    terminal.wait_for("'2'")

    # The broker's pod is made anew: its volume and its Secret are as before, and rank and terminal come back.
    broker.terminate()
    assert broker.wait(seconds(5)) == 0
    cluster.serve()
    terminal.send("p attempt * 3\r")
    terminal.wait_for("'222'")
    terminal.send("c\r")
    second.wait_for_output("attempt 2 went on")


def test_a_volume_at_tmp_does_not_hide_a_clone_below_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", "/tmp/clone/.venv")
    made = make_secrets(tmp_path, "train")
    secrets = {secret["metadata"]["name"]: secret for secret in documents(made.stdout)}
    host = Host("train-0", "10.77.0.1", "none", tmp_path / "hosts")
    command = Node(tmp_path, secrets).command(host, RANK, "train", None, 0)
    mounted = list(itertools.pairwise(command))
    assert command.index("/tmp") < mounted.index(("/tmp/clone/.venv", "/tmp/clone/.venv"))


READ_ALL = """\
import os
for folder in ("/run/secrets", "/var/lib", "/root", "/home"):
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                print(os.path.join(path, name), open(os.path.join(path, name)).read())
            except OSError:
                pass
"""


def test_the_pod_of_a_rank_has_only_its_own_token_which_cannot_drive(cluster: Cluster, tmp_path: Path) -> None:
    cluster.serve()
    own = cluster.node.secrets["train-dbg"]["stringData"]["token"]
    others = [cluster.node.secrets["dbg-broker"]["stringData"][role].strip() for role in ("rank", "driver", "watcher")]

    def in_rank(*command: str) -> subprocess.CompletedProcess[str]:
        argv = cluster.node.command(cluster.train_0, RANK, "train", None, 0, *command)
        return subprocess.run(argv, capture_output=True, text=True, timeout=seconds(30), check=False)

    read = in_rank(sys.executable, "-c", READ_ALL).stdout
    assert own in read
    assert [token for token in others if token in read] == []
    refused = in_rank(*attach_command("list"))
    assert (refused.returncode, "token" in refused.stderr) == (5, True), refused.stderr
    checked = in_rank(sys.executable, "-m", "dbg_broker", "check")
    assert re.search(r"^fingerprint +ok", checked.stdout, re.MULTILINE), checked.stdout + checked.stderr


def test_each_secret_fits_the_schema_and_names_its_namespace(tmp_path: Path) -> None:
    made = make_secrets(tmp_path, "team/train", "eval-2")
    assert made.returncode == 0, made.stderr
    secrets = {secret["metadata"]["name"]: secret for secret in documents(made.stdout)}
    for secret in secrets.values():
        check_schema(secret, RELEASES[1])
    found = {name: secret["metadata"].get("namespace") for name, secret in secrets.items()}
    assert found == {"dbg-broker": "dbg-broker", "train-dbg": "team", "eval-2-dbg": None}
    assert len({secrets[name]["stringData"]["token"] for name in ("train-dbg", "eval-2-dbg")}) == 2
    private = secrets["dbg-broker"]["stringData"]
    assert not any(text.strip() in made.stderr for text in private.values())
    again = make_secrets(tmp_path, "team/train", "eval-2")
    assert again.stdout == made.stdout, "a second call makes no other certificate and no other tokens"


@pytest.mark.parametrize("job", ["Train", "a_b", "-x", "", "a\nb", "team/", "a/b/c"])
def test_an_invalid_job_name_is_refused_before_anything_is_made(tmp_path: Path, job: str) -> None:
    made = make_secrets(tmp_path, job)
    assert (made.returncode, made.stdout) == (2, "")
    assert made.stderr != ""
    assert not (tmp_path / "laptop").exists()


BROKERS = manifest("brokers.yaml")
CLUSTERED, NATS = (pod_spec(one(BROKERS, "StatefulSet", name)) for name in ("dbg-broker", "nats"))
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
        prepared = node.command(host, CLUSTERED, "home", IMAGE)
        assert subprocess.run(prepared, timeout=seconds(20), check=False).returncode == 0
        broker = self.processes.start(f"broker-{number}", node.command(host, CLUSTERED, "broker", IMAGE))
        broker.wait_for_output("ready at wss://")
        return broker

    def in_broker(self, number: int, *command: str) -> subprocess.CompletedProcess[str]:
        """Do what ``kubectl exec`` does in a broker's pod."""
        argv = self.nodes[number].command(self.hosts[number], CLUSTERED, "broker", IMAGE, None, *command)
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


@needs_nats
def test_a_rank_outlives_the_pod_of_its_broker_and_answers_through_another(site: Site) -> None:
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
