"""Text in and out of language models: tokenizers, chat templates, constraints, and the loop's Python side."""
