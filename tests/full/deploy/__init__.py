"""What ``deploy/`` offers: judged by the schemas and linters of its field, and run as it would be there."""
