"""Training scripts that owe nothing to Paceline: what its own loop is compared with."""
