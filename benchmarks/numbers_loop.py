"""A training on the CPU whose steps are measured with and without a watch of numbers, in turn.

``python -m benchmarks.numbers_loop ROUNDS NAME=QUESTION...`` prints a JSON document: the shortest step of each watch in
each round, in seconds of processor time. ``QUESTION`` is the JSON of a NumbersQuestion, or empty for no watch.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

from dbg_agent.numbers.watch import Watch
from dbg_wire.records.numbers import NumbersQuestion
from dbg_wire.records.record import decode_record

WIDTH, LAYERS, WORDS = 384, 5, 1500
"""Sizes of a GPT with 10 million parameters."""

STEPS = 7
"""Steps of a kind in a round. Other processes of the machine disturb some of them, so the shortest one is reported."""


class NoOthers:
    """This process is the only rank."""

    others_are_kept = threading.Event()
    times_kept = 0
    kept: tuple[int, ...] = ()

    def hold_for_kept(self, frame: object) -> None:
        """Continue at once."""


class Training:
    """A GPT, its optimizer, and a batch."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        blocks = [
            nn.TransformerEncoderLayer(WIDTH, 6, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
            for _ in range(LAYERS)
        ]
        self.model = nn.Sequential(nn.Embedding(WORDS, WIDTH), *blocks, nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.batch = torch.randint(WORDS, (4, 128))

    def step(self) -> float:
        """Train for a step, and return its processor time in seconds."""
        began = time.process_time()
        loss = nn.functional.cross_entropy(self.model(self.batch).flatten(0, 1), self.batch.flatten())
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return time.process_time() - began


def measured(rounds: int, questions: dict[str, NumbersQuestion | None]) -> dict[str, list[float]]:
    """Return the shortest steps of each round. The watches alternate after each step."""
    broker: Any = SimpleNamespace(number=0, warn=sys.exit)
    watch = Watch(
        broker=broker,
        is_connected=lambda: False,
        connect=lambda: False,
        stop=lambda _frame, _about: None,
        others=NoOthers(),
    )
    training = Training()
    found: dict[str, list[float]] = {name: [] for name in questions}
    for number in range(rounds + 1):
        steps: dict[str, list[float]] = {name: [] for name in questions}
        for _ in range(STEPS):
            for name, question in questions.items():
                watch.end()
                if question is not None:
                    watch.start(question)
                steps[name].append(training.step())
        if number:  # the first round warms up
            for name in questions:
                found[name].append(min(steps[name]))
    return found


def main() -> None:
    """Measure what the command line names."""
    torch.set_num_threads(1)
    questions: dict[str, NumbersQuestion | None] = {}
    for word in sys.argv[2:]:
        name, _, question = word.partition("=")
        questions[name] = decode_record(NumbersQuestion, question) if question else None
    document: dict[str, Any] = measured(int(sys.argv[1]), questions)
    print(json.dumps(document), flush=True)


if __name__ == "__main__":
    main()
