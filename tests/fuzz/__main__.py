"""``python -m tests.fuzz [--seconds N] [TARGET…]``: look for bytes at which a target fails, by the branches they take.

Each target runs in a process of its own, as a finding ends it. What is found is written to ``logs/fuzz/TARGET-…``; to
keep it as a test, move it to ``tests/fuzz/corpus/TARGET/``. The exit status is 1 if anything was found.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

LOGS = Path(__file__).parents[2] / "logs/fuzz"

MAX_INPUT = 8192
"""Bytes of an input: longer ones reach no other branches, and take longer."""

MAX_WORD = 60
"""Bytes of a word of the dictionary; libFuzzer takes no longer ones."""

INPUT_SECONDS = 5
"""Seconds after which one input is a finding: the longest takes some milliseconds."""

MAX_MEMORY_MB = 1024
"""Megabytes of the process, above which it is a finding; the instrumented modules take 150."""


def main(words: Sequence[str]) -> int:
    """Fuzz the named targets, or all, one after the other."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--seconds", type=int, default=60, help="for each target (default: 60)")
    parser.add_argument("--here", metavar="FOLDER", help=argparse.SUPPRESS)
    parser.add_argument("targets", nargs="*")
    asked = parser.parse_args(words)
    if asked.here:
        _fuzz_here(asked.targets[0], Path(asked.here), asked.seconds)
    from tests.fuzz.targets import TARGETS

    unknown = set(asked.targets) - set(TARGETS)
    if unknown:
        parser.error(f"no target {', '.join(sorted(unknown))}; take {', '.join(TARGETS)}")
    found = [name for name in asked.targets or TARGETS if not _is_sound(name, asked.seconds)]
    for name in found:
        print(f"{name}: a finding, in {LOGS}", file=sys.stderr)  # noqa: T201 - a command
    return 1 if found else 0


def _is_sound(name: str, seconds: int) -> bool:
    LOGS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="dbg-fuzz-corpus-") as folder:
        command = [sys.executable, "-m", "tests.fuzz", "--here", folder, f"--seconds={seconds}", name]
        done = subprocess.run(command, check=False, capture_output=True, text=True, errors="replace")
    (LOGS / f"{name}.log").write_text(done.stdout + done.stderr)
    last = next((line for line in reversed(done.stderr.splitlines()) if line.startswith("Done ")), "ended early")
    print(f"{name}: {last.lower()}", flush=True)  # noqa: T201 - a command
    if done.returncode != 0:
        print("\n".join((done.stdout + done.stderr).splitlines()[-40:]), file=sys.stderr)  # noqa: T201
    return done.returncode == 0


def _fuzz_here(name: str, folder: Path, seconds: int) -> None:
    """Fuzz in this process, which atheris ends."""
    import atheris

    # Modules are instrumented while they are imported.
    with atheris.instrument_imports(include=["dbg_wire", "dbg_broker", "dbg_client", "dbg_agent", "tomllib"]):
        from tests.fuzz.targets import TARGETS, corpus_of, words_of
    target = TARGETS[name]
    corpus, dictionary = folder / "corpus", folder / "words"
    corpus.mkdir()
    for number, data in enumerate(corpus_of(target)):
        (corpus / f"seed-{number}").write_bytes(data)
    words = ("".join(f"\\x{byte:02x}" for byte in word) for word in words_of(target) if len(word) <= MAX_WORD)
    dictionary.write_text("".join(f'"{word}"\n' for word in words))
    options = [
        f"-max_total_time={seconds}",
        f"-timeout={INPUT_SECONDS}",
        f"-rss_limit_mb={MAX_MEMORY_MB}",
        f"-max_len={MAX_INPUT}",
        f"-dict={dictionary}",
        f"-artifact_prefix={LOGS}/{name}-",
        "-print_final_stats=1",
    ]
    atheris.Setup([sys.argv[0], *options, str(corpus)], target.run)
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
