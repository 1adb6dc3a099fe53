"""What both commands say and read alike: completion, manual pages, spans of time, plain characters. Pure."""
