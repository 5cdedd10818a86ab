"""The orchestrator: plans, starts, watches, stores and reports.

Its packages are the rooms of the house, in the order in which a number travels. Each imports only rooms below it:
cli, bundles, report, studies, run, analysis, store, plan, environments, catalog, system. It imports no framework.
"""

from paceline.system import older_names

older_names.keep()
