"""The bus between brokers, on NATS: messages, and the buckets that all share. Only ``--cluster`` loads it."""
