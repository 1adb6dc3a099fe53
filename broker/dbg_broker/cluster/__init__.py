"""Several brokers as one site, joined by NATS: who is there, whom a token opens, and what a job's ranks wait for."""
