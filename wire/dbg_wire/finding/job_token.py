"""The token of a job: ranks of the job may read it, and it admits to no other job. Pure."""

from __future__ import annotations

import base64
import hashlib
import hmac

JOB_MARK = "job."
"""Prefix of a signed token that admits ranks of one job; the job's name and an HMAC by the rank's token follow."""

JOB_TOKENS_DIRECTORY = "job-tokens"
"""The directory of a home with a file for the token of each job."""


def job_token(rank_token: str, job: str) -> str:
    """Return a token for ranks of one job. The home's token of ranks makes it, and tells that it is right.

    No list holds such tokens, so that a run needs no change of a broker that serves already.
    """
    return f"{JOB_MARK}{job}.{code_of(rank_token, f'dbg-broker job: {job}')}"


def code_of(token: str, what: str) -> str:
    """Return a code that only a holder of the token can make; ``what`` begins with the purpose of the code."""
    code = hmac.new(token.encode(), what.encode("utf-8", "surrogatepass"), hashlib.sha256)
    return base64.urlsafe_b64encode(code.digest()).decode().rstrip("=")
