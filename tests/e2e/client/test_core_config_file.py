from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.unit.client.core.test_config_file import environ, file

__all__ = ["file"]


def test_the_parser_is_loaded_only_where_there_is_a_file(file: Path) -> None:
    script = (
        "import os, sys; from dbg_client.core.config_file import read_config; read_config(os.environ); "
        "print(*{'tomllib', 'tomli'} & set(sys.modules))"
    )

    def loaded() -> str:
        variables = {**os.environ, **environ(file)}
        return subprocess.run(
            [sys.executable, "-c", script], env=variables, capture_output=True, text=True, timeout=60, check=True
        ).stdout.strip()

    assert loaded() == ""
    file.write_text("timeout = 3\n")
    assert loaded() in ("tomllib", "tomli")
