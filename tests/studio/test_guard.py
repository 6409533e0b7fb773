"""Attempts on the studio by other sites, other machines' names, other folders and other people's files."""

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from importlib import resources
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.errors import SchemaError
from sfumato.fileformat.reader import digest
from sfumato.mechanisms.sketch import Sketch
from sfumato.pipeline.release import release_to
from sfumato.pipeline.stream import Stream
from sfumato.privacy.guarantee import Guarantee
from sfumato.studio.app import application, screens
from sfumato.studio.frame.guard import LARGEST_BODY
from sfumato.studio.inputs.folder import MOST_COLUMNS, Folder, NotHereError, parse_schema, read_schema
from sfumato.studio.server import Server
from sfumato.tables.columns import Category, Real
from sfumato.tables.schema import Schema
from support.visiting import CELL, HOST, ORIGIN, PORT, SCHEMA, SKETCH, Visitor, call, make_studio, whole, write_people

SCRIPT = "<script>alert(1)</script>"


@pytest.fixture
def studio(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    write_people(folder)
    return make_studio(folder)


@pytest.fixture
def visitor(studio):
    return Visitor(studio)


def paths_of(studio, method):
    """Every path of the application that takes a method, with a real name in it."""
    routes = [r for r in screens(studio).routes if method in (getattr(r, "methods", None) or ())]
    names = {
        "/data/{name}": "people.csv",
        "/release/made/{name}": "people.release",
        "/explore/{name}": "people.release",
        "/streams/{name}": "people.stream",
    }
    found = []
    for route in routes:
        name = next((n for start, n in names.items() if route.path.startswith(start)), "")
        found.append(route.path.replace("{name}", name))
    return found


def with_stream(studio):
    """A stream in the folder with one period, so that every form of its page could change something."""
    promise = Guarantee(epsilon=1, delta=1e-6)
    made = Stream.init(studio.folder.data / "people.stream", schema=SCHEMA, guarantee=promise, horizon=4)
    made.append(studio.folder.data / "people.csv", period="monday")


def state_of(studio):
    """Everything that a request could change."""
    files = {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in studio.folder.data.rglob("*") if p.is_file()}
    entries = [] if studio.ledger() is None else [e.hash for e in studio.ledger().journal.entries()]
    return files, entries, studio.jobs.job, studio.jobs._order, studio.keys


# ---- who is talking -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        f"evil.example:{PORT}",
        "127.0.0.1",
        "localhost",
        f"127.0.0.1:{PORT + 1}",
        f"127.0.0.1.evil.example:{PORT}",
        f"127.0.0.1:{PORT}.evil.example",
        f"user@127.0.0.1:{PORT}",
        f"0.0.0.0:{PORT}",
        f"[::1]:{PORT}",
        "",
    ],
)
def test_another_host_is_refused_even_with_the_cookie_and_does_not_use_up_the_token(studio, visitor, host):
    assert visitor.get("/data", headers={"host": host}).status_code == 403
    fresh = Visitor(make_studio(studio.folder.data, epsilon=None), opened=False)
    assert fresh.get(f"/?token={fresh.studio.keys.token}", headers={"host": host}).status_code == 403
    assert fresh.studio.keys.token is not None


def test_both_names_of_this_machine_are_ours(visitor):
    assert visitor.get("/data").status_code == 200
    cookie = f"sfumato-studio-{PORT}={visitor.studio.keys.session}"
    assert visitor.get("/data", headers={"host": f"localhost:{PORT}", "cookie": cookie}).status_code == 200


def test_the_port_that_browsers_leave_out_may_be_left_out(studio):
    for port, expected in ((80, 200), (PORT, 403)):
        for host in ("127.0.0.1", "localhost"):
            cookie = f"sfumato-studio-{port}={studio.keys.session}".encode()
            headers = [(b"host", host.encode()), (b"cookie", cookie)]
            scope = {"method": "GET", "path": "/data", "raw_path": b"/data", "headers": headers}
            assert call(application(studio, port), scope, whole(b"")).status_code == expected


@pytest.mark.parametrize("site", ["same-site", "cross-site", "", "other"])
def test_another_site_or_port_is_shown_nothing_though_the_browser_sends_our_cookie(studio, visitor, site):
    for path in [*paths_of(studio, "GET"), "/static/sfumato.css", "/?question=1"]:
        for mode in ("navigate", "no-cors", "cors"):
            refused = visitor.get(path, headers={"sec-fetch-site": site, "sec-fetch-mode": mode})
            assert refused.status_code == 403
            assert "people" not in refused.text
    for ours in ("same-origin", "none"):
        assert visitor.get("/data", headers={"sec-fetch-site": ours}).status_code == 200


