"""``dbg-attach config``: show each setting, its value and where it comes from."""

from __future__ import annotations

from collections.abc import Mapping

from dbg_client.streams import write_result
from dbg_client.views.preferences import show_settings, show_settings_json
from dbg_client.words.arguments import Arguments
from dbg_client.words.config import PREFERENCES, Config, Origin, Setting, settle_one
from dbg_client.words.settings import CommandSettings, Format
from dbg_wire.errors import BadInput
from dbg_wire.finding.environment import BROKER, HOME
from dbg_wire.finding.home import home_directory

BAD_CONFIG = 2
"""Exit status if something is wrong with the file."""


def show_preferences(
    settings: CommandSettings, arguments: Arguments, environ: Mapping[str, str], config: Config
) -> int:
    """Print all settings and return the exit status."""
    given = {"escape": arguments.escape, "timeout": arguments.timeout, "editing": "vi" if arguments.vi else None}
    known = {key: settle_one(key, given.get(key), environ, config) for key in PREFERENCES}
    known |= {"broker": _broker(arguments.broker, environ), "home": _home(environ)}
    write_result((show_settings_json if settings.format is Format.JSON else show_settings)(known, config))
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
