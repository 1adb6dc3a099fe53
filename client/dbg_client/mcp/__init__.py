"""``dbg-attach mcp``: the ranks as tools of a coding agent, by the Model Context Protocol on stdin and stdout."""
