"""The entry in launch.json, put in beside others."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_client.faces.dap import launch_json
from dbg_client.faces.dap.launch_json import entry_for, with_entry
from dbg_wire.errors import BadInput

ENTRY = entry_for("all")

MINE = """\
{
    // Comments stay, "configurations": [ in them, too.
    "version": "0.2.0", /* and these [ */
    "inputs": [{"id": "configurations", "type": "x",}],
    "configurations": [
        {"name": "Python: \\"mine\\" // no comment", "type": "debugpy", "request": "launch"}, // last
    ],
}
"""


def test_other_entries_and_comments_stay() -> None:
    changed = with_entry(MINE, ENTRY)
    assert launch_json.read(changed)["configurations"][0] == ENTRY
    assert launch_json.read(changed)["configurations"][1:] == launch_json.read(MINE)["configurations"]
    # All that stood there still does, in its order.
    lines = iter(changed.splitlines())
    assert all(line in lines for line in MINE.splitlines())
    assert with_entry(changed, ENTRY) == changed


@pytest.mark.parametrize("text", ["", "  \n", '{"configurations": []}', '{"version": "0.2.0", "configurations": [ ]}'])
def test_an_empty_file_or_list_gets_the_entry(text: str) -> None:
    assert launch_json.read(with_entry(text, ENTRY))["configurations"] == [ENTRY]


@pytest.mark.parametrize(
    "text", ["[]", "{}", '{"configurations": {}}', "{", '{"a": "\n"}', "{'configurations': []}", "/*", "[" * 9999]
)
def test_what_is_not_understood_is_refused_with_the_entry_to_put_in(text: str) -> None:
    with pytest.raises(BadInput, match="debugAdapterPath"):
        with_entry(text, ENTRY)


def test_another_entry_of_the_same_name_is_not_touched() -> None:
    text = with_entry("", {**ENTRY, "target": "0-7"})
    with pytest.raises(BadInput, match="has another entry 'Ranks: all'"):
        with_entry(text, ENTRY)


@given(st.recursive(st.none() | st.integers() | st.text(), lambda one: st.lists(one) | st.dictionaries(st.text(), one)))
def test_json_is_read_as_json(value: object) -> None:
    assert launch_json.read(json.dumps(value, indent=2)) == value
