"""The process beside a rank that speaks for it when it can't. Only `rank_side` runs in the rank."""
