"""A checkout that tries to get out: `python attempts.py` prints what each attempt came to.

`places.json` names what the test made outside. What returns is an escape, what raises was held.
"""

import ctypes
import errno
import fcntl
import json
import mmap
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
    libc.shmat.restype = ctypes.c_long
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
    os.symlink(PLACES["secret"], os.path.join(PLACES["scratch"], "soft"))
    return read(os.path.join(PLACES["scratch"], "soft"))


@attempt
def hard_link_out_of_scratch():
    os.link(PLACES["secret"], os.path.join(PLACES["scratch"], "hard"))
    return read(os.path.join(PLACES["scratch"], "hard"))


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
    os.symlink(PLACES["outside"], os.path.join(PLACES["scratch"], "folder"))
    with open(os.path.join(PLACES["scratch"], "folder", "written through a link"), "w") as file:
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
def signal_the_parent():
    os.kill(PLACES["host"], 0)


@attempt
def signal_another():
    os.kill(PLACES["victim"], signal.SIGCONT)


@attempt
def new_namespaces():
    call("unshare", 0x10000000)


@attempt
def make_a_device_file():
    os.mknod(os.path.join(PLACES["scratch"], "device"), stat.S_IFCHR | 0o600, os.makedev(1, 8))
    return read(os.path.join(PLACES["scratch"], "device"))[:1]


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
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    return len(mmap.mmap(-1, PLACES["memory_bytes"], private))  # nothing of it is touched


@attempt
def file_with_holes():
    with open(os.path.join(PLACES["scratch"], "holes"), "wb") as file:
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


@attempt
def link_to_the_whole_disk():
    return read(os.path.join(HERE, "links", "disk") + PLACES["secret"])


@attempt
def link_deep_in_the_checkout():
    return read(os.path.join(HERE, "a", "b", "c", "outside", "secret"))


@attempt
def link_that_climbs():
    return read(os.path.join(HERE, "a", "climbs", "secret"))


@attempt
def link_to_a_link():
    return read(os.path.join(HERE, "links", "chain", "secret"))


@attempt
def link_in_the_place_of_an_environment():
    return read(os.path.join(HERE, ".venv", "secret"))


@attempt
def repository_elsewhere():
    """`.git` is a file that names a folder outside."""
    with open(os.path.join(HERE, ".git")) as file:
        return read(os.path.join(file.read().partition(":")[2].strip(), "secret"))


@attempt
def setting_of_the_kernel():
    """Writes the value that is there already."""
    with open("/proc/sys/kernel/printk_ratelimit", "r+") as file:
        value = file.read()
        file.seek(0)
        file.write(value)


@attempt
def command_lines_of_others():
    return read(f"/proc/{PLACES['victim']}/cmdline")


@attempt
def system_v_shared_memory():
    call("shmat", call("shmget", PLACES["segment"], 0, 0), 0, 0o10000)


@attempt
def mode_of_a_file_outside():
    os.chmod(PLACES["secret"], 0o600)


@attempt
def whether_a_file_exists():
    return os.stat(PLACES["secret"]).st_size


@attempt
def disk_of_the_machine():
    names = [name for name in os.listdir("/dev") if name.startswith(("vd", "sd", "nvme")) and name[-1].isalnum()]
    for name in sorted(names):
        if stat.S_ISBLK(os.stat("/dev/" + name).st_mode):
            return read("/dev/" + name)[:1]
    raise FileNotFoundError(errno.ENOENT, "no disk")


@attempt
def mount_a_folder():
    os.makedirs(os.path.join(PLACES["scratch"], "mounted"), exist_ok=True)
    call("mount", PLACES["scratch"].encode(), os.path.join(PLACES["scratch"], "mounted").encode(), None, 4096, None)
    call("umount2", os.path.join(PLACES["scratch"], "mounted").encode(), 2)


def told(function):
    try:
        return ["out", function()]
    except OSError as error:
        return ["held", errno.errorcode.get(error.errno, "")]
    except Exception as error:
        return ["held", type(error).__name__]


if __name__ == "__main__":
    print(json.dumps({function.__name__: told(function) for function in ATTEMPTS}))
