"""What people see: tables, charts, the page, the server, and the sentences in them.

It renders what analysis and studies found. It may ask `analysis` for one more interval, but no method of judging
numbers is defined here, and no run is started.
"""
