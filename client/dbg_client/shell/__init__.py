"""Verbs from a shell: standard streams, the user's pager, confirmation prompts, and the question of one command."""
