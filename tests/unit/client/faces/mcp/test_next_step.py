from __future__ import annotations

import pytest

from dbg_client.faces.mcp.rest import with_tools


@pytest.mark.parametrize(
    ("command", "tool"),
    [
        ("dbg-attach interrupt 2        (breaks in, and opens the debugger there)", "`interrupt` with ranks='2', then"),
        ("dbg-attach interrupt train-1/2", "`interrupt` with ranks='2', job='train-1', then"),
        ("dbg-attach 5        (opens the debugger in which it stands)", "`where` with ranks='5', then `variables`"),
        ("dbg-attach where 0-3,7 --threads        (shows their stacks)", "`where` with ranks='0-3,7', threads=true"),
        ("dbg-attach where 1 --all        (shows its last stack)", "`where` with ranks='1'"),
    ],
)
def test_a_verdict_names_the_tool_to_call_next(command: str, tool: str) -> None:
    told = with_tools(f"rank 2 has not come\n  try: dbg-attach 3\ntry: {command}\n", may_change=True)
    assert told.startswith(f"rank 2 has not come\n  try: dbg-attach 3\ntry: {tool}"), told
    assert "dbg-attach" not in told.splitlines()[-1]


def test_one_who_may_only_look_is_sent_to_the_stack() -> None:
    for verb in ("", "interrupt "):
        assert with_tools(f"try: dbg-attach {verb}2", may_change=False) == "try: `where` with ranks='2'"
