"""Results of ``forward`` functions, seen in their frames."""

from __future__ import annotations

import sys
from typing import Any

from dbg_agent.numbers.returns import ForwardReturns


class Double:
    """A module without torch."""

    def forward(self, x: int) -> int:
        y = x * 2
        return y  # noqa: RET504 - a line of its own, which the test expects


def test_a_result_is_seen_in_the_frame_of_its_forward() -> None:
    seen: list[tuple[Any, ...]] = []

    def returned(module: Any, result: Any) -> None:
        frame = sys._getframe(2)
        seen.append((type(module), result, frame.f_code.co_name, frame.f_locals["y"]))

    returns, module = ForwardReturns(returned), Double()
    returns.start()
    returns.add(module)
    module.forward(3)
    returns.end()
    module.forward(4)
    assert seen == ([(Double, 6, "forward", 6)] if sys.version_info >= (3, 12) else [])
