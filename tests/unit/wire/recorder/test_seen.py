"""Names, partners, shapes and sizes of recorded collectives in the words of those who call them."""

from __future__ import annotations

import pytest

from dbg_wire.recorder.seen import bytes_of, name_of, peer_of, shapes_text, types_text


@pytest.mark.parametrize(
    ("recorded", "name", "peer", "is_receive"),
    [
        ("all_reduce", "all_reduce", None, False),
        ("_all_gather_base", "all_gather_into_tensor", None, False),
        ("all_reduce_barrier", "barrier", None, False),
        ("send 0->1", "send", 1, False),
        ("recv 3<-12", "recv", 12, True),
        ("send 0->x", "send", None, False),
        ("", "", None, False),
    ],
)
def test_a_recorded_name_is_told_as_people_call_it(
    recorded: str, name: str, peer: int | None, is_receive: bool
) -> None:
    assert (*name_of(recorded), peer_of(recorded)) == (name, is_receive, peer)


def test_shapes_and_types_are_those_of_python() -> None:
    assert shapes_text(()) == ""
    assert shapes_text(((2, 3), ())) == "[2, 3], []"
    assert shapes_text([(1,)] * 20).endswith("[1], and 12 more")
    assert types_text(("Float", "Float", "BFloat16", "Float8_e4m3fn")) == "float32, bfloat16, float8_e4m3fn"


def test_bytes_are_those_of_all_inputs() -> None:
    assert bytes_of(((2, 3), (5,)), ("Float", "Long")) == 64
    assert bytes_of(((),), ("Double",)) == 8
    assert bytes_of(((7,),), ("float8_e5m2",)) == 7
    assert bytes_of((), ()) is None
    assert bytes_of(((2,),), ("QInt8",)) is None
