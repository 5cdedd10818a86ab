"""What there is to choose from: frameworks, networks, workloads, data sets, suites, published figures, plug-ins.

Facts and definitions only; nothing here depends on this machine or on any result.
"""
