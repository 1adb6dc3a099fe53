"""Code that both commands share besides the wire: targets, options, completion, terminal texts, the audit log."""
