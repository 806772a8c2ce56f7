"""Fills the table. A further family of ops is a further module, named here."""

from search import ops_elementwise, ops_layers, ops_move, ops_product, ops_reduce
from search.table import TABLE

FAMILIES = (ops_elementwise, ops_layers, ops_move, ops_product, ops_reduce)

__all__ = ["FAMILIES", "TABLE"]