def test_the_printed_address_may_be_opened_from_another_site_but_not_loaded(studio):
    stranger, token = Visitor(studio, opened=False), {"token": studio.keys.token}
    headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
    assert stranger.get("/", params=token, headers=headers).status_code == 403
    assert stranger.get("/", params=token, headers=headers | {"sec-fetch-mode": "navigate"}).status_code == 200


def test_what_breaks_outside_of_a_handler_is_answered_with_the_policy(visitor, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError(CELL)

    monkeypatch.setattr("sfumato.studio.frame.pages.page", broken)
    monkeypatch.setattr("sfumato.studio.together_screen.page", broken)
    answers = [visitor.get("/explore")]
    monkeypatch.setattr("sfumato.studio.frame.guard.Guard._known", broken)
    answers += [visitor.get("/data")]
    for answer in answers:
        assert answer.status_code == 500
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert CELL not in answer.text


def test_two_hosts_or_none_are_refused(studio):
    cookie = (b"cookie", f"sfumato-studio-{PORT}={studio.keys.session}".encode())
    for hosts in ([], [HOST, HOST], [HOST, "evil.example"]):
        headers = [cookie, *((b"host", host.encode()) for host in hosts)]
        assert asked(studio, "/data", headers)[0] == 403
    assert asked(studio, "/data", [cookie, (b"host", HOST.encode())])[0] == 200


def test_nothing_is_shown_without_the_cookie(studio):
    stranger = Visitor(studio, opened=False)
    for path in [*paths_of(studio, "GET"), "/static/sfumato.css", "/nowhere"]:
        refused = stranger.get(path)
        assert refused.status_code == 403
        assert "sfumato studio" in refused.text
        assert "people" not in refused.text
    for path in paths_of(studio, "POST"):
        assert stranger.send(path).status_code == 403


def test_a_wrong_cookie_is_refused(studio):
    stranger = Visitor(studio, opened=False)
    name = f"sfumato-studio-{PORT}"
    for cookie in (f"{name}=", f"{name}={studio.keys.token}", f"{name}=x{studio.keys.session}", f"{name}=\xe9", "=;;="):
        assert stranger.get("/data", headers={"cookie": cookie.encode("latin-1")}).status_code == 403


def test_cookies_that_others_left_do_not_hide_ours(studio):
    mess = f'a="; b={{"x": [1]}}; @=(,); =; sfumato-studio-{PORT}={studio.keys.session}; c=\\'
    assert Visitor(studio, opened=False).get("/data", headers={"cookie": mess}).status_code == 200


def test_the_token_opens_once(studio):
    stranger = Visitor(studio, opened=False)
    token = studio.keys.token
    assert stranger.get("/", params={"token": "wrong"}).status_code == 403
    assert stranger.get("/data", params={"token": token}).status_code == 403
    assert stranger.request("HEAD", "/", params={"token": token}).status_code == 403
    welcome = stranger.get("/", params={"token": token})
    assert welcome.status_code == 200
    cookie = welcome.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "Domain" not in cookie
    assert token not in cookie
    assert Visitor(studio, opened=False).get("/", params={"token": token}).status_code == 403
    assert Visitor(studio, opened=False).get("/", params={"token": "None"}).status_code == 403
    assert stranger.get("/data").status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": f"https://{HOST}"},
        {"origin": f"http://localhost:{PORT}"},
        {"origin": f"{ORIGIN}.evil.example"},
        {"origin": ""},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
    ],
)
def test_a_form_of_another_site_changes_nothing(studio, visitor, headers):
    before = state_of(studio)
    for path in paths_of(studio, "POST"):
        refused = visitor.send(path, SKETCH | {"text": "", "name": "new", "understood": "yes"}, **headers)
        assert refused.status_code == 403, path
        assert CELL not in refused.text
    assert state_of(studio) == before


def test_a_post_without_an_origin_is_refused(studio, visitor):
    for path in paths_of(studio, "POST"):
        assert visitor.post(path, {"csrf": studio.keys.csrf}, {}).status_code == 403


