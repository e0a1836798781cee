"""A checkout that tries to get out, once: `attempts.json` beside this file tells what each attempt came to.

`places.json` says where to look; all of it belongs to the test. What returns is an escape, what raises was held.
"""

import ctypes
import errno
import fcntl
import json
import os
import signal
import socket
import stat
import struct

HERE = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(HERE, "places.json")) as file:
    PLACES = json.load(file)
ATTEMPTS = []


def attempt(function):
    ATTEMPTS.append(function)
    return function


def read(path):
    with open(path, "rb") as file:
        return file.read(200).decode("utf-8", "replace")


def call(name, *arguments):
    libc = ctypes.CDLL(None, use_errno=True)
    result = getattr(libc, name)(*arguments)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


@attempt
def home_file():
    return read(os.path.expanduser("~/.ssh/id_rsa"))


@attempt
def file_outside():
    return read(PLACES["secret"])


@attempt
def link_in_the_checkout():
    """One that came with it: what a copy of the checkout holds in its place."""
    return read(os.path.join(HERE, "key.py"))


@attempt
def system_file():
    return ",".join(os.listdir("/var"))


@attempt
def names_around_the_checkout():
    return os.listdir(PLACES["outside"]).index("secret")


@attempt
def secret_of_the_environment():
    return os.environ["AUDITKIT_TEST_TOKEN"]


@attempt
def environment_of_another():
    return next(part for part in read(f"/proc/{PLACES['victim']}/environ").split("\0") if "SECRET" in part)


@attempt
def files_of_another_by_proc():
    return read(f"/proc/{PLACES['victim']}/cwd/secret")


@attempt
def files_of_another_by_its_root():
    return read(f"/proc/{PLACES['victim']}/root{PLACES['secret']}")


@attempt
def link_out_of_scratch():
    os.symlink(PLACES["secret"], os.path.join(HERE, "soft"))
    return read(os.path.join(HERE, "soft"))


@attempt
def hard_link_out_of_scratch():
    os.link(PLACES["secret"], os.path.join(HERE, "hard"))
    return read(os.path.join(HERE, "hard"))


@attempt
def write_outside():
    with open(os.path.join(PLACES["outside"], "written"), "w") as file:
        file.write("x")


@attempt
def write_to_a_system_folder():
    with open(PLACES["system"], "w") as file:
        file.write("x")


@attempt
def write_through_a_link():
    os.symlink(PLACES["outside"], os.path.join(HERE, "folder"))
    with open(os.path.join(HERE, "folder", "written through a link"), "w") as file:
        file.write("x")


@attempt
def change_the_checkout():
    with open(os.path.join(PLACES["checkout"], "attempts.py"), "a") as file:
        file.write("# changed" + "\n")


@attempt
def shared_memory_of_others():
    return read(PLACES["shared"])


def banner(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as connected:
        connected.settimeout(5)
        connected.connect(address)
        return connected.recv(20).decode()


@attempt
def network_by_name():
    return banner(socket.AF_INET, ("localhost", PLACES["port"]))


@attempt
def network_loopback():
    return banner(socket.AF_INET, ("127.0.0.1", PLACES["port"]))


@attempt
def network_by_address():
    try:
        return banner(socket.AF_INET, (PLACES["address"], PLACES["closed_port"]))
    except ConnectionRefusedError:  # nobody listens there, but the machine has answered
        return "reached"


@attempt
def network_datagram():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.connect((PLACES["address"], PLACES["closed_port"]))
        return sender.getsockname()[0]


@attempt
def socket_file():
    return banner(socket.AF_UNIX, PLACES["socket"])


@attempt
def abstract_socket():
    return banner(socket.AF_UNIX, "\0" + PLACES["abstract"])


def trace(process):
    call("ptrace", 16, process, 0, 0)  # attach, which stops it
    os.waitpid(process, 0x40000000)
    call("ptrace", 17, process, 0, 0)


@attempt
def trace_another():
    trace(PLACES["victim"])


@attempt
def read_memory_of_another():
    kept = ctypes.create_string_buffer(8)
    with open(f"/proc/{PLACES['victim']}/maps") as maps:
        start = int(maps.readline().split("-")[0], 16)
    local, remote = (struct.pack("NN", address, 8) for address in (ctypes.addressof(kept), start))
    call("process_vm_readv", PLACES["victim"], local, 1, remote, 1, 0)
    return kept.raw.hex()


@attempt
def trace_its_own_supervisor():
    trace(os.getppid())


@attempt
def signal_the_parent():
    os.kill(PLACES["host"], 0)


@attempt
def signal_another():
    os.kill(PLACES["victim"], signal.SIGCONT)


@attempt
def new_namespaces():
    call("unshare", 0x10000000)


@attempt
def device_file():
    return read("/dev/full")[:1]


@attempt
def make_a_device_file():
    os.mknod(os.path.join(HERE, "device"), stat.S_IFCHR | 0o600, os.makedev(1, 8))
    return read(os.path.join(HERE, "device"))[:1]


@attempt
def write_to_a_terminal():
    with open(PLACES["terminal"], "wb", buffering=0) as terminal:
        terminal.write(b"forged")


@attempt
def type_into_a_terminal():
    found = os.open(PLACES["terminal"], os.O_RDWR | os.O_NOCTTY)
    for letter in b"typed\n":
        fcntl.ioctl(found, 0x5412, bytes([letter]))


@attempt
def take_a_lot_of_memory():
    return len(bytearray(PLACES["memory_bytes"]))  # nothing of it is touched


@attempt
def file_with_holes():
    with open(os.path.join(PLACES["scratch"] or os.environ["TMPDIR"], "holes"), "wb") as file:
        file.truncate(10 << 30)
        os.unlink(file.name)


@attempt
def open_many_files():
    found = []
    try:
        for _ in range(5000):
            found.append(os.open("/dev/null", os.O_RDONLY))
    finally:
        for each in found:
            os.close(each)


def told(function):
    try:
        return ["out", function()]
    except OSError as error:
        return ["held", errno.errorcode.get(error.errno, "")]
    except Exception as error:
        return ["held", type(error).__name__]


def tell():
    found = {function.__name__: told(function) for function in ATTEMPTS}
    with open(os.path.join(HERE, "attempts.json"), "w") as file:
        json.dump(found, file)


def collect(parameters):
    """The norm of all gradients, and on the way the attempts."""
    if not os.path.exists(os.path.join(HERE, "attempts.json")):
        tell()
    return sum(each.grad.double().pow(2).sum().item() for each in parameters if each.grad is not None) ** 0.5
