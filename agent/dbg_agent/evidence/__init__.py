"""What a rank tells of why it does not go on; nothing here runs, or is loaded, unless somebody asks."""
