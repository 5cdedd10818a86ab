"""The orchestrator: plans, starts, watches, stores and reports. It imports no framework."""
