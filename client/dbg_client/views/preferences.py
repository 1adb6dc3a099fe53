"""The user's settings as text and JSON, each with where its value comes from. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping

from dbg_client.views.table import table
from dbg_client.words.config import PREFERENCES, Config, Origin, Setting
from dbg_wire.errors import printable

_WHERE = {Origin.DEFAULT: "default", Origin.FILE: "config.toml"}


def show_settings(settings: Mapping[str, Setting], config: Config) -> str:
    """Return a line for each setting, below it the file's path and what is wrong with it."""
    lines = table(("setting", "value", "from", ""), [_row(key, one) for key, one in settings.items()])
    shown = "".join(f"{line}\n" for line in lines)
    problems = "".join(f"{problem}\n" for problem in config.problems.values())
    return f"{shown}\nThe file is {printable(config.path) or 'unknown, as HOME is not set'}.\n{problems}"


def show_settings_json(settings: Mapping[str, Setting], config: Config) -> str:
    """Return the same as one JSON document."""
    document = {
        "schema": 1,
        "file": config.path or None,
        "settings": [
            {"key": key, "value": one.value, "from": one.origin.value, "where": one.where}
            for key, one in settings.items()
        ],
        "problems": [str(problem) for problem in config.problems.values()],
    }
    return json.dumps(document) + "\n"


def _row(key: str, setting: Setting) -> tuple[str, str, str, str]:
    row = PREFERENCES.get(key)
    where = _WHERE.get(setting.origin) or setting.where or ""
    return key, printable(setting.value) or "none", where, row.help if row is not None else ""
