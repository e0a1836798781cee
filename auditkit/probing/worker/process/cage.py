"""Go into the cage that the host has prepared, once and for good: before anything of a target is read.

The host says what to hold: `environment`, `limits`, `network` and, for Landlock, `read`, `write` and `devices`.
With bubblewrap its process has built the namespaces, and this one joins them; with Landlock this process shuts
itself off. Either way it then has no capabilities, gains none, and a filter on system calls. Nothing is undone.
"""

import contextlib
import ctypes
import errno
import fcntl
import functools
import os
import platform
import resource
import socket
import struct
import tempfile
from typing import Any, Dict, Iterable, List, NoReturn, Sequence

from . import families

_NEW_MOUNTS, _NEW_UTS, _NEW_IPC = 0x00020000, 0x04000000, 0x08000000
_NEW_USER, _NEW_PIDS, _NEW_NETWORK, _NEW_CGROUP = 0x10000000, 0x20000000, 0x40000000, 0x02000000
_PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 4, 22, 24, 38
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_SCRATCH = ("XDG_CACHE_HOME", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "MPLCONFIGDIR")


def enter(cage: Dict[str, Any], holder: int, group: int) -> None:
    """Join the namespaces of `holder` (a descriptor of bubblewrap's process), or shut this process off by Landlock.

    `group` is the file of a control group that limits the number of processes. A descriptor may be -1 for none.

    Only children of this process have a process space of their own. Raises OSError where the kernel refuses: then
    nothing may be run.
    """
    is_landlock, has_network_space = cage["engine"] == "landlock", True
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")  # where memory ends, before anything else of the machine
    if group >= 0:
        os.write(group, b"0")
    if is_landlock:
        has_network_space = _leave_network()
    else:
        flags = _NEW_USER | _NEW_MOUNTS | _NEW_PIDS | _NEW_NETWORK | _NEW_IPC | _NEW_UTS
        _checked(_libc().setns(holder, flags), "setns")
    for descriptor in (holder, group):
        if descriptor >= 0:
            os.close(descriptor)
    _libc().prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)  # who changes the user space may not read its own /proc
    _set_environment(cage)
    _set_limits(cage["limits"], has_network_space)
    _checked(_libc().prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    if is_landlock:
        _shut_off_files(cage)
    _drop_capabilities()
    families_of_sockets = _SOCKETS if has_network_space else ()
    # Landlock does not keep a process from a socket that lies in a folder, such as that of the user's services.
    _filter_calls([each for each in families_of_sockets if not (is_landlock and each == socket.AF_UNIX)])


def launch(cage: Dict[str, Any], holder: int, group: int, command: List[str]) -> NoReturn:
    """Run a command in the cage, and end as it ends; its descriptors but the standard ones are its alone."""
    enter(cage, holder, group)
    families.guard(*cage["passed"])
    os.execv(command[0], command)


def landlock_version() -> int:
    """Which Landlock the kernel offers, 0 for none."""
    return max(0, int(_libc().syscall(_LANDLOCK_CREATE, None, 0, 1)))


@functools.lru_cache(maxsize=1)
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, "the cage cannot be entered: {}: {}".format(what, os.strerror(number)))
    return result


def _set_environment(cage: Dict[str, Any]) -> None:
    """The variables that the host gives, and caches in the scratch folder."""
    scratch = cage["scratch"]
    os.environ.clear()
    os.environ.update(cage["environment"], TMPDIR=scratch, TMP=scratch, TEMP=scratch)
    os.environ.update({name: os.path.join(scratch, name.lower()) for name in _SCRATCH})
    tempfile.tempdir = None


def _set_limits(limits: Dict[str, int], has_user_space: bool) -> None:
    """Of one process each, but for the number of processes: that is of the user space, where there is one."""
    wanted = {resource.RLIMIT_CORE: 0, resource.RLIMIT_FSIZE: limits["file_bytes"]}
    wanted[resource.RLIMIT_NOFILE] = limits["open_files"]
    wanted[resource.RLIMIT_DATA] = limits["memory_bytes"]
    if has_user_space:
        wanted[resource.RLIMIT_NPROC] = limits["processes"]
    for name, value in wanted.items():
        limits_now = resource.getrlimit(name)
        soft, hard = (value if now == resource.RLIM_INFINITY else min(now, value) for now in limits_now)
        resource.setrlimit(name, (soft, hard))


# Landlock.


def _leave_network() -> bool:
    """A network, user and IPC space of its own with nothing but loopback in it; False where the kernel forbids it."""
    user, group = os.getuid(), os.getgid()
    if _libc().unshare(_NEW_USER | _NEW_NETWORK | _NEW_IPC | _NEW_UTS) < 0:
        return False
    for name, text in (("setgroups", "deny"), ("uid_map", "{0} {0} 1"), ("gid_map", "{1} {1} 1")):
        with contextlib.suppress(OSError), open("/proc/self/" + name, "w") as file:
            file.write(text.format(user, group))
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        up = 0x1  # IFF_UP
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh14x", b"lo", up))  # SIOCSIFFLAGS
    return True


_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_FOLDER = 1, 2, 4, 8
_OF_ANY_FILE = _EXECUTE | _WRITE_FILE | _READ_FILE | 1 << 14 | 1 << 15
# By version: 13 rights, then to link elsewhere, to truncate, and device calls.
_RIGHTS = {1: (1 << 13) - 1, 2: 1 << 13, 3: 1 << 14, 5: 1 << 15}


