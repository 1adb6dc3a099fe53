"""What is true of a rank, its stop and its values, as records that messages carry."""
