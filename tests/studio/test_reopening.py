"""A studio is opened again by an address that its terminal prints: good once, and only the newest one."""

import queue

import pytest

from sfumato.studio.app import screens
from sfumato.studio.frame.guard import Keys
from sfumato.studio.inputs.folder import Folder
from sfumato.studio.server import Server


@pytest.fixture
def server(tmp_path):
    made = Server.of(Folder.of(tmp_path), None)
    yield made
    made.socket.close()


def token_of(address):
    return address.partition("token=")[2]


def test_a_fresh_token_is_good_once_and_replaces_the_one_before():
    keys = Keys()
    first, session, csrf = keys.token, keys.session, keys.csrf
    second = keys.renew()
    assert second != first
    assert not keys.exchange(first)
    assert keys.exchange(second)
    assert not keys.exchange(second)
    assert (keys.session, keys.csrf) == (session, csrf)  # browsers that are known stay known
    assert keys.exchange(keys.renew())


def test_every_line_of_the_terminal_gives_another_address(server):
    lines, said = queue.Queue(), queue.Queue()
    server.answer_terminal(iter(lines.get, None), said.put)
    addresses = []
    for _ in range(3):
        lines.put("\n")
        addresses.append(said.get(timeout=10))
    lines.put(None)
    assert len({*addresses, server.address}) == 3
    assert addresses[-1] == server.address
    assert not server.studio.keys.exchange(token_of(addresses[0]))
    assert server.studio.keys.exchange(token_of(addresses[-1]))
    assert server.studio.keys.token is None


def test_no_request_makes_a_token(server):
    """Only the terminal does: no route leads there."""
    paths = {route.path for route in screens(server.studio).routes}
    assert not any("token" in path or "renew" in path for path in paths)


def test_a_terminal_that_goes_away_ends_nothing(server):
    def gone():
        raise OSError
        yield

    server.answer_terminal(gone(), lambda _: None)
    assert server.studio.keys.exchange(server.studio.keys.token)
