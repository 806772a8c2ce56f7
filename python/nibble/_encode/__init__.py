"""The parts of nibble.Encoder: models that it knows by name, how their programs are made, and where they are kept."""
