"""The verbs: each is one object with its options, the ranks that it fits, its question, and how its answer is shown."""
