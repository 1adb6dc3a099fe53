"""What the two commands share beside the wire: options and completion, text for terminals, the audit log. Pure."""
