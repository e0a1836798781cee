"""A process that has torch imported and forks a worker for every request: milliseconds, not seconds of imports.

It runs nothing of a target. On its channel it reads one JSON line with descriptors (the worker's standard
input, its output, its results, and where its end is told) and answers with the worker's process id and a descriptor of
it. It ends when the channel is closed, and says nothing at all where torch cannot be imported: a worker of its own then
says why.
"""

import contextlib
import json
import os
import select
import socket
import sys
import traceback
from typing import Dict, List

from . import server
from .process import loading

# How late the end of a worker may be told: an idle server sleeps, one with workers looks 50 times a second.
_LOOK_S = 0.02
_LONGEST_REQUEST_BYTES = 1 << 16
_OF_WORKER = 4


def serve_forks(channel_fd: int) -> None:
    """Answer requests until the host closes the channel."""
    os.set_inheritable(channel_fd, False)
    server.keep_garbage()
    channel = socket.socket(fileno=channel_fd)
    try:
        loading.import_torch()
    except loading.LoadError:
        return
    ends: Dict[int, int] = {}
    compiling_workers = 0
    while True:
        readable, _, _ = select.select([channel], [], [], _LOOK_S if ends else None)
        _tell_ends(ends)
        if not readable:
            continue
        line, descriptors, _, _ = socket.recv_fds(channel, _LONGEST_REQUEST_BYTES, _OF_WORKER)
        if not line:
            return
        *pipes, end_fd = descriptors
        jobs = json.loads(line)
        server.preload(jobs)
        compiling_workers += any(map(server.compiles, jobs))
        if compiling_workers > 1:  # the first one's other jobs need not wait for the compiler: it loads its own
            server.preload_compiler()
        pid = os.fork()
        if pid == 0:
            for fd in (*ends.values(), end_fd):
                os.close(fd)
            channel.close()
            _become_worker(pipes)
        for fd in pipes:
            os.close(fd)
        ends[pid] = end_fd
        process = [os.pidfd_open(pid)] if hasattr(os, "pidfd_open") else []
        socket.send_fds(channel, ["{}\n".format(pid).encode("ascii")], process)
        for fd in process:
            os.close(fd)


def _tell_ends(ends: Dict[int, int]) -> None:
    """Write the exit code (negative: a signal) of every worker that has ended to the descriptor that waits for it."""
    for pid in list(ends):
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            with contextlib.suppress(OSError):
                os.write(ends[pid], str(os.waitstatus_to_exitcode(status)).encode("ascii"))
            os.close(ends.pop(pid))


def _become_worker(pipes: List[int]) -> None:
    """What a started interpreter has at its first line: a session, standard streams, and one descriptor. No return."""
    input_fd, output_fd, results_fd = pipes
    code = 1
    try:
        os.setsid()
        for fd, standard in ((input_fd, 0), (output_fd, 1), (output_fd, 2)):
            os.dup2(fd, standard)
        os.close(input_fd)
        os.close(output_fd)
        server.serve(results_fd)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