@pytest.mark.parametrize("csrf", [{}, {"csrf": ""}, {"csrf": "wrong"}, {"csrf": "\u00e9"}])
def test_every_form_needs_its_token(studio, visitor, csrf):
    with_stream(studio)
    before = state_of(studio)
    for path in paths_of(studio, "POST"):
        fields = SKETCH | {"name": "new", "understood": "yes", "epsilon": "1", "unit": "record"} | csrf
        assert visitor.post(path, fields, {"origin": ORIGIN}).status_code == 403, path
        as_json = visitor.post_json(path, fields | {"csrf": studio.keys.csrf}, {"origin": ORIGIN})
        assert as_json.status_code == 403, path
    assert state_of(studio) == before


def test_a_get_changes_nothing(studio, visitor):
    assert visitor.release(SKETCH)["state"] == "done"
    with_stream(studio)
    before = state_of(studio)
    gets = paths_of(studio, "GET")
    assert len(gets) > 8
    for path in [*gets, *paths_of(studio, "POST")]:
        query = SKETCH | {"csrf": studio.keys.csrf, "confirmed": "yes", "question": "distance", "name": "again.release"}
        assert visitor.get(path, params=query).status_code in (200, 303, 400, 404, 405), path
    assert state_of(studio) == before


def test_other_methods_and_websockets_are_refused(studio, visitor):
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        assert visitor.request(method, "/data", headers={"origin": ORIGIN}).status_code == 405
    sent = []

    async def send(message):
        sent.append(message)

    async def receive():
        return {"type": "websocket.connect"}

    scope = {"type": "websocket", "path": "/data", "headers": [(b"host", HOST.encode())], "query_string": b""}
    asyncio.run(application(studio, PORT)(scope, receive, send))
    assert [m["type"] for m in sent] == ["websocket.close"]


def test_every_answer_carries_the_policy(studio, visitor):
    visitor.release(SKETCH)
    answers = [visitor.get(path) for path in [*paths_of(studio, "GET"), "/static/plan.js", "/nowhere"]]
    answers += [visitor.get("/data", headers={"host": "evil.example"}), visitor.send("/data/people.csv/form")]
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert ("'unsafe-inline'" in policy) == ("sandbox" in policy)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["referrer-policy"] == "same-origin"
    report = visitor.get("/release/made/people.release/report").headers["content-security-policy"]
    assert report.startswith("sandbox allow-scripts")
    assert "allow-same-origin" not in report


def test_templates_hold_no_inline_script_or_style():
    for template in (resources.files("sfumato.studio") / "templates").iterdir():
        text = template.read_text()
        assert not re.search(r"<script(?! src=\"/static/)|<style|\sstyle=|\son[a-z]+=|javascript:|\|\s*safe\b", text)


# ---- no way out of the folder ---------------------------------------------------------------------------------------

OUTSIDE = [
    *("..", ".", "", "/", "../secret.csv", "..\\secret.csv", "%2e%2e/secret.csv", "....//secret.csv", "/etc/passwd"),
    *("a\0.csv", "people.csv\0", ".hidden.csv", "out.csv", "loop.csv", "deep/../../secret.csv", "deep/inner.csv"),
    *("x" * 5000 + ".csv", "\ud800.csv", "secret.csv"),
]


@pytest.fixture
def trapped(studio, tmp_path):
    """The folder with links that lead out of it, and a secret beside it."""
    (tmp_path / "secret.csv").write_text(f"a\n{CELL}\n")
    (tmp_path / "outside.release").mkdir()
    (tmp_path / "outside.release" / "manifest.json").write_text("{}")
    data = studio.folder.data
    (data / ".hidden.csv").write_text("a\n1\n")
    (data / "out.csv").symlink_to(tmp_path / "secret.csv")
    (data / "loop.csv").symlink_to(data / "loop.csv")
    (data / "out.release").symlink_to(tmp_path / "outside.release")
    (data / "up").symlink_to(tmp_path)
    (data / "deep").mkdir()
    (data / "deep" / "inner.csv").write_text("a\n1\n")
    (data / "inside.csv").symlink_to(data / "people.csv")
    return studio


@pytest.mark.parametrize("name", OUTSIDE)
def test_no_name_leads_out_of_the_folder(trapped, name):
    for find in (trapped.folder.table, trapped.folder.release, trapped.folder.schema):
        with pytest.raises(NotHereError) as refused:
            find(name)
        assert str(trapped.folder.data.parent) not in str(refused.value)


