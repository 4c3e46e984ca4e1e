"""Tries what a session without namespaces shares with the host; prints `name: errno` (0: it worked) for each attempt.

shared.py VICTIM_PID HOST_DIRECTORY TCP_PORT ABSTRACT_NAME IPC_KEY TERMINAL CONTROL_SOCKET
The host directory holds `file`, `socket` (somebody listens) and `closed`, which the session may not read.
"""
import ctypes, errno, os, signal, socket, sys, threading, time

pid, host, port, abstract, key, terminal_of_the_host, control = sys.argv[1:8]
pid, port, key = int(pid), int(port), int(key)
libc = ctypes.CDLL(None, use_errno=True)


def call(nr, *args):
    ctypes.set_errno(0)
    got = libc.syscall(nr, *args)
    if got < 0:
        raise OSError(ctypes.get_errno(), "")
    return got


def attempt(name, run):
    try:
        run()
        print(f"{name}: 0")
    except OSError as e:
        print(f"{name}: {errno.errorcode.get(e.errno, e.errno)}")


def read(path):
    with open(path, "rb") as f:
        f.read(64)


attempt("proc mem", lambda: os.open(f"/proc/{pid}/mem", os.O_RDONLY))
for name in ["cmdline", "environ", "status", "stat", "maps", "mountinfo", "auxv", "io", "comm"]:
    attempt(f"proc {name}", lambda: read(f"/proc/{pid}/{name}"))
attempt("proc fd", lambda: os.listdir(f"/proc/{pid}/fd"))
attempt("proc root", lambda: read(f"/proc/{pid}/root/etc/hostname"))
attempt("proc task", lambda: read(f"/proc/{pid}/task/{pid}/cmdline"))
proc = os.open("/proc", os.O_PATH | os.O_DIRECTORY)
attempt("proc at", lambda: os.open(f"{pid}/cmdline", os.O_RDONLY, dir_fd=proc))
attempt("proc self up", lambda: read(f"/proc/self/../{pid}/cmdline"))
attempt("proc write", lambda: os.open(f"/proc/{pid}/oom_score_adj", os.O_WRONLY))
attempt("proc net", lambda: read("/proc/self/net/tcp"))
attempt("proc keys", lambda: read("/proc/keys"))
for name in ["status", "maps", "stat", "cmdline", "mounts", "cgroup", "environ"]:
    attempt(f"own {name}", lambda: read(f"/proc/self/{name}"))
attempt("own fd", lambda: os.listdir("/proc/self/fd"))
attempt("own task", lambda: read(f"/proc/{os.getpid()}/task/{os.getpid()}/stat"))
attempt("own meminfo", lambda: read("/proc/meminfo"))
attempt("own sysctl", lambda: read("/proc/sys/kernel/osrelease"))

attempt("signal", lambda: os.kill(pid, 0))
attempt("ptrace", lambda: call(101, 16, pid, 0, 0))


class Iovec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


def read_memory():
    here = Iovec(ctypes.addressof(ctypes.create_string_buffer(8)), 8)
    there = Iovec(0x1000, 8)
    try:
        call(310, pid, ctypes.byref(here), ctypes.c_long(1), ctypes.byref(there), ctypes.c_long(1), ctypes.c_long(0))
    except OSError as e:
        # Nothing is mapped there: whoever is told so may read.
        if e.errno != errno.EFAULT:
            raise


attempt("read memory", read_memory)
attempt("nice", lambda: os.setpriority(os.PRIO_PROCESS, pid, 19))
attempt("affinity", lambda: os.sched_setaffinity(pid, {0}))
attempt("scheduler", lambda: os.sched_setscheduler(pid, os.SCHED_BATCH, os.sched_param(0)))
attempt("io priority", lambda: call(251, 1, pid, 3 << 13))
attempt("limits", lambda: call(302, pid, 7, 0, 0))
attempt("own nice", lambda: os.setpriority(os.PRIO_PROCESS, 0, 19))

attempt("shared memory", lambda: call(29, key, 0, 0))
attempt("semaphores", lambda: call(64, key, 0, 0))
attempt("messages", lambda: call(68, key, 0))
QUEUE = b"picktwo-%d" % os.getpid()
attempt("message queue", lambda: (call(240, QUEUE, os.O_RDWR | os.O_CREAT, 0o600, 0), call(241, QUEUE)))
attempt("keyring", lambda: call(250, 0, -3, 0, 0, 0))
attempt("host shared memory", lambda: os.open(f"/dev/shm/picktwo-test-{key}", os.O_RDWR))
own = f"/dev/shm/own-{os.getpid()}"
attempt("own shared memory", lambda: os.write(os.open(own, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), b"x"))
attempt("own shared memory again", lambda: read(own))
attempt("own shared memory gone", lambda: os.unlink(own))


def inet(kind=socket.SOCK_STREAM, family=socket.AF_INET, protocol=0):
    return socket.socket(family, kind, protocol)


