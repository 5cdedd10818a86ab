"""One folder per framework, each with the same four files."""
