"""Who slows a job down that does not hang: from samples of its ranks to facts, a sentence and a table. Pure."""
