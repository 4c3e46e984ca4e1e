# What programs do with files beyond the shell's tools. Prints what each step gave; the tree is compared afterwards.
import array, errno, fcntl, mmap, os, socket, stat, struct, subprocess, sys, threading, ctypes

libc = ctypes.CDLL(None, use_errno=True)
AT_FDCWD = -100


def step(name):
    def do(f):
        try:
            got = f()
        except OSError as e:
            got = errno.errorcode.get(e.errno, e.errno)
        print(name, "->", got, flush=True)

    return do


def put(path, text):
    with open(path, "w") as f:
        f.write(text)


def get(path):
    with open(path) as f:
        return f.read()


def renameat2(a, b, flags):
    if libc.renameat2(AT_FDCWD, os.fsencode(a), AT_FDCWD, os.fsencode(b), flags) != 0:
        raise OSError(ctypes.get_errno(), "renameat2")


@step("O_TMPFILE, linked")
def _():
    fd = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o640)
    os.write(fd, b"born nameless")
    # os.link does not ask to follow the link where that is its default.
    if libc.linkat(AT_FDCWD, f"/proc/self/fd/{fd}".encode(), AT_FDCWD, b"named", 0x400) != 0:
        raise OSError(ctypes.get_errno(), "linkat")
    os.close(fd)
    return get("named"), oct(os.stat("named").st_mode)


@step("rename exchange")
def _():
    put("x", "1"); put("y", "2")
    renameat2("x", "y", 2)
    return get("x"), get("y")


@step("rename noreplace")
def _():
    renameat2("x", "y", 1)


@step("exchange of a file and a directory")
def _():
    os.mkdir("dir"); put("dir/inner", "i"); put("plain", "p")
    renameat2("dir", "plain", 2)
    return sorted(os.listdir("plain")), get("dir")


@step("names that are no UTF-8")
def _():
    os.mkdir(b"\xff\xfe dir")
    with open(b"\xff\xfe dir/\x80\n\t", "wb") as f:
        f.write(b"bytes")
    os.rename(b"\xff\xfe dir/\x80\n\t", b"\xff\xfe dir/\xc3\x28")
    return os.listdir(b"\xff\xfe dir")


@step("the longest name")
def _():
    put("n" * 255, "long")
    return len(get("n" * 255))


@step("a longer name")
def _():
    put("n" * 256, "too long")


@step("a path of 3,500 bytes, relative to where one is")
def _():
    back = os.open(".", os.O_RDONLY)
    for k in range(17):
        os.mkdir("p" * 200); os.chdir("p" * 200)
    put("deep", "down")
    os.rename("deep", "deeper")
    os.fchdir(back)
    return os.path.getsize("/".join(["p" * 200] * 17) + "/deeper")


@step("relative to a descriptor")
def _():
    fd = os.open("plain", os.O_RDONLY | os.O_DIRECTORY)
    os.mkdir("sub", dir_fd=fd, mode=0o751)
    os.symlink("../nowhere", "dangling", dir_fd=fd)
    f = os.open("sub/new", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o604, dir_fd=fd)
    os.fchmod(f, 0o444)
    os.utime(f, (1000000000, 1100000000))
    os.close(f)
    os.rename("sub/new", "moved", src_dir_fd=fd, dst_dir_fd=fd)
    os.rmdir("sub", dir_fd=fd)
    return sorted(os.listdir("plain"))


@step("times of a link itself")
def _():
    os.symlink("x", "link")
    os.utime("link", (1000000000, 1200000000), follow_symlinks=False)
    return os.lstat("link").st_mtime


@step("exclusive creation of what exists")
def _():
    os.open("x", os.O_CREAT | os.O_EXCL | os.O_WRONLY)


@step("creation through a dangling link")
def _():
    os.symlink("made-by-link", "to-be")
    put("to-be", "through")
    return get("made-by-link")


@step("a loop of links")
def _():
    os.symlink("loop-b", "loop-a"); os.symlink("loop-a", "loop-b")
    put("loop-a", "never")


@step("a shared mapping")
def _():
    put("mapped", "." * 8192)
    fd = os.open("mapped", os.O_RDWR)
    with mmap.mmap(fd, 8192) as m:
        m[4090:4100] = b"0123456789"
        m.flush()
    os.close(fd)
    return get("mapped")[4088:4102]


@step("holes, preallocation, truncation")
def _():
    fd = os.open("sparse", os.O_CREAT | os.O_RDWR, 0o644)
    os.pwrite(fd, b"end", 1 << 20)
    os.posix_fallocate(fd, 0, 4096)
    os.ftruncate(fd, (1 << 20) + 1)
    os.close(fd)
    os.truncate("sparse", (1 << 20) + 2)
    return os.path.getsize("sparse")


