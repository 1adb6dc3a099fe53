"""Verbs from a shell: standard streams, the user's pager and yes, and the question of one command."""
