from __future__ import annotations

import secrets

import pytest

from dbg_client.views.report import OUT, without_secrets


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("WANDB_API_KEY=abcdef0123", f"WANDB_API_KEY={OUT}"),
        ("password: hunter22, user: me", f"password: {OUT}, user: me"),
        ("{'hf_token': 'xyz123', 'n': 1}", f"{{'hf_token': '{OUT}', 'n': 1}}"),
        ("Authorization: Bearer abc.def", f"Authorization: {OUT}"),
        ("sent 'Bearer abcdef'", f"sent 'Bearer {OUT}'"),
        ("s3://me:pw@host/x", f"s3://{OUT}@host/x"),
        ("key sk-0123456789abcdefXYZ used", f"key {OUT} used"),
        ("ghp_0123456789abcdefABCD", OUT),
        ("AKIAIOSFODNN7EXAMPLE", OUT),
        ("insecure-0123456789", OUT),
        ("HoQvRPnCEcEpRGxWRvSnLxutySzBrXgHGfRvCKgSD-w", OUT),
    ],
)
def test_what_looks_secret_is_taken_out(text: str, shown: str) -> None:
    assert without_secrets(text) == shown


def test_a_brokers_token_is_taken_out() -> None:
    for _ in range(50):
        token = secrets.token_urlsafe(32)
        assert token not in without_secrets(f"ValueError: {token}!")


@pytest.mark.parametrize(
    "text",
    [
        "gpu013:5  stopped  train.py:41 in step  12 s",
        "ValueError: bad tokenizer for 50257 tokens",
        "/nix/store/0c6kzph7l0dcbfmjap64f0czdafn3b7x-python3-3.11.7/bin/Python3AndMore",
        "wss://127.0.0.1:43883",
        "the clock rings in 9 min: 8 collectives wait for it",
        "3 [0-2] <module> train.py:9",
    ],
)
def test_what_people_need_stays(text: str) -> None:
    assert without_secrets(text) == text