attempt("tcp socket", inet)
attempt("udp socket", lambda: inet(socket.SOCK_DGRAM))
attempt("udp6 socket", lambda: inet(socket.SOCK_DGRAM, socket.AF_INET6))
attempt("raw socket", lambda: inet(socket.SOCK_RAW, protocol=1))
attempt("mptcp socket", lambda: inet(protocol=262))
attempt("netlink", lambda: inet(socket.SOCK_RAW, socket.AF_NETLINK))
attempt("vsock", lambda: inet(family=40))
attempt("unix datagram", lambda: inet(socket.SOCK_DGRAM, socket.AF_UNIX))
attempt("datagram pair", lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))
attempt("connect", lambda: inet().connect(("127.0.0.1", port)))
attempt("connect any", lambda: inet().connect(("0.0.0.0", port)))
attempt("connect 6", lambda: inet(family=socket.AF_INET6).connect(("::ffff:127.0.0.1", port)))
attempt("connect out", lambda: inet().connect(("192.0.2.1", 80)))
attempt("fast open", lambda: inet().sendto(b"x", socket.MSG_FASTOPEN, ("127.0.0.1", port)))
attempt("bind", lambda: inet().bind(("127.0.0.1", 0)))
attempt("listen", lambda: inet().listen())
# Strict and loose source routes by way of 192.0.2.1; a device; another protocol on top.
attempt("source route", lambda: inet().setsockopt(0, 4, bytes([131, 7, 4, 192, 0, 2, 1, 0])))
attempt("strict source route", lambda: inet().setsockopt(0, 4, bytes([137, 7, 4, 192, 0, 2, 1, 0])))
attempt("device", lambda: inet().setsockopt(1, 25, b"lo\0"))
attempt("own options", lambda: (inet().setsockopt(6, 1, 1), inet().setsockopt(1, 9, 1), inet().setsockopt(0, 1, 16)))
asking = inet()
attempt("interfaces", lambda: call(16, asking.fileno(), 0x8912, ctypes.create_string_buffer(64)))


def unix():
    return socket.socket(socket.AF_UNIX)


attempt("abstract", lambda: unix().connect("\0" + abstract))
attempt("abstract bind", lambda: unix().bind("\0picktwo-inside"))
attempt("host socket", lambda: unix().connect(host + "/socket"))


def relative():
    # An address holds 108 bytes, and the path may be longer.
    here = os.getcwd()
    os.chdir(os.path.dirname(control))
    try:
        unix().connect(os.path.basename(control))
    finally:
        os.chdir(here)


attempt("control socket", relative)
attempt("host bind", lambda: unix().bind(host + "/made"))


def served():
    path = os.environ["TMPDIR"] + "/served"
    listening = unix()
    listening.bind(path)
    listening.listen()
    unix().connect(path)
    listening.accept()[0].close()


attempt("own socket", served)


def terminal():
    # As `openpty` without TIOCGPTPEER: the other end by its name.
    master = os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY)
    libc.unlockpt(master)
    end = os.open(os.ptsname(master) if hasattr(os, "ptsname") else name_of(master), os.O_RDWR | os.O_NOCTTY)
    os.write(end, b"x\n")
    os.read(master, 3)


def name_of(master):
    libc.ptsname.restype = ctypes.c_char_p
    return libc.ptsname(master).decode()


attempt("own terminal", terminal)
attempt("own terminal by libc", lambda: os.openpty())
attempt("host terminal", lambda: os.open(terminal_of_the_host, os.O_RDWR | os.O_NOCTTY))
attempt("host terminal to read", lambda: os.open(terminal_of_the_host, os.O_RDONLY | os.O_NOCTTY))
attempt("descriptor of a process", lambda: os.pidfd_open(pid))
child = os.fork()
if child == 0:
    os._exit(0)
time.sleep(0.1)
attempt("descriptor of an own process", lambda: os.pidfd_open(child))
os.waitpid(child, 0)

file = host + "/file"
attempt("read", lambda: read(file))
attempt("closed", lambda: read(host + "/closed"))
attempt("write", lambda: os.open(file, os.O_WRONLY))
attempt("create", lambda: os.open(host + "/created", os.O_WRONLY | os.O_CREAT, 0o600))
attempt("truncate", lambda: os.truncate(file, 0))
attempt("chmod", lambda: os.chmod(file, 0o777))
attempt("chown", lambda: os.chown(file, os.getuid(), os.getgid()))
attempt("times", lambda: os.utime(file, (1, 1)))
attempt("xattr", lambda: os.setxattr(file, "user.picktwo", b"x"))
attempt("chmod closed", lambda: os.chmod(host + "/closed", 0o777))
descriptor = os.open(file, os.O_RDONLY)
attempt("fchmod", lambda: os.fchmod(descriptor, 0o777))
attempt("ftimes", lambda: os.utime(descriptor, (1, 1)))
attempt("fxattr", lambda: os.setxattr(descriptor, "user.picktwo", b"x"))
attempt("fchmod by name", lambda: os.chmod(f"/proc/self/fd/{descriptor}", 0o777))
attempt("link", lambda: os.link(file, os.environ["TMPDIR"] + "/linked"))
attempt("rename", lambda: os.rename(file, host + "/other"))
attempt("unlink", lambda: os.unlink(file if os.path.exists(file) else host + "/other"))
attempt("device node", lambda: os.mknod(os.environ["TMPDIR"] + "/device", 0o020600, os.makedev(1, 5)))
attempt("own chmod", lambda: os.chmod(os.environ["TMPDIR"], 0o711))
attempt("own home", lambda: open(os.environ["HOME"] + "/made", "w").close())

# What the number means changes while the call is looked at: a memory file, whose mode may change, or the host's file.
memory, number = os.memfd_create("x"), 900
os.dup2(memory, number)
attempt("memory file", lambda: os.fchmod(number, 0o700))
stop = False


def swap():
    while not stop:
        os.dup2(descriptor, number)
        os.dup2(memory, number)


thread = threading.Thread(target=swap)
thread.start()
until = time.monotonic() + 1
while time.monotonic() < until:
    for change in [lambda: os.fchmod(number, 0o777), lambda: os.utime(number, (1, 1))]:
        try:
            change()
        except OSError:
            pass
stop = True
thread.join()
print("done: 0")
