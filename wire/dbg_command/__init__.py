"""What the two commands share beside the wire: targets, options, completion, texts of terminals, the audit log."""
