"""Who may talk to the studio: the browser that opened the printed address, and nobody else.

Plain ASGI, around everything: no request reaches a page before it has passed here.

- ``Host`` must be our own address, so that a name that is made to point at 127.0.0.1 finds nothing (DNS rebinding).
- The token in a printed address is good once; it is exchanged for a cookie that scripts and other sites cannot send.
  Whoever presses Enter in the terminal gets another address, and the one before it, if unused, is worth nothing.
- Pages of other sites, or of other ports of this machine, are served nothing; they may lead to the printed address.
- What changes something is a POST; its ``Origin`` and ``Sec-Fetch-Site`` must be ours, and its form holds a token of
  its own, which ``pages`` checks.
- A body is counted as it arrives and refused at the first byte too many; nothing else has a body.
- Whatever breaks behind it is answered with a page that says nothing, and with the same headers as every other one.
"""

import hmac
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LARGEST_BODY = 1 << 20  # bytes: forms and the text of a schema; data never come in over the page
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_HTTP_PORT = 80  # which browsers leave out
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with no-referrer, browsers would send our own forms with Origin: null
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def _secret() -> str:
    return secrets.token_urlsafe(32)


@dataclass(slots=True)
class Keys:
    """What the owner's browser knows and others do not; a token is gone once it was used, or another was asked for."""

    token: str | None = field(default_factory=_secret)
    session: str = field(default_factory=_secret)
    csrf: str = field(default_factory=_secret)

    def exchange(self, offered: str) -> bool:
        """Whether this is the token, unused so far; from now on it is used."""
        if self.token is None or not _same(offered, self.token):
            return False
        self.token = None
        return True

    def renew(self) -> str:
        """A new token, good once, in place of the one before; browsers that are known stay known.

        Only the terminal that the studio runs in asks for it: no request can.
        """
        self.token = _secret()
        return self.token


def _same(offered: str, wanted: str) -> bool:
    return hmac.compare_digest(offered.encode(), wanted.encode())


class Guard:
    """The application as others reach it: only the owner's browser gets through."""

    def __init__(self, app: ASGIApp, keys: Keys, port: int) -> None:
        self._app, self._keys = app, keys
        names = ("127.0.0.1", "localhost")
        self._hosts = {f"{name}:{port}" for name in names} | (set(names) if port == _HTTP_PORT else set())
        self._cookie = f"sfumato-studio-{port}"  # browsers share cookies between the ports of a host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on to the application, or answer it here."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await _safely(self._http, scope, receive, _with_headers(send))
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        refusal = self._refusal(scope, headers)
        if refusal is None and scope["method"] == "POST":
            body = await _body(receive)
            if body is None:
                refusal = _too_large()
            else:
                receive = _replayed(body)
        await (refusal or self._app)(scope, receive, send)

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        """What is wrong with a request, as far as its head says; or the welcome that exchanges the token."""
        if headers.getlist("host") not in [[host] for host in self._hosts]:
            return _page(403, "This is not the studio's address.", "Use the address that the command printed.")
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return _page(405, "Only GET and POST are understood here.")
        post = scope["method"] == "POST"
        if not (self._own(headers) if post else _from_here(scope, headers)):
            text = "Nothing was changed. Type the studio's address into the browser yourself."
            return _page(403, "This request comes from another site.", text)
        length, largest = headers.get("content-length", "0"), LARGEST_BODY if post else 0
        unsaid = "transfer-encoding" in headers and not post
        if unsaid or not re.fullmatch("[0-9]{1,9}", length) or int(length) > largest:
            return _too_large()
        return None if self._known(headers) else self._welcome(scope)

    def _own(self, headers: Headers) -> bool:
        origins, site = headers.getlist("origin"), headers.getlist("sec-fetch-site")
        return origins == [f"http://{headers['host']}"] and site in ([], ["same-origin"])

    def _known(self, headers: Headers) -> bool:
        """Whether our cookie is in the headers; others of this machine may have left any others."""
        return _same(cookie_parser("; ".join(headers.getlist("cookie"))).get(self._cookie, ""), self._keys.session)

    def _welcome(self, scope: Scope) -> Response:
        offered = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if scope["method"] != "GET" or scope["path"] != "/" or not self._keys.exchange(offered):
            return _page(
                403,
                "This page needs the address with its token.",
                "An address that <code>sfumato studio</code> printed can be opened once. "
                "To open the studio again, press Enter in its terminal and open the address it prints.",
            )
        # not a redirect: a browser that came here from another site would not send the cookie along with it
        response = _page(200, "Welcome.", '<a href="/">Open the studio</a>', refresh=True)
        response.set_cookie(self._cookie, self._keys.session, httponly=True, samesite="strict", path="/")
        return response


def _from_here(scope: Scope, headers: Headers) -> bool:
    """Guard: whether a GET comes from our own pages or the owner.

    A site that shows the printed address may lead there.
    """
    site = headers.getlist("sec-fetch-site")  # browsers send it, and pages cannot change it
    opens = scope["path"] == "/" and b"token=" in scope["query_string"]
    return site in ([], ["same-origin"], ["none"]) or (opens and headers.getlist("sec-fetch-mode") == ["navigate"])


def _page(status: int, title: str, text: str = "", *, refresh: bool = False) -> HTMLResponse:
    """A refusal or welcome of the guard: a page without style, since nothing else may be loaded."""
    head = '<meta http-equiv="refresh" content="0; url=/">' if refresh else ""
    page = f'<!doctype html><html lang="en"><meta charset="utf-8">{head}<title>sfumato studio</title>'
    headers = {"Connection": "close"}  # nobody who is not known keeps a connection, and what still comes is not read
    return HTMLResponse(f"{page}<h1>{title}</h1><p>{text}</p>", status, headers)


def _too_large() -> Response:
    return _page(413, "This is more than the studio takes.", f"A form holds at most {LARGEST_BODY:,} bytes.")


async def _body(receive: Receive) -> bytes | None:
    """The body, or None as soon as it is too large."""
    parts, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return b""
        size += len(message.get("body", b""))
        if size > LARGEST_BODY:
            return None
        parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(parts)


def _replayed(body: bytes) -> Receive:
    messages: Iterable[Message] = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> Message:
        return next(iter(messages), {"type": "http.disconnect"})

    return receive


async def _safely(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Call an application, and answer in its place if it breaks before it does; its error might hold a cell."""
    last: Message = {}

    async def sending(message: Message) -> None:
        nonlocal last
        last = message
        await send(message)

    try:
        await app(scope, receive, sending)
    except Exception:
        if not last:
            await _page(500, "This went wrong.", "Nothing more is shown, to keep cells private.")(scope, receive, send)
        elif last["type"] == "http.response.start" or last.get("more_body"):
            raise  # half an answer: the connection is cut


def _with_headers(send: Send) -> Send:
    """Guard every answer by the same protective headers; a page with a policy of its own keeps that one."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sending
