"""``dbg-attach config``: show each setting, its value and where it comes from."""

from __future__ import annotations

import json
from collections.abc import Mapping

from dbg_client.actions.streams import write_result
from dbg_client.views.table import table
from dbg_client.words.config import PREFERENCES, Config, Origin, Setting, settle_one
from dbg_client.words.settings import ShowConfig
from dbg_wire.errors import BadInput, printable
from dbg_wire.finding.environment import BROKER, HOME
from dbg_wire.finding.home import home_directory

_WHERE = {Origin.DEFAULT: "default", Origin.FILE: "config.toml"}

BAD_CONFIG = 2
"""Exit status if something is wrong with the file."""


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


def show_preferences(settings: ShowConfig, environ: Mapping[str, str], config: Config) -> int:
    """Print all settings and return the exit status."""
    given = dict(settings.given)
    known = {key: settle_one(key, given.get(key), environ, config) for key in PREFERENCES}
    known |= {"broker": _broker(given.get("broker"), environ), "home": _home(environ)}
    write_result((show_settings_json if settings.json else show_settings)(known, config))
    return BAD_CONFIG if config.problems else 0


def _broker(argument: str | None, environ: Mapping[str, str]) -> Setting:
    if argument is not None:
        return Setting(argument, Origin.OPTION, "--broker")
    if told := environ.get(BROKER):
        return Setting(told, Origin.VARIABLE, BROKER)
    return Setting("as broker.json in the home says", Origin.DEFAULT)


def _home(environ: Mapping[str, str]) -> Setting:
    try:
        home = home_directory(environ)
    except BadInput as error:
        return Setting(str(error), Origin.DEFAULT)
    names = [name for name in (HOME, "XDG_STATE_HOME") if environ.get(name) and home.startswith(environ[name])]
    return Setting(home, Origin.VARIABLE, names[0]) if names else Setting(home, Origin.DEFAULT)