@pytest.mark.parametrize("name", [*OUTSIDE, "up/secret.csv", "%2e%2e%2fsecret.csv", "..%5csecret.csv"])
def test_no_address_leads_out_of_the_folder(trapped, name):
    if "\ud800" in name:
        name = "%ED%A0%80.csv"
    cookie = (b"cookie", f"sfumato-studio-{PORT}={trapped.keys.session}".encode())
    headers = [cookie, (b"host", HOST.encode()), (b"origin", ORIGIN.encode())]
    form = [*headers, (b"content-type", b"application/x-www-form-urlencoded")]
    body = f"csrf={trapped.keys.csrf}&understood=yes&text=x".encode()
    for path in (f"/data/{name}", f"/release/made/{name}", f"/explore/{name}", f"/static/{name}"):
        status, text = asked(trapped, path, headers)
        assert status in (200, 303, 404, 405) if name in ("", ".", "/") else status == 404, path
        assert CELL not in text
    for act in ("rows", "text"):
        status, text = asked(trapped, f"/data/{name}/{act}", form, body)
        assert status in (404, 405), (name, act)
        assert CELL not in text


def test_links_out_and_hidden_files_are_not_listed(trapped):
    assert [item.name for item in trapped.folder.tables()] == ["inside.csv", "people.csv"]
    assert trapped.folder.releases() == []
    text = Visitor(trapped).get("/data").text
    for name in ("out.csv", "hidden.csv", "loop.csv"):  # tokens of the page may hold any four letters
        assert name not in text


def test_a_schema_that_is_a_link_out_is_neither_read_nor_followed(trapped, tmp_path):
    visitor, data = Visitor(trapped), trapped.folder.data
    (tmp_path / "precious.toml").write_text(f'# {CELL}\n[[columns]]\nname = "age"\nkind = "flag"\n')
    (data / "people.toml").unlink()
    (data / "people.toml").symlink_to(tmp_path / "precious.toml")
    assert CELL not in visitor.get("/data/people.csv").text
    assert visitor.send("/data/people.csv/text", {"text": '[[columns]]\nname = "age"\nkind = "flag"\n'}).is_redirect
    assert CELL in (tmp_path / "precious.toml").read_text()
    assert not (data / "people.toml").is_symlink()


# ---- what lies beside a table ---------------------------------------------------------------------------------------


def giant(path):
    """A file of a gigabyte that takes no room."""
    with path.open("wb") as file:
        file.truncate(1 << 30)


def test_a_pipe_or_a_giant_in_the_place_of_a_schema_is_not_read(studio, visitor):
    schema = studio.folder.data / "people.toml"
    for make in (os.mkfifo, giant, Path.mkdir):
        schema.unlink()
        make(schema)
        assert not studio.folder.has_schema("people.csv")
        assert visitor.get("/data/people.csv").status_code == 200
        assert "not an ordinary one" in visitor.get("/plan", params={"data": "people.csv", "purpose": "distances"}).text
        assert visitor.send("/release/price", SKETCH).status_code == 422


def test_a_schema_that_becomes_a_pipe_after_it_was_found_is_not_waited_for(studio, tmp_path):
    found = studio.folder.schema("people.csv")
    assert len(read_schema(found).columns) == 3
    found.unlink()
    os.mkfifo(found)
    with pytest.raises(NotHereError, match="not an ordinary one"):
        read_schema(found)
    found.unlink()
    (tmp_path / "elsewhere.toml").write_text("")
    found.symlink_to(tmp_path / "elsewhere.toml")
    with pytest.raises(SchemaError, match=r"people\.toml: it cannot be read"):
        read_schema(found)


def test_a_giant_manifest_is_not_read(studio, visitor):
    (studio.folder.data / "giant.release").mkdir()
    giant(studio.folder.data / "giant.release" / "manifest.json")
    for path in ("/release/made/giant.release", "/release/made/giant.release/report", "/explore/giant.release"):
        assert visitor.get(path).status_code == 404
    assert visitor.get("/explore").status_code == 200


@pytest.mark.parametrize("start", ["", "\n", '"\n",' * 9999, '"' + "x" * 200_000 + '",'])
def test_a_csv_file_of_too_many_columns_is_refused_before_it_is_opened(studio, visitor, monkeypatch, start):
    wide = studio.folder.data / "people.csv"
    wide.write_text(start + ",".join("a" * MOST_COLUMNS) + ",a\n")
    monkeypatch.setattr("sfumato.studio.data_screen.open_table", None)
    monkeypatch.setattr("sfumato.studio.release_screen.open_table", None)
    for answer in (
        visitor.get("/data/people.csv"),
        visitor.send("/data/people.csv/rows", {"understood": "yes"}),
        visitor.send("/release/price", SKETCH),
    ):
        assert answer.status_code in (400, 422)
        assert "more than 10,000 columns" in answer.text


