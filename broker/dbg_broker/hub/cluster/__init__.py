"""Several brokers as one: who is there, who owns which rank, and what brokers tell each other. No socket is here."""
