"""Public API of the library: brokers, jobs, ranks, answers and stops."""
