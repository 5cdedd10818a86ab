"""Results that move between machines: whole, checked on the way in, and never half there."""
