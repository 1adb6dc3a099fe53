"""The states of stops in the rows of an answer."""

from __future__ import annotations

import pytest

from dbg_wire.errors import PeerError
from dbg_wire.stop_states import StopState, decode_states, encode_states

STATES = [
    StopState("train.py:38, step == 3", 40, True, 2),
    StopState("model:Net.forward", None, False, 0, "no function"),
]


@pytest.mark.parametrize("states", [[], STATES])
def test_what_is_said_is_read(states: list[StopState]) -> None:
    assert decode_states(encode_states(states)) == states


@pytest.mark.parametrize("rows", [(), ("(Pdb)",)])
def test_an_older_rank_says_nothing_of_stops(rows: tuple[str, ...]) -> None:
    assert decode_states(rows) is None


@pytest.mark.parametrize("row", ["", "7", "[1,2]", '["a",1,1,1,""]', '["a","1",true,1,""]', '["a",1,true,1,null]'])
def test_anything_else_is_refused(row: str) -> None:
    with pytest.raises(PeerError, match="state of a stop"):
        decode_states(("stops", row))
