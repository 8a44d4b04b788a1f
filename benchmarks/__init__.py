"""What is measured and how: the model zoo, the peers, and the tables made from them.

Run as ``python -m benchmarks COMMAND`` from a checkout; nothing here is part of the installed package, and
the package knows nothing of it.
"""
