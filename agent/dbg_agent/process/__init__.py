"""Process-level helpers of the agent: threads, the job's stderr, the log, imports. Nothing here knows about ranks."""
