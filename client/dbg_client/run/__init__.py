"""``dbg-attach run``: the broker, the job, its environment and its output, and a session for each stopped rank."""
