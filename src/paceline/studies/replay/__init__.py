"""`paceline replay`: runs a recorded job again, from its record and not from today's defaults.

It holds the two runs against each other. What else differs around them is not looked for here but in
`analysis.comparison`.
"""
