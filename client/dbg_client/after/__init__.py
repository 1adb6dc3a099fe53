"""What is left of a hang in files: dumps of flight recorders and reports, read again into the evidence for verdicts."""
