"""Records in messages: ranks, their stops, values, evidence and samples."""
