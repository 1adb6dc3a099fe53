from __future__ import annotations

import json

from dbg_client.cli.config import show_settings, show_settings_json
from dbg_client.words.config import Config, Origin, Setting
from dbg_wire.errors import BadInput

SETTINGS = {
    "engine": Setting("pdb", Origin.FILE, "/c.toml"),
    "timeout": Setting("5", Origin.VARIABLE, "DBG_TIMEOUT"),
    "pager": Setting("", Origin.DEFAULT),
    "broker": Setting("login1:6900\x1b[2J", Origin.OPTION, "--broker"),
}
CONFIG = Config("/c.toml", problems={"escape": BadInput("/c.toml, `escape`: bad", "mend it")})


def test_each_setting_has_a_line_with_where_it_comes_from() -> None:
    lines = [line.split() for line in show_settings(SETTINGS, CONFIG).splitlines()]

    assert lines[0] == ["setting", "value", "from"]
    assert lines[1][:3] == ["engine", "pdb", "config.toml"]
    assert lines[2][:3] == ["timeout", "5", "DBG_TIMEOUT"]
    assert lines[3][:3] == ["pager", "none", "default"]
    assert lines[4][1] == "login1:6900\\x1b[2J"
    assert lines[-2:] == [["The", "file", "is", "/c.toml."], ["/c.toml,", "`escape`:", "bad;", "mend", "it"]]


def test_the_document_has_all_of_it() -> None:
    document = json.loads(show_settings_json(SETTINGS, CONFIG))

    assert (document["schema"], document["file"]) == (1, "/c.toml")
    assert document["settings"][0] == {"key": "engine", "value": "pdb", "from": "file", "where": "/c.toml"}
    assert document["problems"] == ["/c.toml, `escape`: bad; mend it"]
