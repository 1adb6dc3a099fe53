"""Questions to many ranks whose answers are values: groups, stacks and verdicts, which each face shows in its way."""
