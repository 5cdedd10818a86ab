"""What a request may ask and what every answer forbids a browser to do; and pages kept for the next request.

Nothing here knows what the pages show.
"""
