"""`paceline serve`: the pages over a live store. Everything is read, nothing is written."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from paceline.report.page.templating import environment
from paceline.report.server.event_streams import Streams
from paceline.report.server.http.page_cache import PageCache
from paceline.report.server.http.security import TOKEN_PARAMETER, TOKEN_VARIABLE, Access, Guard, access_to, is_loopback
from paceline.report.server.live import Observer
from paceline.report.server.views import ServedSite
from paceline.store.newer_records import warn_of_left_out
from paceline.store.store import Store
from paceline.system.errors import UserError
from paceline.system.limits import check_flag

NICENESS = 10  # a measurement on the same machine comes first
INTERRUPTED = 130  # what a shell calls a program that Ctrl-C has ended
PATIENCE_SECONDS = 1  # for downloads under way when the server is ended
HEADINGS = {400: "That cannot be shown", 404: "Not here", 503: "Busy"}
WORDS = {404: "There is no such page, plan or run here.", 500: "Something went wrong; the terminal says what."}


def application(site: ServedSite) -> Starlette:
    """The pages of a store, without a guard."""
    answered = {**site.routes(), "/favicon.ico": _no_icon}
    routes = [Route(path, handler, methods=["GET"]) for path, handler in answered.items()]
    handlers = {UserError: _user_error, HTTPException: _http_error, Exception: _bug}
    return Starlette(routes=routes, exception_handlers=handlers)


def _no_icon(request: Request) -> Response:
    """Browsers ask for one unasked, and complain about a refusal."""
    return Response(status_code=204)


def _user_error(request: Request, error: Exception) -> Response:
    return _error_page(str(error), 400)


def _http_error(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    detail = error.detail if isinstance(error, HTTPException) else ""
    return _error_page(WORDS.get(status, detail), status)


def _bug(request: Request, error: Exception) -> Response:
    """The traceback is for the terminal, not for the page."""
    return _error_page(WORDS[500], 500)


def _error_page(line: str, status: int) -> Response:
    heading = HEADINGS.get(status, "Something went wrong")
    return HTMLResponse(environment().get_template("served_error.html.j2").render(heading=heading, line=line), status)


class _Server(uvicorn.Server):
    """Ends all that would keep it from ending at the first signal, and itself at the second."""

    def __init__(self, app: ASGIApp, streams: Streams, rendered: PageCache) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http="h11",
                ws="none",
                lifespan="off",
                log_config=None,  # what is worth saying goes to the terminal as it is
                access_log=False,
                server_header=False,
                proxy_headers=False,  # no proxy stands before us whose headers count
                timeout_graceful_shutdown=PATIENCE_SECONDS,
            )
        )
        self._streams, self._rendered = streams, rendered

    def heed_signals(self) -> None:
        """From before anybody knows the address, and for good: a page that is being made outlives the server."""
        for sig in (signal.SIGINT, signal.SIGTERM):
            signal.signal(sig, self.handle_exit)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """They are heeded already."""
        yield

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit:
            os._exit(INTERRUPTED)  # nothing is written here that could be lost
        self._rendered.closing = True
        self._streams.close()
        self.should_exit = True


def serve(folder: Path, host: str, port: int, say: Callable[[str], None]) -> None:
    """Serve until it is ended; print the address once it is open."""
    warn_of_left_out(Store(folder).query)  # and an index that is missing or old is rebuilt now, not later
    store = Store(folder, read_only=True)
    observer = Observer(store)
    streams, rendered = Streams(observer.progress), PageCache()
    site = ServedSite(store, observer, streams, rendered)
    with _listening(host, port) as listener:
        own_port = int(listener.getsockname()[1])
        access = access_to(host, own_port, os.environ.get(TOKEN_VARIABLE) or None)
        server = _Server(Guard(application(site), access), streams, rendered)
        server.heed_signals()
        say(f"{folder} is served at {_address(host, own_port, access)} until Ctrl-C")
        os.nice(NICENESS)
        server.run(sockets=[listener])


def _listening(host: str, port: int) -> socket.socket:
    """Open at once, so that a port that is taken is known before anything is printed."""
    check_flag("--port", port)
    is_loopback(host)  # complains about a host that is none
    family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    try:
        return socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise UserError(
                f"Port {port} of {host} is taken; --port {port + 1} names another, 0 any free one."
            ) from None
        raise UserError(
            f"Cannot listen on {host} port {port}: {error.strerror}; --host and --port name others."
        ) from None


def _address(host: str, port: int, access: Access) -> str:
    """As a browser takes it; of a host that stands for all addresses, this machine's name."""
    everywhere = host in ("0.0.0.0", "::", "")  # noqa: S104 - compared, not bound
    name = socket.gethostname() if everywhere else f"[{host}]" if ":" in host else host
    token = f"?{TOKEN_PARAMETER}={access.token}" if access.token else ""
    return f"http://{name}:{port}/{token}"
