"""What `nibble check` runs: small programs that are made on the spot, with what they give in NumPy."""
