"""Who slows a job down that does not hang: from samples of its ranks to a sentence, a table and a chart. Pure."""
