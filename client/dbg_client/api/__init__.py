"""The library as programs of users see it: brokers, jobs, ranks, answers and stops."""
