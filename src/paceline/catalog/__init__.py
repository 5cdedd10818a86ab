"""What there is to choose from: frameworks, networks, workloads, data sets, suites, published figures, plug-ins.

Facts and definitions; nothing here knows a run or a result. Only `datasets` fetches and writes files.
"""
