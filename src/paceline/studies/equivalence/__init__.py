"""`paceline verify`: whether frameworks train the same network, quantity by quantity, against the float64 reference.

Tolerances and what they rest on belong here; running a framework's probe is all it asks of other rooms.
"""
