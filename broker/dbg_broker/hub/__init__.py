"""Where ranks, terminals and guards meet: a function for each message. `ranks` and `terminals` decide."""
