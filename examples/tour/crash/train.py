"""A job that crashes: one rank gets a record without a label."""

from __future__ import annotations

import os
import time

RANK = int(os.environ["RANK"])


def read_label(record: dict[str, int]) -> int:
    """Return the label of a record."""
    return record["label"]


def main() -> None:
    """Train on some records; one record of rank 2 has no label."""
    records = [{"image": number, "label": number % 2} for number in range(4)]
    if RANK == 2:
        del records[1]["label"]
    for step, record in enumerate(records):
        label = read_label(record)
        print(f"rank {RANK}: step {step}, label {label}", flush=True)
        time.sleep(0.5)


if __name__ == "__main__":
    main()
