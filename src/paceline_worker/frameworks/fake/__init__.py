"""No framework at all: known timings and known faults, for testing everything around the frameworks."""
