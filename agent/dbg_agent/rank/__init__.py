"""The rank itself: it joins link, stop, engines and waits, and answers questions; not how these parts work."""
