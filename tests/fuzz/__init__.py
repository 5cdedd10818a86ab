"""Gives the command line what no one should, by the thousand: `python -m tests.fuzz --inputs 10000`.

The same seed makes the same inputs. Each runs in a process of its own, forked from one that has all modules, with a
limit on its memory and time; what it printed, how it ended and what it left on the disk is judged.

The limit is 10 s on the clock of the wall, for a process as for the whole answer to a request. What exceeds it is given
once more, and is a fault if it does so again: a machine that is busy for a moment is none, and nothing that hangs is
forgiven.
"""
