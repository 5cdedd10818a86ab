"""Results as pages: the report file and what the server shows are made by the same functions."""
