"""Values at a line that become NaN or infinite, in programs with JAX and numpy."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import pytest

from dbg_agent.numbers.tensors import wrong_value
from tests.support.broker import running_broker
from tests.support.ranks import ask, wait_until_states
from tests.support.requirements import needs_jax, needs_torch
from tests.support.runs import Directory, line_of
from tests.support.time_unit import seconds

pytestmark = [needs_jax, needs_torch, pytest.mark.timeout(seconds(240))]

FRAMEWORK_SECONDS = 90.0
"""Seconds for ranks to import JAX: several times as long as on two idle cores."""

JOB = """\
import os, subprocess, sys

if "RANK" not in os.environ:
    ranks = [{**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank)} for rank in range(2)]
    sys.exit(max(one.wait() for one in [subprocess.Popen([sys.executable, __file__], env=rank) for rank in ranks]))

import jax
import jax.numpy as jnp

@jax.jit
@jax.value_and_grad
def train(weights, batch):
    return jnp.mean((batch @ weights["w"] + weights["b"]) ** 2)

weights = {"w": jnp.ones((4, 3), jnp.bfloat16), "b": jnp.zeros(3)}
step = 0
while True:
    step += 1
    batch = jnp.ones((8, 4))
    if step == 5 and os.environ["RANK"] == "1":
        weights["b"] = weights["b"].at[1].set(jnp.inf)
    loss, gradients = train(weights, batch)
    weights = jax.tree.map(lambda one, gradient: one - 0.01 * gradient, weights, gradients)  # update
"""

VALUES = {
    "1.0, np.arange(3), 'text', None, {}": None,
    "float('-inf')": ("", 0, 1, 1, ()),
    "[1, {'w': (np.ones(2), np.array([[1, np.inf], [np.nan, 2]]))}]": ("[1]['w'][1]", 1, 1, 4, (0, 1)),
    "np.complex64(complex(0, np.nan))": ("", 1, 0, 1, ()),
    "jnp.array([1, jnp.nan], jnp.bfloat16)": ("", 1, 0, 2, (1,)),
    "torch.tensor([[1, torch.nan]], requires_grad=True)": ("", 1, 0, 2, (0, 1)),
}
"""Values, and for each the name of its first wrong part, with the fields of the wrong number."""


@pytest.mark.parametrize("text", VALUES)
def test_the_first_wrong_part_of_a_value_is_found(text: str) -> None:
    names = {"jnp": import_module("jax.numpy"), "np": import_module("numpy"), "torch": import_module("torch")}
    facts: dict[str, Any] | None = wrong_value(eval(text, names), "")  # noqa: S307
    found = facts and tuple(facts[name] for name in ("name", "nans", "infinities", "size", "first"))
    assert found == VALUES[text]


def test_a_rank_stops_at_the_line_and_the_other_one_is_held(directory: Directory) -> None:
    running_broker(directory.processes, directory.home)
    (directory.path / "train.py").write_text(JOB)
    place = f"train.py:{line_of('# update', JOB)}, loss, gradients"
    command = directory.command("--stop-at", "nan", "--eval", place, "--", sys.executable, "train.py")
    directory.processes.start("run", command, env=directory.variables)
    wait_until_states(directory.home, {0: "held", 1: "stopped"}, timeout=seconds(FRAMEWORK_SECONDS))
    (wrong,) = ask(directory.home, "numbers")["wrong"]
    facts = {"rank": 1, "step": 5, "suspect": "value", "name": "loss", "infinities": 1, "origin": "line"}
    assert facts.items() <= wrong.items()