@step("appending from 8 threads")
def _():
    def work(k):
        for i in range(50):
            fd = os.open("log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            os.write(fd, b"line of a fixed size\n")
            os.close(fd)
            os.mkdir(f"lock{k}"); os.rmdir(f"lock{k}")

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    [t.start() for t in threads]; [t.join() for t in threads]
    return get("log").count("\n")


@step("locks between processes")
def _():
    fd = os.open("locked", os.O_CREAT | os.O_RDWR, 0o644)
    fcntl.lockf(fd, fcntl.LOCK_EX)
    child = subprocess.run([sys.executable, "-c", "import fcntl,os\nfd=os.open('locked',os.O_RDWR)\ntry:\n fcntl.lockf(fd,fcntl.LOCK_EX|fcntl.LOCK_NB)\n print('got it')\nexcept BlockingIOError: print('busy')"], capture_output=True, text=True)
    os.close(fd)
    return child.stdout.strip()


@step("a FIFO in both orders")
def _():
    os.mkfifo("fifo", 0o620)
    got = []
    for order in (0, 1):
        def reader():
            with open("fifo") as f:
                got.append(f.read())
        def writer():
            with open("fifo", "w") as f:
                f.write(f"word {order}")
        t = threading.Thread(target=reader if order == 0 else writer); t.start()
        (writer if order == 0 else reader)()
        t.join()
    return got, oct(os.stat("fifo").st_mode)


@step("a FIFO without a reader")
def _():
    os.open("fifo", os.O_WRONLY | os.O_NONBLOCK)


@step("a UNIX socket in the workspace")
def _():
    s = socket.socket(socket.AF_UNIX)
    s.bind("sock"); s.listen()
    c = socket.socket(socket.AF_UNIX); c.connect("sock")
    a, _ = s.accept(); a.send(b"hello")
    got = c.recv(10)
    os.chmod("sock", 0o700)
    return got, stat.S_ISSOCK(os.stat("sock").st_mode)


@step("a second bind to it")
def _():
    socket.socket(socket.AF_UNIX).bind("sock")


@step("hard links")
def _():
    os.link("x", "x2"); os.link("x2", "plain/x3")
    return os.stat("x").st_nlink


@step("extended attributes")
def _():
    os.setxattr("x", "user.note", b"kept"); os.setxattr("y", "user.gone", b"1"); os.removexattr("y", "user.gone")
    return os.listxattr("x"), os.getxattr("x", "user.note"), os.listxattr("y")


@step("umask")
def _():
    modes = []
    for mask in (0o000, 0o027, 0o077, 0o777):
        os.umask(mask)
        name = f"umask-{mask:03o}"
        os.close(os.open(name, os.O_CREAT | os.O_WRONLY, 0o666)); os.mkdir(name + "-d", 0o777); os.mkfifo(name + "-f", 0o666)
        modes += [oct(os.stat(name + s).st_mode & 0o7777) for s in ("", "-d", "-f")]
        if mask == 0o777:
            # Whoever compares has to be able to read.
            [os.chmod(name + s, 0o700) for s in ("", "-d", "-f")]
    os.umask(0o022)
    return modes


# Not of files: a session gives nobody's identity away.
@step("set-id and sticky bits of a directory")
def _():
    os.mkdir("shared"); os.chmod("shared", 0o3775); put("shared/f", ""); os.chmod("shared/f", 0o1755)
    put("shared/g", "")
    return oct(os.stat("shared").st_mode), oct(os.stat("shared/f").st_mode), os.stat("shared/g").st_gid == os.stat("shared").st_gid


@step("a read-only file and directory")
def _():
    put("readonly", "r"); os.chmod("readonly", 0o444)
    os.open("readonly", os.O_WRONLY)


@step("creation in a read-only directory")
def _():
    os.mkdir("closed"); os.chmod("closed", 0o555)
    put("closed/f", "")


@step("a removed directory one stands in")
def _():
    os.mkdir("gone"); back = os.open(".", os.O_RDONLY); os.chdir("gone"); os.rmdir("../gone")
    try:
        put("f", "")
    finally:
        os.fchdir(back)


@step("renames that cannot be")
def _():
    codes = []
    os.mkdir("e1"); os.makedirs("e2/full")
    for a, b in (("absent", "z"), ("e1", "e2"), ("e2", "e2/full/below"), ("x", "e1"), ("e1", "x"), ("x/under", "z")):
        try:
            os.rename(a, b); codes.append("done")
        except OSError as e:
            codes.append(errno.errorcode[e.errno])
    return codes


@step("trailing slashes")
def _():
    codes = []
    for f in (lambda: os.mkdir("slash/"), lambda: os.rmdir("slash/"), lambda: put("slash/", ""), lambda: os.unlink("x/"), lambda: os.symlink("x", "y2/")):
        try:
            f(); codes.append("done")
        except OSError as e:
            codes.append(errno.errorcode[e.errno])
    return codes


@step("the name of a descriptor")
def _():
    with open("y", "r+") as f:
        return os.path.relpath(os.readlink(f"/proc/self/fd/{f.fileno()}")), get(f"/proc/self/fd/{f.fileno()}")


@step("writing and running a program, 100 times")
def _():
    failed = 0
    for i in range(100):
        fd = os.open("prog", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o755)
        os.write(fd, b"#!/bin/sh\nexit 0\n")
        os.close(fd)
        failed += subprocess.call(["./prog"]) != 0
    return failed


@step("flags of a descriptor")
def _():
    fd = os.open("x", os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK)
    return oct(fcntl.fcntl(fd, fcntl.F_GETFL) & 0o7777), fcntl.fcntl(fd, fcntl.F_GETFD), os.get_inheritable(fd)


@step("one descriptor too many")
def _():
    import resource
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
    fds = []
    try:
        while True:
            fds.append(os.open("x", os.O_WRONLY))
    finally:
        [os.close(fd) for fd in fds]
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@step("what may be written, as access tells")
def _():
    return [os.access(p, os.W_OK) for p in ("x", "readonly", ".", "closed", "/usr/bin")]


os.chmod("closed", 0o755)
