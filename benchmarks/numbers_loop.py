"""A training on the CPU whose steps are measured with and without a watch of numbers, in turn.

``python -m benchmarks.numbers_loop ROUNDS STEPS LENGTH NAME=QUESTION...`` prints a JSON document: for each watch the
``STEPS`` steps of each round, in seconds of processor time. ``LENGTH`` is the number of words in a sequence of the
batch. ``QUESTION`` is the JSON of a NumbersQuestion, or empty for no watch.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

from benchmarks.bench import interleaved
from dbg_agent.numbers.watch import Watch
from dbg_wire.codec import encode
from dbg_wire.records.numbers import NumbersQuestion
from dbg_wire.records.record import decode_record

WIDTH, LAYERS, WORDS = 384, 5, 1500
"""Sizes of a GPT with 10 million parameters."""


class _NoOthers:
    """The stops of other ranks: this process is the only rank."""

    others_are_kept = threading.Event()
    times_kept = 0
    kept: tuple[int, ...] = ()

    def hold_for_kept(self, frame: object) -> None:
        """Continue at once."""


def lone_watch(warn: Callable[[str], Any]) -> Watch:
    """Return a watch of a process without a broker. It encodes messages, keeps a wrong number, and stops nothing."""
    broker: Any = SimpleNamespace(number=0, warn=warn, send=encode, call_later=lambda _seconds, _callback: None)
    return Watch(
        broker=broker,
        is_connected=lambda: True,
        connect=lambda: False,
        stop=lambda _frame, _about: None,
        others=_NoOthers(),
    )


def join_fake_group() -> None:
    """Initialize torch.distributed for two ranks. Only this one exists, but it watches its replicas."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.distributed.init_process_group("fake", rank=0, world_size=2, store=FakeStore())


class Training:
    """A GPT of ``layers`` layers, its optimizer, and a batch; ``call`` may be a compiled form of the model."""

    def __init__(
        self,
        width: int,
        layers: int,
        words: int,
        *,
        length: int = 128,
        device: str = "cpu",
        dropout: float = 0.0,
        **optimizer: Any,
    ) -> None:
        torch.manual_seed(0)
        self._blocks = [
            nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=dropout, batch_first=True, norm_first=True)
            for _ in range(layers)
        ]
        ends = nn.LayerNorm(width), nn.Linear(width, words)
        self.model = nn.Sequential(nn.Embedding(words, width), *self._blocks, *ends).to(device)
        self.call: Callable[[Any], Any] = self.model
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3, **optimizer)
        self._batch = torch.randint(words, (4, length), device=device)

    def spoil(self) -> None:
        """Put a NaN into a weight of the last layer."""
        self._blocks[-1].linear2.weight.data[3, 5] = float("nan")

    def loss(self) -> Any:
        """Return the loss of the batch."""
        return nn.functional.cross_entropy(self.call(self._batch).flatten(0, 1), self._batch.flatten())

    def step(self, factor: float = 1.0) -> Any:
        """Train for a step, and return the loss before it is multiplied by the factor. Does not wait for the device."""
        loss = self.loss()
        (loss * factor).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach()


def _processor_seconds(training: Training) -> float:
    began = time.process_time()
    training.step()
    return time.process_time() - began


def _block(training: Training, watch: Watch, steps: int, question: NumbersQuestion | None) -> list[float]:
    if question is not None:
        watch.start(question)
    seconds = [_processor_seconds(training) for _ in range(steps)]
    watch.end()
    return seconds


def measured(
    rounds: int, steps: int, length: int, questions: dict[str, NumbersQuestion | None]
) -> dict[str, list[list[float]]]:
    """Return the steps of each round. The watches alternate after ``steps`` steps."""
    block = partial(_block, Training(WIDTH, LAYERS, WORDS, length=length), lone_watch(sys.exit), steps)
    return interleaved(rounds, {name: partial(block, question) for name, question in questions.items()})


def main() -> None:
    """Measure what the command line names."""
    torch.set_num_threads(1)
    join_fake_group()
    questions: dict[str, NumbersQuestion | None] = {}
    for word in sys.argv[4:]:
        name, _, question = word.partition("=")
        questions[name] = decode_record(NumbersQuestion, question) if question else None
    rounds, steps, length = map(int, sys.argv[1:4])
    print(json.dumps(measured(rounds, steps, length, questions)), flush=True)


if __name__ == "__main__":
    main()
