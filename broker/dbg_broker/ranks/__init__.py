"""What is known of ranks and asked of them: pure, time is an argument. Neither sockets nor terminals."""
