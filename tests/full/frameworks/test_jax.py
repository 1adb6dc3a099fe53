"""Jobs of the real JAX, with gloo on the CPU: numbers of ranks, and which process has not reached a computation."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.support.broker import running_broker
from tests.support.nats_servers import free_ports
from tests.support.processes import Processes
from tests.support.ranks import attach, states, wait_until
from tests.support.requirements import needs_jax
from tests.support.time_unit import seconds

pytestmark = [needs_jax, pytest.mark.timeout(seconds(240))]

JOB = """\
import os, subprocess, sys
from functools import partial

if len(sys.argv) == 3:
    port = sys.argv[1]
    ranks = [subprocess.Popen([sys.executable, __file__, port, sys.argv[2], str(i)]) for i in range(3)]
    sys.exit(max(rank.wait() for rank in ranks))

import dbg_agent

dbg_agent.install()

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

port, fifo, rank = sys.argv[1], sys.argv[2], int(sys.argv[3])
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(f"127.0.0.1:{port}", 3, rank)
mesh = Mesh(np.array(jax.devices()), ("host",))
per_host = NamedSharding(mesh, PartitionSpec("host"))

@jax.jit
@partial(jax.shard_map, mesh=mesh, in_specs=PartitionSpec("host"), out_specs=PartitionSpec())
def total(batch):
    return jax.lax.psum(batch.sum(), "host")

def wait_for_data(step):
    if step == 2 and rank == 1:
        open(fifo).read()

for step in range(4):
    wait_for_data(step)
    total(jax.make_array_from_process_local_data(per_host, np.ones(4, np.float32)))
"""


def test_why_names_the_process_that_has_not_reached_a_computation(
    processes: Processes, home: Path, tmp_path: Path
) -> None:
    running_broker(processes, home)
    script, fifo = tmp_path / "train.py", tmp_path / "data"
    script.write_text(JOB)
    os.mkfifo(fifo)
    environ = {**os.environ, "DBG_HOME": str(home), "DBG_JOB": "jax"}
    processes.start("job", [sys.executable, str(script), str(free_ports(1)[0]), str(fifo)], env=environ)
    wanted = dict.fromkeys(range(3), "running")
    wait_until(home, lambda listed: states(listed) == wanted, "three ranks", timeout=seconds(90))

    facts = {"kind": "missing", "ranks": "1", "others": "0,2", "collective": "total", "certainty": "likely"}
    while True:
        # At first the others may still be on their way there.
        verdicts = json.loads(attach(home, "why", "--json").stdout)["verdicts"]
        if verdicts and facts.items() <= verdicts[0].items() and verdicts[0]["cause"] == "waiting":
            break
    assert len(verdicts) == 1
