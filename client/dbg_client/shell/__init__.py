"""Verbs from a shell: standard streams, the user's pager, confirmation prompts, and running one verb on ranks."""
