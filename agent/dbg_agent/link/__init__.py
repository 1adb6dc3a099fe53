"""The rank's connection to the broker: finding, dialling, silence, what waits to be sent. Not what messages mean."""
