"""What the agent needs of the process: threads of its own, the job's stderr, a log, imports; nothing of a rank."""
