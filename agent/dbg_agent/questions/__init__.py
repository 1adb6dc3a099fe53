"""Questions of terminals to one rank, and how the rank answers them."""
