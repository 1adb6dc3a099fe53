"""Late ranks of a job that does not hang: from samples of its ranks to facts, a sentence and a table. Pure."""
