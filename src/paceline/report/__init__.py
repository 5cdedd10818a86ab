"""What people see: tables, charts, the page, the server, and the sentences in them.

Everything here renders what analysis and studies found. Nothing here computes a statistic or starts a run.
"""
