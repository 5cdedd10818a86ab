"""One virtual environment per framework, the copy of the worker half that it sees, and the variables it gets.

It installs and describes; it starts no measurement.
"""
