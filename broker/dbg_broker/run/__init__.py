"""``dbg-broker run``, a role of its own: a job, its keeper, a terminal, a broker where none is. No server code."""