@pytest.mark.parametrize(
    "text",
    [
        "a." * 20_000 + "a = 1",
        "x = {" + '"=" . ' * 20_000 + "a = 1}",
        "[" + "'#'." * 20_000 + "a]",
        'x = ["""\n\' """, {' + "a." * 20_000 + "a = 1}]",
        '# "\n' + "a." * 20_000 + "a = 1",
        '"' + '\\"' * 150_000,
    ],
)
def test_a_schema_of_endless_keys_is_refused_at_once(studio, visitor, monkeypatch, text):
    monkeypatch.setattr(Schema, "from_toml", Schema.from_toml if text.startswith('"') else None)
    (studio.folder.data / "people.toml").write_text(text)
    assert "cannot be read" in visitor.get("/data/people.csv").text
    assert visitor.send("/data/people.csv/text", {"text": text}).status_code == 422
    assert visitor.send("/release/price", SKETCH).status_code == 422


def test_a_schema_may_have_as_many_dots_in_its_values_and_comments_as_it_likes():
    schema = Schema((Real("a.b.c", 0.5, 1.5), Category("icd", tuple(f"E{i}.{i}" for i in range(300)))))
    assert parse_schema(f"# {'.' * 100} it's a comment\n{schema.to_toml()}") == schema
    inline = ", ".join(f"{{name = 'c{i}', kind = 'real', low = -0.5, high = 1.5e+3}}" for i in range(200))
    assert len(parse_schema(f"columns = [{inline}]").columns) == 200


@pytest.mark.parametrize("text", ["[project]\nname = 'precious'\n", "no TOML", "\xff"])
def test_a_file_that_is_no_schema_is_not_replaced_by_one(studio, visitor, text):
    data, mine = studio.folder.data, '[[columns]]\nname = "a"\nkind = "flag"\n'
    (data / "pyproject.csv").write_text("a\n1\n")
    (data / "pyproject.toml").write_text(text, encoding="latin-1")
    form = {"lines": "1", "0.name": "a", "0.kind": "flag"}
    for act, fields in (("text", {"text": mine}), ("form", form)):
        refused = visitor.send(f"/data/pyproject.csv/{act}", fields)
        assert refused.status_code == 400
        assert "pyproject.toml beside the table is not a schema" in refused.text
    assert (data / "pyproject.toml").read_text(encoding="latin-1") == text
    for before in ("", "# a draft\n[[columns]]\nname = 'a'\n# kind =\n", "columns = [{name = 'a', kind = 'flag'}]"):
        (data / "pyproject.toml").write_text(before)
        assert visitor.send("/data/pyproject.csv/text", {"text": mine}).is_redirect
        assert (data / "pyproject.toml").read_text() == mine


@pytest.mark.parametrize("count", ["\u00b2", "9" * 5000, "-1", "1e9", ""])
def test_a_number_of_lines_that_is_none_is_no_line(visitor, count):
    assert visitor.send("/data/people.csv/form", {"lines": count, "0.name": "age"}).status_code == 422


def test_a_cell_that_python_does_not_have_is_not_an_error(studio, visitor):
    late = pa.array([1 << 62, 0, None], pa.timestamp("us"))
    pq.write_table(pa.table({"when": late, "day": late.cast(pa.int64())}), studio.folder.data / "late.parquet")
    page = visitor.send("/data/late.parquet/rows", {"understood": "yes"})
    assert page.status_code == 200
    assert "(cannot be shown)" in page.text
    assert "1970-01-01" in page.text


def test_a_thread_that_hangs_does_not_keep_the_studio_from_ending():
    hang = "import threading; threading.Thread(target=threading.Event().wait).start()"
    code = f"from sfumato.studio.server import leave; leave(0.0); {hang}; leave(0.1)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=120, check=False)  # noqa: S603
    assert (done.returncode, b"did not come back" in done.stderr) == (1, True)


