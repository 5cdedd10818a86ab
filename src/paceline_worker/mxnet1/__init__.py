"""What the two frameworks that train on MXNet 1 share."""
