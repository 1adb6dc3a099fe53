"""The rank itself: what joins link, stop, engines and waits, and what it answers. Not how any of these works."""