@pytest.mark.parametrize(
    "name", ["../out", "a/b", ".hidden", "", "a\0", "a b", "caf\u00e9", "x" * 101, "people.csv", "up"]
)
def test_a_release_gets_a_plain_new_name(trapped, name):
    with pytest.raises(NotHereError):
        trapped.folder.new_release(name)
    refused = Visitor(trapped).send("/release/price", SKETCH | {"name": name})
    assert refused.status_code == 422
    assert trapped.jobs._order is None


def test_releases_can_go_to_a_folder_of_their_own(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    folder = Folder.of(tmp_path / "in", tmp_path / "out")
    assert folder.new_release("a.release") == (tmp_path / "out").resolve() / "a.release"
    with pytest.raises(NotHereError, match="no folder"):
        Folder.of(tmp_path / "nowhere")


# ---- bodies ---------------------------------------------------------------------------------------------------------


def asked(studio, path, headers, body=None):
    """Call the application itself, with a path that no client would send; the status and the text of the answer."""
    answer = run(studio, "GET" if body is None else "POST", path, headers, whole(body or b""))
    return answer.status_code, answer.text


def run(studio, method, path, headers, receive):
    scope = {"method": method, "path": path, "raw_path": path.encode("utf-8", "surrogatepass"), "headers": headers}
    return call(application(studio, PORT), scope, receive)


@pytest.mark.parametrize("length", [None, str(1 << 30).encode(), b"-1", b"abc", b"1" * 5000])
def test_a_gigabyte_is_refused_before_it_is_read(studio, length):
    cookie = (b"cookie", f"sfumato-studio-{PORT}={studio.keys.session}".encode())
    headers = [cookie, (b"host", HOST.encode()), (b"origin", ORIGIN.encode())]
    headers += [(b"transfer-encoding", b"chunked")] if length is None else [(b"content-length", length)]
    taken = []

    def receive():
        taken.append(1 << 16)
        return {"type": "http.request", "body": bytes(1 << 16), "more_body": len(taken) < 1 << 14}

    assert run(studio, "POST", "/data/people.csv/text", headers, receive).status_code == 413
    assert sum(taken) <= (LARGEST_BODY + (1 << 16) if length is None else 0)
    taken.clear()
    assert run(studio, "GET", "/data", headers, receive).status_code == 413
    assert taken == []


def test_a_form_of_many_fields_or_of_another_kind_is_refused(studio, visitor):
    for body, kind in (
        ("&".join(f"a{i}=1" for i in range(20_000)), "application/x-www-form-urlencoded"),
        ("%ff=%ff", "application/x-www-form-urlencoded"),
        ("[" * 100_000, "application/json"),
        ("[1]", "application/json"),
        ("csrf", "multipart/form-data; boundary=x"),
    ):
        headers = {"origin": ORIGIN, "content-type": kind, "x-csrf": studio.keys.csrf}
        assert visitor.request("POST", "/data/people.csv/text", body=body.encode(), headers=headers).status_code == 403


def resident(process):
    text = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", text)[1]) * 1024


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the memory of a process from /proc")
def test_the_command_listens_on_this_machine_alone_and_cuts_a_gigabyte_short(studio):
    command = [sys.executable, "-m", "sfumato.cli", "studio", "--data", str(studio.folder.data), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        try:
            told = json.loads("".join(iter(process.stdout.readline, "}\n")) + "}")
            port, token = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/\?token=(.+)", told["address"]).groups()
            head = f"GET /?token={token} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n"
            welcome = spoken(int(port), head.encode())[0]
            assert welcome.startswith(b"HTTP/1.1 200")
            cookie = re.search(rb"set-cookie: ([^;]+)", welcome)[1].decode()
            listening = Path(f"/proc/{process.pid}/net/tcp").read_text()
            assert f"0100007F:{int(port):04X} 00000000:0000 0A" in listening
            assert f"00000000:{int(port):04X} 00000000:0000 0A" not in listening
            before = resident(process)
            head = (
                f"POST /data/people.csv/text HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nOrigin: http://127.0.0.1:{port}\r\n"
                f"Cookie: {cookie}\r\nTransfer-Encoding: chunked\r\n\r\n"
            )
            answer, sent = spoken(int(port), head.encode(), gigabyte=True)
            assert answer.startswith(b"HTTP/1.1 413")
            assert sent < 1 << 27
            assert resident(process) - before < 1 << 25
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(120) == 0


def spoken(port, head, *, gigabyte=False):
    """What a server answers, and how many bytes of a body it let us send."""
    with socket.create_connection(("127.0.0.1", port), timeout=120) as line:
        line.sendall(head)
        sent, chunk = 0, b"10000\r\n" + bytes(1 << 16) + b"\r\n"
        with contextlib.suppress(ConnectionError, TimeoutError):
            while gigabyte and sent < 1 << 30:
                line.sendall(chunk)
                sent += len(chunk)
        answer = b""
        with contextlib.suppress(ConnectionError):
            while part := line.recv(1 << 16):
                answer += part
    return answer, sent


@contextlib.contextmanager
def answering(studio):
    """A studio that answers on a port of its own, and its cookie."""
    server = Server.of(studio.folder, None)
    ready = server.prepared()
    thread = threading.Thread(target=server.run, args=(ready,))
    thread.start()
    try:
        yield server.port, f"sfumato-studio-{server.port}={server.studio.keys.session}"
    finally:
        ready.should_exit = True
        thread.join(120)


def test_idle_connections_do_not_keep_the_owner_out(studio):
    with answering(studio) as (port, cookie), contextlib.ExitStack() as held:
        host = f"Host: 127.0.0.1:{port}\r\n"
        for start in (b"", b"GET / HT", f"POST / HTTP/1.1\r\n{host}Cookie: {cookie}\r\n".encode()) * 100:
            line = held.enter_context(socket.create_connection(("127.0.0.1", port), timeout=120))
            line.sendall(start)
        asked = f"GET /data HTTP/1.1\r\n{host}Cookie: {cookie}\r\nConnection: close\r\n\r\n"
        assert spoken(port, asked.encode())[0].startswith(b"HTTP/1.1 200")


def test_a_request_that_does_not_arrive_is_not_waited_for(studio, monkeypatch):
    monkeypatch.setattr("sfumato.studio.server.TIMEOUT", 0.2)
    with answering(studio) as (port, cookie):
        head = f"POST /data/people.csv/rows HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nCookie: {cookie}\r\n"
        body = f"{head}Origin: http://127.0.0.1:{port}\r\nContent-Length: 100\r\n\r\ncsrf="
        for start in ("", "GE", head, body):
            assert spoken(port, start.encode())[0] == b""
        monkeypatch.setattr("sfumato.studio.server.TIMEOUT", 120.0)  # or a slow machine would be late with this, too
        asked = f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"  # who is not known does not keep a connection
        assert b"connection: close" in spoken(port, asked.encode())[0].lower()


# ---- what others wrote ----------------------------------------------------------------------------------------------


def test_a_script_in_a_name_is_shown_as_text(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "<img src=x onerror=alert(1)>.csv").write_text(f'"{SCRIPT}",b\n1,{SCRIPT}\n')
    studio = make_studio(folder, epsilon=None)
    visitor = Visitor(studio)
    assert visitor.send("/budget/dataset", {"name": SCRIPT, "unit": "record", "epsilon": "1"}).is_redirect
    address = "/data/%3Cimg%20src=x%20onerror=alert(1)%3E.csv"
    rows = visitor.send(f"{address}/rows", {"understood": "yes"})
    texts = [visitor.get(path).text for path in ("/data", address, "/budget", "/release")]
    texts += [rows.text, visitor.send(f"{address}/text", {"text": SCRIPT}).text]
    texts += [visitor.send(f"{address}/form", {"lines": "1", "0.name": SCRIPT, "0.kind": SCRIPT, "0.low": SCRIPT}).text]
    texts += [visitor.get("/plan", params={"data": SCRIPT, "epsilon": SCRIPT, "purpose": SCRIPT}).text]
    texts += [visitor.get("/release", params={"data": SCRIPT, "name": f'"{SCRIPT}'}).text]
    texts += [visitor.send("/release/price", SKETCH | {"mechanism": SCRIPT}).text]
    assert all(SCRIPT not in text and "<img" not in text for text in texts)
    assert sum("&lt;script&gt;alert(1)" in text for text in texts) >= 8
    assert rows.text.count("&lt;script&gt;alert(1)") > texts[1].count("&lt;script&gt;alert(1)")


def terms_of(*columns):
    terms = {"mechanism": Sketch(dimension=1), "guarantee": Guarantee(epsilon=1.0, unit="record")}
    return terms | {"schema": Schema(columns)}


def test_a_script_in_a_manifest_is_shown_as_text(studio, visitor):
    name = f"{SCRIPT}</title></script><svg onload=alert(1)>"
    release_to(studio.folder.data / "theirs.release", np.eye(2), **terms_of(Real(name, 0, 1), Real("b", 0, 1)))
    for path in ("/release/made/theirs.release", "/release/made/theirs.release/report", "/explore/theirs.release"):
        text = visitor.get(path).text
        assert "theirs.release" in text or "sketch" in text
        assert SCRIPT not in text
        assert "<svg onload" not in text


def test_names_that_are_no_text_are_left_out_and_counted(studio, visitor):
    folder = studio.folder.data
    for name in (b"\xff\xfe.csv", b"\xff.toml"):
        Path(os.fsdecode(os.fsencode(folder) + b"/" + name)).write_text("a\n1\n")
    release = Path(os.fsdecode(os.fsencode(folder) + b"/\xfe.release"))
    release.mkdir()
    (release / "manifest.json").write_text("{}")
    for path in ("/data", "/plan", "/release", "/budget", "/explore", "/data/people.csv"):
        assert visitor.get(path).status_code == 200, path
    assert [item.name for item in studio.folder.tables()] == ["people.csv"]
    assert studio.folder.releases() == []
    assert "3 files are not shown" in visitor.get("/data").text
    assert "3 files are not shown" in visitor.get("/explore").text
    with pytest.raises(NotHereError, match="rename it"):
        Folder.of(release)


def test_half_letters_and_letters_that_turn_others_around_are_shown_as_marks(studio, visitor):
    release_to(studio.folder.data / "odd.release", np.eye(2), **terms_of(Real("a", 0, 1), Real("b", 0, 1)))
    place = studio.folder.data / "odd.release" / "manifest.json"
    manifest = json.loads(place.read_text()) | {"warnings": ["\ud800 \u202e gnol"]}
    place.write_text(json.dumps(manifest | {"digest": digest(manifest)}))
    for path in ("/explore/odd.release", "/release/made/odd.release", "/release/made/odd.release/report"):
        page = visitor.get(path)
        assert page.status_code == 200
        assert ("\ufffd \ufffd gnol" in page.text.lower(), "\u202e" in page.text) == (True, False)


def test_a_form_sends_back_the_names_and_values_that_it_was_given(studio, visitor):
    schema = Schema((Real("\u202ea<b", 0, 1), Category("c", ("\u200f<x>", "\u0645\u200c\u0646"))))
    schema.write(studio.folder.data / "people.toml")
    text = visitor.get("/data/people.csv").text
    assert 'value="\u202ea&lt;b"' in text
    assert ">\u200f&lt;x&gt;\n\u0645\u200c\u0646</textarea>" in text
    assert "\ufffda&lt;b</strong>" in text


def test_a_manifest_that_is_no_manifest_is_refused_in_words(studio, visitor):
    folder = studio.folder.data / "bad.release"
    folder.mkdir()
    (folder / "manifest.json").write_text(json.dumps({"kind": SCRIPT}))
    for path in ("/release/made/bad.release", "/release/made/bad.release/report", "/explore/bad.release"):
        answer = visitor.get(path)
        assert answer.status_code == 400
        assert SCRIPT not in answer.text


# ---- cells ----------------------------------------------------------------------------------------------------------


def test_no_page_shows_a_cell_unless_asked(studio, visitor):
    visitor.release(SKETCH)
    for path in paths_of(studio, "GET"):
        assert CELL not in visitor.get(path, params={"data": "people.csv"}).text
    for path in set(paths_of(studio, "POST")) - {"/data/people.csv/rows"}:
        assert CELL not in visitor.send(path, SKETCH | {"text": "x"}).text
    assert CELL not in visitor.send("/data/people.csv/rows").text
    assert CELL in visitor.send("/data/people.csv/rows", {"understood": "yes"}).text


def test_an_unexpected_error_says_nothing_of_its_text(visitor, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError(CELL)

    monkeypatch.setattr("sfumato.studio.data_screen.open_table", broken)
    answer = visitor.get("/data/people.csv")
    assert answer.status_code == 500
    assert "RuntimeError" in answer.text
    assert CELL not in answer.text


def test_an_error_of_the_file_system_names_no_place(studio, visitor, monkeypatch):
    def full(*_, **__):
        raise OSError(28, os.strerror(28), str(studio.folder.data / "x"))

    monkeypatch.setattr(Folder, "write_schema", full)
    text = (studio.folder.data / "people.toml").read_text()
    answer = visitor.send("/data/people.csv/text", {"text": text})
    assert answer.status_code == 500
    assert str(studio.folder.data.parent) not in answer.text
