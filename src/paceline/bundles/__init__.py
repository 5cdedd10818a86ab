"""Results that move between machines: whole, checked on the way in, and never half there.

What a stored run is, belongs to `store`; here it is packed, checked and unpacked, and no number is derived from it.
"""
