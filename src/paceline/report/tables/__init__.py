"""Tables of cells as text, Markdown, CSV and JSON, with the sentences and remarks that go with them.

A column says how a row reads; where the numbers come from is the business of `analysis`.
"""
