"""Several brokers that act as one, connected by NATS: members, shared tokens, and facts about each other's ranks."""
