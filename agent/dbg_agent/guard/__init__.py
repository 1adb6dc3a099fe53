"""The process beside a rank that speaks for the rank when the rank can't. Only `rank_side` runs in the rank."""
