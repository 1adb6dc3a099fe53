"""Who did what to which rank, from where and when, for the people who share a cluster."""
