"""What a target may leave running, fill or flood; all of it ends by itself within seconds."""

import os
import signal
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
LIFE_S = 8.0


def norm(parameters):
    return sum(each.grad.double().pow(2).sum().item() for each in parameters if each.grad is not None) ** 0.5


def ignore_all():
    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN)


def daemon():
    """A process of its own session, whose parent is gone, which writes to `alive` twenty times a second."""
    if os.fork():
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    ignore_all()
    for fd in range(3, 64):
        try:
            os.close(fd)
        except OSError:
            pass
    end = time.monotonic() + LIFE_S
    with open(os.path.join(HERE, "alive"), "a", buffering=1) as file:
        file.write("{}\n".format(os.getpid()))
        while time.monotonic() < end:
            file.write(".\n")
            time.sleep(0.05)
    os._exit(0)


def leave_a_daemon(parameters):
    if not os.path.exists(os.path.join(HERE, "alive")):
        daemon()
        while not os.path.exists(os.path.join(HERE, "alive")):
            time.sleep(0.01)
    return norm(parameters)


def flood(parameters):
    """64 MB on every descriptor that takes them."""
    if not os.path.exists(os.path.join(HERE, "flooded")):
        open(os.path.join(HERE, "flooded"), "w").close()
        for _ in range(64):
            os.write(1, b"x" * (1 << 20))
        sys.stderr.write("\x1b[2Jcleared")
    return norm(parameters)


def sleep(parameters):
    """Deaf to every signal that a process may be deaf to."""
    ignore_all()
    end = time.monotonic() + 60
    while time.monotonic() < end:
        time.sleep(0.05)
    return norm(parameters)


def start_processes(parameters):
    """2,000 that sleep for 3 s, or as many as can be had."""
    if os.path.exists(os.path.join(HERE, "started")):
        return norm(parameters)
    started = []
    try:
        while len(started) < 2000:
            started.append(os.posix_spawn("/bin/sleep", ["sleep", "3"], {}))
    except OSError:
        pass
    with open(os.path.join(HERE, "started"), "w") as file:
        file.write(str(len(started)))
    for process in started:
        os.waitpid(process, 0)
    return norm(parameters)


if __name__ == "__main__":
    globals()[sys.argv[1]](())
