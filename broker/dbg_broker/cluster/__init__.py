"""Cluster of brokers that form one site over NATS: members, shared tokens, and facts that ranks of a job wait for."""
