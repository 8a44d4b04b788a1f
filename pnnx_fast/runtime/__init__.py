"""The runtime: lowering of graphs to programs, memory planning, execution, profiles."""
