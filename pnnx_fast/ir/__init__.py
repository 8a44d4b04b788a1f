"""The graph of a model: operators, operands, parameters and attributes.

The one intermediate representation of the package. File formats, passes and the runtime build on it; it knows
none of them.
"""

from __future__ import annotations

from pnnx_fast.ir.attribute import Attribute, Attributes
from pnnx_fast.ir.graph import Graph
from pnnx_fast.ir.operator import Operand, Operator
from pnnx_fast.ir.parameter import Parameter, Parameters

__all__ = ["Attribute", "Attributes", "Graph", "Operand", "Operator", "Parameter", "Parameters"]
