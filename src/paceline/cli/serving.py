"""The command that serves results to a browser: serve."""

from __future__ import annotations

from paceline.cli.application import StoreFlag, app
from paceline.system.paths import default_store


@app.command
def serve(*, port: int = 8640, host: str = "127.0.0.1", store: StoreFlag = None) -> None:
    """Show results in a browser: reports, runs and logs, comparisons, and a running plan as it goes on.

    Parameters
    ----------
    port
        Where to listen; 0 takes any that is free.
    host
        An address of this machine; any but the loopback wants a token, which is printed or taken from $PACELINE_TOKEN.
    """
    from paceline.report.server.server import serve as serve_store

    try:
        serve_store(store or default_store(), host, port, lambda line: print(line, flush=True))
    except KeyboardInterrupt:
        return  # the usual way to end it
