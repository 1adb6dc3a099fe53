"""What the user typed, as values: arguments, variables, names of debuggers."""
