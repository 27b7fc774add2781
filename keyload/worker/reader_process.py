"""A worker's end of one reader process: starts it, hands it a job, takes the answer, ends it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence

from keyload.worker.calls import ReadCall
from keyload.worker.read_jobs import RECEIVE_BYTES, Cancel, Frames, Job, Result, Setup, ToReader, framed

READER_COMMAND = (sys.executable, "-m", "keyload.worker.reader")


class ReaderProcess:
    """One reader process; `call` is the read it works at, `shards` are those it may have open.

    `give_up_at` is the instant at which the running job is over, one way or the other, on the worker's
    monotonic clock in seconds; `idle_since` the one at which the last job ended.
    """

    def __init__(self, setup: Setup, now: float, command: Sequence[str]) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            environment = {
                name: text for name, text in os.environ.items() if not name.startswith("KEYLOAD_FAULT")
            }
            try:
                self._process = subprocess.Popen(  # noqa: S603 - our own program
                    [*command, str(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                    env=environment,
                )
            except OSError:
                ours.close()
                raise
        ours.setblocking(False)
        self.socket = ours
        self.call: ReadCall | None = None
        self.number = 0
        self.give_up_at = 0.0
        self.idle_since = now
        self.shards: set[int] = set()
        self._frames = Frames[Result](Result)
        self._unsent = b""
        self._send(setup)

    @property
    def process_id(self) -> int:
        """Process id of the reader."""
        return self._process.pid

    @property
    def wants_to_write(self) -> bool:
        """Whether something waits until the socket takes more."""
        return bool(self._unsent)

    def work(self, call: ReadCall, job: Job, give_up_at: float) -> None:
        """Hand over a read; the process must be idle."""
        self.call, self.number, self.give_up_at = call, job.number, give_up_at
        self.shards.add(job.read.shard)
        self._send(job)

    def cancel(self, give_up_at: float) -> None:
        """Ask the process to end its job; at `give_up_at` it is ended itself."""
        self.give_up_at = min(self.give_up_at, give_up_at)
        self._send(Cancel(self.number))

    def write(self) -> None:
        """Send on what waits. A process that is gone is noticed when its answers are read."""
        try:
            while self._unsent:
                self._unsent = self._unsent[self.socket.send(self._unsent) :]
        except BlockingIOError:
            pass
        except OSError:
            self._unsent = b""

    def read(self) -> Result | None:
        """The answer to the running job if it is complete. Raises EOFError when the process is gone or talks
        nonsense."""
        try:
            data = self.socket.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return None
        except OSError as error:
            raise EOFError from error
        if not data:
            raise EOFError
        try:
            for result in self._frames.take(data):
                if result.number == self.number and self.call is not None:
                    return result
        except ValueError as error:
            raise EOFError from error
        return None

    def finished(self, now: float) -> ReadCall:
        """The job is over; gives the read it was for."""
        assert self.call is not None
        call, self.call, self.idle_since = self.call, None, now
        return call

    def wait(self, seconds: float) -> int:
        """Exit status of a process that ends by itself. Raises TimeoutExpired."""
        return self._process.wait(seconds)

    def end(self) -> None:
        """End the process, whatever it does, and wait until it is gone: a few milliseconds."""
        self.socket.close()
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def _send(self, message: ToReader) -> None:
        self._unsent += framed(message)
        self.write()
