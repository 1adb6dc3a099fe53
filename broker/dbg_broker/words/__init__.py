"""The words of the command line: each verb with its options and their help."""
