"""The same rows as a table for people and for programs."""
