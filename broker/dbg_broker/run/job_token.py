"""The token that a run gives to its job: ranks of that job may use it, and no others."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dbg_broker.home.job_tokens import JOB_TOKENS_DIRECTORY, write_job_token
from dbg_broker.home.rendezvous import read_rendezvous
from dbg_broker.home.tokens import job_token
from dbg_wire.finding.environment import BROKER, TOKEN, TOKEN_FILE


def token_file_of(job: str, home: str, environ: Mapping[str, str]) -> str | None:
    """Return a new file with the token of a job. Raise BadSecretFile if it can't be written.

    Return None where the user has named a broker or a token, or where no broker serves this home.
    """
    # A run inside of another run's job has that job's token, which is not for ranks of this one.
    is_of_another_run = Path(environ.get(TOKEN_FILE, "")).parent == Path(home) / JOB_TOKENS_DIRECTORY
    chosen = (BROKER, TOKEN) if is_of_another_run else (BROKER, TOKEN, TOKEN_FILE)
    if any(environ.get(name) for name in chosen):
        return None
    serving = read_rendezvous(Path(home))
    if serving is None or "rank" not in serving.tokens:
        return None
    return str(write_job_token(Path(home), job, job_token(serving.tokens["rank"], job)))
