"""A plug-in for Paceline: the framework Chainer, and a tiny workload."""
