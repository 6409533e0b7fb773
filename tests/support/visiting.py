"""A studio on a small folder, and a browser's manners without a browser."""

import asyncio
import json
import re
from dataclasses import dataclass
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlencode

from starlette.datastructures import Headers

from sfumato.ledger.ledger import Ledger
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.units import Cap
from sfumato.studio.app import application
from sfumato.studio.frame.guard import Keys
from sfumato.studio.frame.shared_state import Studio
from sfumato.studio.inputs.folder import Folder
from sfumato.tables.columns import Category, Flag, Real
from sfumato.tables.schema import Schema

PORT = 8765
HOST = f"127.0.0.1:{PORT}"
ORIGIN = f"http://{HOST}"
CELL = "zzPRIVATEzz"  # a text that stands in cells and nowhere else
SCHEMA = Schema((Real("age", 0, 120), Flag("smoker"), Category("city", ("Bern", "Basel"))))
ROWS = 40


def write_people(folder: Path) -> Path:
    """A table with its schema."""
    lines = [f"{20 + i},{i % 2 == 0},{CELL if i == 3 else 'Bern'}" for i in range(ROWS)]
    (folder / "people.csv").write_text("\n".join(["age,smoker,city", *lines]) + "\n")
    SCHEMA.write(folder / "people.toml")
    return folder / "people.csv"


def make_studio(folder: Path, *, epsilon: float | None = 10.0) -> Studio:
    """A studio whose ledger has one dataset, or none without an epsilon."""
    place = folder.parent / "budget.db"
    if epsilon is not None:
        ledger = Ledger.create(place)
        ledger.add_dataset("people", Cap(Guarantee(epsilon=epsilon, delta=1e-6, unit="attribute")))
    return Studio(Folder.of(folder), str(place), Keys())


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    status_code: int
    headers: Headers
    content: bytes

    @property
    def text(self) -> str:
        return self.content.decode()

    @property
    def is_redirect(self) -> bool:
        return self.status_code == 303

    def json(self) -> Any:
        return json.loads(self.content)


def call(app, scope: dict[str, Any], receive) -> Answer:
    """Call an application with one request, whose body ``receive`` hands out."""
    sent: list[dict[str, Any]] = []

    async def receiving():
        message = receive()
        return message or await asyncio.Event().wait()  # a client that waits for the answer

    async def send(message):
        sent.append(message)

    rest = {"type": "http", "root_path": "", "query_string": b"", "server": ("127.0.0.1", PORT), "scheme": "http"}
    asyncio.run(app(rest | scope, receiving, send))
    body = b"".join(message.get("body", b"") for message in sent[1:])
    return Answer(sent[0]["status"], Headers(raw=sent[0]["headers"]), body)


def whole(body: bytes):
    """A body that comes in one part."""
    parts = [None, {"type": "http.request", "body": body, "more_body": False}]
    return parts.pop


class Visitor:
    """A browser that has opened the address, unless told otherwise."""

    def __init__(self, studio: Studio, *, opened: bool = True) -> None:
        self.studio, self.app, self.cookies = studio, application(studio, PORT), ""
        if opened:
            assert self.get("/", params={"token": studio.keys.token}).status_code == 200

    def request(self, method: str, address: str, *, params=None, headers=None, body: bytes = b"") -> Answer:
        """One request with the cookies that were set, unless the headers say otherwise."""
        path, _, query = address.partition("?")
        query = urlencode(params) if params else query
        given = {"host": HOST, "cookie": self.cookies} | ({"content-length": str(len(body))} if body else {})
        given |= headers or {}
        raw = [(k.encode(), v if isinstance(v, bytes) else v.encode()) for k, v in given.items()]
        scope = {"method": method, "path": unquote(path), "raw_path": path.encode(), "headers": raw}
        answer = call(self.app, scope | {"query_string": query.encode()}, whole(body))
        for cookie in answer.headers.getlist("set-cookie"):
            self.cookies = "; ".join(f"{k}={v.value}" for k, v in SimpleCookie(cookie).items())
        return answer

    def get(self, address: str, **terms) -> Answer:
        return self.request("GET", address, **terms)

    def post(self, address: str, fields: dict[str, str], headers: dict[str, str]) -> Answer:
        """Send a form."""
        kind = {"content-type": "application/x-www-form-urlencoded"}
        return self.request("POST", address, headers=kind | headers, body=urlencode(fields).encode())

    def post_json(self, address: str, fields: object, headers: dict[str, str]) -> Answer:
        """Send what a script sends."""
        kind = {"content-type": "application/json"}
        return self.request("POST", address, headers=kind | headers, body=json.dumps(fields).encode())

    def send(self, path: str, fields: dict[str, str] | None = None, **headers: str) -> Answer:
        """Send a form as the page would."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.post(path, {"csrf": self.studio.keys.csrf} | (fields or {}), {"origin": ORIGIN} | named)

    def ask(self, fields: dict[str, str]) -> Answer:
        """Ask the planner as the script would."""
        return self.post_json("/plan/answer", fields, {"origin": ORIGIN, "x-csrf": self.studio.keys.csrf})

    def release(self, fields: dict[str, str], **confirmed: str) -> dict[str, Any]:
        """Price, confirm and wait."""
        priced = self.send("/release/price", fields)
        assert priced.status_code == 200, priced.text
        (key,) = re.findall(r'name="order" value="([^"]+)"', priced.text)
        assert self.send("/release/start", {"order": key, "confirmed": "yes"} | confirmed).status_code == 303
        self.studio.jobs.job.join()
        return self.get("/release/state").json()


SKETCH = {
    "data": "people.csv",
    "mechanism": "sketch",
    "projection": "sparse",
    "dimension": "2",
    "noise": "laplace",
    "unit": "attribute",
    "epsilon": "1",
    "dataset": "people",
    "name": "people.release",
}
