"""The server: one socket on 127.0.0.1, and the address to open."""

import asyncio
import contextlib
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from sfumato.errors import ParameterError
from sfumato.studio.app import application
from sfumato.studio.frame.guard import Keys
from sfumato.studio.frame.shared_state import Studio
from sfumato.studio.inputs.folder import Folder

TIMEOUT = 20.0  # seconds for a request to arrive
MOST_WAITING = 64  # connections that wait for one
_PATIENCE = 2.0  # seconds for pages to come back when the studio ends


class Prompt(H11Protocol):
    """A connection to the server that is closed if a request is not there in time, head and body.

    Those that wait are not counted against the owner: when there are many, the one that waits longest makes room.
    """

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._wait()
        waiting = [(c._timer.when(), c) for c in self.connections if isinstance(c, Prompt) and c._timer is not None]
        if len(waiting) > MOST_WAITING:
            min(waiting, key=lambda pair: pair[0])[1]._late()

    def data_received(self, data: bytes) -> None:
        """Wait on, until nothing of the request is missing."""
        super().data_received(data)
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            self._wait()
        else:
            self._stop()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._stop()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._timer = self._timer or self.loop.call_later(TIMEOUT, self._late)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None

    def _late(self) -> None:
        self._stop()
        self.transport.abort()


@dataclass(frozen=True, slots=True)
class Server:
    """A server of the studio whose port is taken but that does not answer yet."""

    studio: Studio
    socket: socket.socket

    @classmethod
    def of(cls, folder: Folder, ledger: str | None, port: int = 0) -> "Server":
        """Take a port of 127.0.0.1; 0 takes a free one."""
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(("127.0.0.1", port))
            listening.listen()  # whoever opens the printed address at once waits for the answer
        except (OSError, OverflowError):
            listening.close()
            raise ParameterError(f"port {port} of 127.0.0.1 cannot be had: leave --port out, or name another") from None
        return cls(Studio(folder, ledger, Keys()), listening)

    @property
    def port(self) -> int:
        """The port that was taken."""
        return int(self.socket.getsockname()[1])

    @property
    def address(self) -> str:
        """The address to open, once."""
        return self._with(self.studio.keys.token)

    def fresh_address(self) -> str:
        """Another address to open, once, in place of the one before."""
        return self._with(self.studio.keys.renew())

    def _with(self, token: str | None) -> str:
        return f"http://127.0.0.1:{self.port}/?token={token}"

    def answer_terminal(self, lines: Iterable[str], say: Callable[[str], None]) -> None:
        """Say a fresh address for every line that is entered; in a thread that ends with the process."""

        def listen() -> None:
            with contextlib.suppress(OSError, ValueError):  # a terminal that goes away
                for _ in lines:
                    say(self.fresh_address())

        threading.Thread(target=listen, name="terminal", daemon=True).start()

    def prepared(self) -> uvicorn.Server:
        """The web server that will answer."""
        config = uvicorn.Config(
            application(self.studio, self.port),
            log_level="warning",
            access_log=False,  # addresses hold the token
            server_header=False,
            http=Prompt,
            ws="none",
            limit_concurrency=4 * MOST_WAITING,
            timeout_graceful_shutdown=2,
        )
        return uvicorn.Server(config)

    def run(self, answering: uvicorn.Server | None = None) -> None:
        """Answer until interrupted; a release that is being made then is stopped."""
        with self.socket:
            try:
                (answering or self.prepared()).run(sockets=[self.socket])
            finally:
                self.studio.jobs.close()
                if threading.current_thread() is threading.main_thread():
                    leave(_PATIENCE)


def leave(patience: float) -> None:
    """End the server's process if threads do not end within so many seconds: Python would wait for them for good."""
    until = time.monotonic() + patience
    others = [t for t in threading.enumerate() if not t.daemon and t is not threading.current_thread()]
    for thread in others:
        thread.join(max(0.0, until - time.monotonic()))
    if any(thread.is_alive() for thread in others):
        sys.stderr.write("sfumato: a page did not come back; the studio ends without it\n")
        sys.stderr.flush()
        os._exit(1)
