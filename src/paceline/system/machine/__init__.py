"""What this machine is and does: cores, control groups, GPUs, identity.

It reads; it changes nothing.
"""
