"""``dbg-attach mcp``: ranks as tools for a coding agent, by the Model Context Protocol on stdin and stdout."""
