"""Analysis of a slow job: turns samples of its ranks into verdicts on late ranks, sentences and a table. Pure."""
