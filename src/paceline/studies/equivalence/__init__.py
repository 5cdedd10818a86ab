"""`paceline verify`: whether frameworks train the same network, quantity by quantity, against the float64 reference.

Tolerances and what they rest on belong here. No time is measured, and what is kept is up to `store.certificates`.
"""
