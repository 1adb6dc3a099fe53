"""How an IDE looks into a stopped rank: values in levels, assignments, completions, source; in the stopped thread."""
