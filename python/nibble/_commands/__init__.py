"""Commands of `nibble` that are written in Python."""
