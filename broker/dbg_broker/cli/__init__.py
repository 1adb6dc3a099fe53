"""Command line of `dbg-broker`: one module for each verb, with its options and its action."""
