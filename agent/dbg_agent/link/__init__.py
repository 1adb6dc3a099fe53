"""The rank's connection to the broker: look-up, dialling, silence, outgoing queue. Not what messages mean."""