def _shut_off_files(cage: Dict[str, Any]) -> None:
    version = landlock_version()
    every_right = sum(right for since, right in _RIGHTS.items() if since <= version)
    scoped = 3 if version >= 6 else 0  # abstract sockets and signals to processes outside
    attributes = struct.pack("=QQQ", every_right, 0, scoped)[: 24 if version >= 6 else 16 if version >= 4 else 8]
    ruleset = _checked(_libc().syscall(_LANDLOCK_CREATE, attributes, len(attributes), 0), "Landlock")
    _allow(ruleset, cage["read"], _EXECUTE | _READ_FILE | _READ_FOLDER)
    _allow(ruleset, cage["listed"], _READ_FOLDER)
    _allow(ruleset, cage["devices"], every_right & (_READ_FILE | _READ_FOLDER | _WRITE_FILE | 1 << 15))
    _allow(ruleset, cage["write"], every_right)
    _checked(_libc().syscall(_LANDLOCK_RESTRICT, ruleset, 0), "Landlock")
    os.close(ruleset)


def _allow(ruleset: int, paths: Iterable[str], rights: int) -> None:
    for path in paths:
        try:
            found = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        rule = struct.pack("=Qi", rights if os.path.isdir(path) else rights & _OF_ANY_FILE, found)
        _checked(_libc().syscall(_LANDLOCK_ADD, ruleset, 1, rule, 0), path)
        os.close(found)


# Capabilities and system calls.


def _drop_capabilities() -> None:
    number = 0
    while _libc().prctl(_PR_CAPBSET_DROP, number, 0, 0, 0) == 0:
        number += 1
    header, none = struct.pack("=II", 0x20080522, 0), bytes(24)  # version 3, this process
    _checked(_libc().capset(header, none), "capset")


# By machine: the number in the kernel's header for the audit of calls, then those of the calls.
_MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
_REFUSED = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "pidfd_getfd": (438, 438), "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39),
    "pivot_root": (155, 41), "chroot": (161, 51), "open_tree": (428, 428), "move_mount": (429, 429),
    "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "mount_setattr": (442, 442), "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "bpf": (321, 280),
    "perf_event_open": (298, 241), "userfaultfd": (323, 282), "add_key": (248, 217), "request_key": (249, 218),
    "keyctl": (250, 219), "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106), "kexec_load": (246, 104),
    "kexec_file_load": (320, 294), "syslog": (103, 116), "acct": (163, 89), "quotactl": (179, 60),
    "swapon": (167, 224), "swapoff": (168, 225), "reboot": (169, 142),
}  # fmt: skip
_CLONE, _CLONE3, _SOCKET, _IOCTL = (56, 220), (435, 435), (41, 198), (16, 29)
_ANY_SPACE = _NEW_MOUNTS | _NEW_UTS | _NEW_IPC | _NEW_USER | _NEW_PIDS | _NEW_NETWORK | _NEW_CGROUP
# Of others, such as those to the machine around this one, no network space holds any.
_SOCKETS = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK)
_TYPE_INTO_TERMINAL, _PASTE_INTO_TERMINAL = 0x5412, 0x541C
_LOAD, _IS, _IS_LEAST, _HAS_BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_CALL, _MACHINE, _ARGUMENTS = 0, 4, 16
_PASS, _REFUSE = 0x7FFF0000, 0x00050000


def can_filter() -> bool:
    """Whether the numbers of this machine's system calls are known."""
    return platform.machine() in _MACHINES


def _filter_calls(sockets: Sequence[int]) -> None:
    """Refuse what only an escape needs: other processes' memory, namespaces, mounts, keys, kernel modules, io_uring.

    And every socket of a family that is not in `sockets`. A filter in the classic form: each instruction is
    (code, how many to skip where it holds, and where not, value).
    """
    audit, column = _MACHINES[platform.machine()]
    refuse, no_such_call = (_RETURN, 0, 0, _REFUSE | errno.EPERM), (_RETURN, 0, 0, _REFUSE | errno.ENOSYS)
    program = [(_LOAD, 0, 0, _MACHINE), (_IS, 1, 0, audit), refuse, (_LOAD, 0, 0, _CALL)]
    if column == 0:  # the x32 form of every call
        program += [(_IS_LEAST, 0, 1, 0x40000000), refuse]
    for numbers in _REFUSED.values():
        program += [(_IS, 0, 1, numbers[column]), refuse]
    program += [(_IS, 0, 1, _CLONE3[column]), no_such_call]  # its flags lie in memory; libraries then use clone
    program += [(_IS, 0, 3, _CLONE[column]), (_LOAD, 0, 0, _ARGUMENTS), (_HAS_BITS, 0, 1, _ANY_SPACE), refuse]
    program += [(_LOAD, 0, 0, _CALL), (_IS, 0, 4, _IOCTL[column]), (_LOAD, 0, 0, _ARGUMENTS + 8)]
    program += [(_IS, 1, 0, _TYPE_INTO_TERMINAL), (_IS, 0, 1, _PASTE_INTO_TERMINAL), refuse]
    program += [(_LOAD, 0, 0, _CALL), (_IS, 1, 0, _SOCKET[column]), (_RETURN, 0, 0, _PASS), (_LOAD, 0, 0, _ARGUMENTS)]
    for family in sockets:
        program += [(_IS, 0, 1, family), (_RETURN, 0, 0, _PASS)]
    program.append(refuse)
    packed = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *each) for each in program))
    described = struct.pack("HP", len(program), ctypes.addressof(packed))
    _checked(_libc().prctl(_PR_SET_SECCOMP, 2, described, 0, 0), "seccomp")
