"""``dbg-broker run``: a job, its keeper, a terminal, and a broker if there is none. No server code."""
