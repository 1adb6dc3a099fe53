"""What goes wrong between three processes and in them: each fault in the middle of PuDB, of pdb and of a question."""
