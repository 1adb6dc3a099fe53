"""What happens to jobs and is told to the command of ``--on-event``. Not who did what, which is the audit log's."""
