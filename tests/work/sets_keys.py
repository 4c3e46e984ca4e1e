# At a terminal: chooses the key that interrupts, and has the terminal answer with it. Then what programs do to terminals.
import os, pty, signal, sys, termios, time, tty

signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
before = termios.tcgetattr(0)
changed = termios.tcgetattr(0)
changed[6][termios.VINTR] = b"["
changed[3] &= ~termios.ECHO
termios.tcsetattr(0, termios.TCSANOW, changed)
os.write(2, b"\x1b[6n")
time.sleep(1)
now = termios.tcgetattr(0)
print("echo", bool(now[3] & termios.ECHO), "key", now[6][termios.VINTR], file=sys.stderr)
termios.tcsetattr(0, termios.TCSAFLUSH, before)
print("same", termios.tcgetattr(0) == before, file=sys.stderr)
with open("/dev/tty") as controlling:
    tty.setcbreak(controlling)
    print("by name", not termios.tcgetattr(0)[3] & termios.ICANON, file=sys.stderr)
termios.tcsetattr(0, termios.TCSADRAIN, before)
# A terminal of its own: by its end, by its master, by its name, with any key.
master, end = pty.openpty()
for name, fd in (("end", end), ("master", master)):
    own = termios.tcgetattr(end)
    own[6][termios.VINTR] = b"[" if name == "end" else b"]"
    termios.tcsetattr(fd, termios.TCSANOW, own)
    print(name, termios.tcgetattr(end)[6][termios.VINTR], file=sys.stderr)
child = os.fork()
if child == 0:
    os.login_tty(end)
    with open("/dev/tty") as controlling:
        own = termios.tcgetattr(controlling)
        own[6][termios.VINTR] = b"!"
        termios.tcsetattr(controlling, termios.TCSANOW, own)
    os._exit(0)
os.waitpid(child, 0)
print("own name", termios.tcgetattr(end)[6][termios.VINTR], file=sys.stderr)
try:
    termios.tcsetattr(os.open("/dev/null", os.O_RDWR), termios.TCSANOW, before)
except termios.error as error:
    print("null", error.args[1], file=sys.stderr)
print("tri" + "ed", file=sys.stderr, flush=True)
