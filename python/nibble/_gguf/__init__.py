"""Importing GGUF files: a program, its tokenizer, and what generating needs to know, side by side."""

from ._import import Imported, import_gguf

__all__ = ["Imported", "import_gguf"]
