"""The command line of `dbg-broker`: a module for each verb, with its options and what it does."""
