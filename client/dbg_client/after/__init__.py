"""Files left by a hang: flight-recorder dumps and reports, converted back to the evidence for verdicts."""
