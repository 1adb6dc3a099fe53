"""The central process that ranks and terminals dial, and the command `dbg-broker` with its verbs."""
