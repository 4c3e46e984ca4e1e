# At a terminal: has the terminal signal another job (its process group: the first argument).
import os, signal, sys, termios, time

job, how = int(sys.argv[1]), sys.argv[2]
signal.signal(signal.SIGTTOU, signal.SIG_IGN)


def attempt(name, call, *arguments):
    try:
        call(*arguments)
        print(f"{how}: {name} works", flush=True)
        return True
    except OSError as error:
        print(f"{how}: {name}: {error.strerror}", flush=True)
        return False


if how == "interrupt":
    # The terminal's own answer to a question is the key that interrupts.
    settings = termios.tcgetattr(0)
    changed = termios.tcgetattr(0)
    changed[6][termios.VINTR] = b"["
    changed[3] &= ~termios.ECHO
    before = os.tcgetpgrp(0)
    termios.tcsetattr(0, termios.TCSANOW, changed)
    if attempt("tcsetpgrp", os.tcsetpgrp, 0, job):
        os.write(1, b"\x1b[6n")
        time.sleep(1)
        os.tcsetpgrp(0, before)
    termios.tcsetattr(0, termios.TCSANOW, settings)
else:
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        if attempt("setpgid", os.setpgid, 0, job):
            os.read(0, 1)
        os._exit(0)
    time.sleep(1)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
# What a session may do with its own groups.
own = os.fork()
if own == 0:
    time.sleep(20)
    os._exit(0)
os.setpgid(own, own)
before = os.tcgetpgrp(0)
attempt("own tcsetpgrp", os.tcsetpgrp, 0, own)
attempt("own foreground", lambda: (_ for _ in ()).throw(OSError(1, "no")) if os.tcgetpgrp(0) != own else None)
second = os.fork()
if second == 0:
    attempt("own setpgid", os.setpgid, 0, own)
    os._exit(0)
os.waitpid(second, 0)
if before:
    attempt("own return", os.tcsetpgrp, 0, before)
os.kill(own, signal.SIGKILL)
os.waitpid(own, 0)
print(f"{how}: tri" + "ed", flush=True)
