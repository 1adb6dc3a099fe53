"""Code shared by ``dbg-attach`` and ``dbg-broker``: targets, options, completion, output filters, the audit log."""
