"""What is written and never changed: runs and plans, events, samples, outcomes, certificates.

Frozen structs and how they are read; nothing here knows the index.
"""
