"""nibble serve: language models and encoders behind the protocol that OpenAI's clients speak."""
