"""The command line of `dbg-broker`: its verbs and options, and what is made of them. What a verb does is in `verbs`."""
