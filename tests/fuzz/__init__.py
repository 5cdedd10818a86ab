"""Gives the command line what no one should, by the thousand: `python -m tests.fuzz --inputs 10000`.

The same seed makes the same inputs. Each runs in a process of its own, forked from one that has all modules, with a
limit on its memory and time; what it printed, how it ended and what it left on the disk is judged.
"""
