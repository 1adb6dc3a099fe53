"""Where a broker is and what proves it: addresses, fingerprints, tokens, and the files that tell of them. Pure."""
