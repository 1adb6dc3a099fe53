"""Why the ranks of a job do not go on: verdicts made from what they have told, as sentences and JSON. Pure."""
