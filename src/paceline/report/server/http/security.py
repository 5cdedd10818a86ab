"""Stands before the pages: who may ask, what may be asked, and what every answer tells a browser to refuse."""

from __future__ import annotations

import hmac
import ipaddress
import re
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from urllib.parse import quote, urlencode

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from paceline.report.page.templating import policy
from paceline.system.errors import UserError
from paceline.system.text.safe_text import QUOTED, shortened

METHODS = ("GET", "HEAD")
LONGEST_PATH, LONGEST_QUERY = 512, 4096  # bytes; the longest that our own forms and links make is below half of it
TOKEN_VARIABLE = "PACELINE_TOKEN"  # noqa: S105 - its name, not a token
TOKEN_PARAMETER = "token"  # noqa: S105
TOKEN_FORM = re.compile(r"[A-Za-z0-9_-]{16,200}")  # what an address and a cookie carry without quoting
HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


@dataclass(frozen=True)
class Access:
    """Whom a server answers."""

    names: frozenset[str]  # by which a browser may call it
    token: str | None = None  # None where only this machine can reach it
    addresses: bool = False  # also by any number: one that is typed cannot be bent to us as a name can
    cookie: str = "paceline"  # browsers share cookies among the ports of a host, so each port has a name of its own

    def knows(self, host: str) -> bool:
        name = _name_of(host)
        return name in self.names or (self.addresses and _address(name) is not None)


def access_to(host: str, port: int, token: str | None) -> Access:
    """Loopback needs no token but takes a given one; anything else has one in any case."""
    if token is not None and not TOKEN_FORM.fullmatch(token):
        raise UserError(f"${TOKEN_VARIABLE} must be 16 to 200 letters, digits, - or _, and hard to guess.")
    names, cookie = frozenset({"localhost", "127.0.0.1", "::1", host.lower()}), f"paceline-{port}"
    if is_loopback(host):
        return Access(names, token, cookie=cookie)
    own = {socket.gethostname().lower(), socket.getfqdn().lower()}
    return Access(names | own, token or secrets.token_urlsafe(24), addresses=True, cookie=cookie)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what listens there."""
    try:
        found = {entry[4][0] for entry in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except (OSError, ValueError) as error:  # a name that is too long, or of letters that no name has, is no text of DNS
        reason = (isinstance(error, OSError) and error.strerror) or "it is no name of a machine"
        raise UserError(f"--host {shortened(host, QUOTED)}: {reason}; give an address of this machine.") from None
    return all(ipaddress.ip_address(str(address).partition("%")[0]).is_loopback for address in found)


def _name_of(host: str) -> str:
    """Without the port, which differs where it is forwarded; and without the brackets of IPv6."""
    name = host.rpartition(":")[0] if re.search(r":\d+$", host) and not host.endswith("]") else host
    return name.removeprefix("[").removesuffix("]").removesuffix(".").lower()


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


class Guard:
    """Wraps an application; what it refuses never reaches it."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access
        self._headers = {**HEADERS, "content-security-policy": header_policy()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        refusal = next((answer for check in CHECKS if (answer := check(request, self._access))), None)
        await (refusal or self._app)(scope, receive, self._marking(send))

    def _marking(self, send: Send) -> Send:
        async def marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(self._headers)
            await send(message)

        return marked


def header_policy() -> str:
    """That of the report, plus our own files next to what stands inside the page; a header can also forbid frames."""
    text = policy().replace("connect-src 'none'", "connect-src 'self'")
    for kind in ("script-src", "style-src"):
        text = text.replace(kind, f"{kind} 'self'")
    return f"{text}; img-src 'self'; frame-ancestors 'none'"  # a browser asks for an icon


def _foreign_host(request: Request, access: Access) -> Response | None:
    """A name that an attacker has made point to this machine would let their page read ours."""
    hosts = request.headers.getlist("host")
    if len(hosts) == 1 and access.knows(hosts[0]):
        return None
    return _refused(421, "This server does not answer to that host name; use the address that it printed.")


def _wrong_method(request: Request, access: Access) -> Response | None:
    if request.method in METHODS:
        return None
    return _refused(405, "Results can be read here and nothing else: use GET.", allow=", ".join(METHODS))


def _too_long(request: Request, access: Access) -> Response | None:
    if len(request.scope["raw_path"]) <= LONGEST_PATH and len(request.scope["query_string"]) <= LONGEST_QUERY:
        return None
    return _refused(414, "This address is too long.")


def _foreign_page(request: Request, access: Access) -> Response | None:
    """Other sites may link here, but not make their pages load ours behind the reader's back."""
    own = request.headers.get("sec-fetch-site", "none") in ("same-origin", "none")
    mode, shown_as = request.headers.get("sec-fetch-mode"), request.headers.get("sec-fetch-dest")
    if own or (mode == "navigate" and shown_as == "document"):  # a frame navigates, too
        return None
    return _refused(403, "Pages of other sites get nothing from this server.")


def _no_token(request: Request, access: Access) -> Response | None:
    if access.token is None:
        return None
    if any(_equal(value, access.token) for value in request.query_params.getlist(TOKEN_PARAMETER)):
        rest = [(name, value) for name, value in request.query_params.multi_items() if name != TOKEN_PARAMETER]
        return _welcome(quote(request.scope["path"]) + (f"?{urlencode(rest)}" if rest else ""), access)
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    bearer = given.strip() if scheme.lower() == "bearer" else ""  # of scripts, which keep no cookie
    if any(_equal(value, access.token) for value in (request.cookies.get(access.cookie, ""), bearer)):
        return None
    where = "open the address that `paceline serve` has printed, or send the header `Authorization: Bearer TOKEN`"
    return _refused(401, f"This server wants its token: {where}.")


def _equal(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode(), token.encode())


def _welcome(address: str, access: Access) -> Response:
    """Keep the token in a cookie and out of the address.

    The page sends the browser on by itself: after a redirect from another site's link, a strict cookie is not sent.
    """
    target = escape("/" + address.lstrip("/"), quote=True)  # two slashes would be another host
    answer = HTMLResponse(
        f'<!doctype html><title>Paceline</title><meta http-equiv="refresh" content="0; url={target}">'
        f'<p><a href="{target}">Go on</a></p>'
    )
    answer.set_cookie(access.cookie, access.token or "", httponly=True, samesite="strict", path="/")
    return answer


def _refused(status: int, line: str, **headers: str) -> Response:
    return PlainTextResponse(f"{line}\n", status, headers)


CHECKS: tuple[Callable[[Request, Access], Response | None], ...]
CHECKS = (_foreign_host, _wrong_method, _too_long, _foreign_page, _no_token)
