"""What the user typed, as values: options, variables, commands, names of debuggers. Nothing is done with it here."""
