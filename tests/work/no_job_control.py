# A terminal without a shell with job control (ssh -t host script, docker run -t image script): a script starts picktwo and goes on.
import fcntl, os, pty, re, select, struct, sys, termios, time

picktwo = sys.argv[1]
inside = 'trap "echo wi""dth; stty size" WINCH; trap "echo caug""ht; exit 9" INT; echo rea""dy; while :; do sleep 0.05; done'
script = f"trap 'echo script-interrup''ted' INT; '{picktwo}' run -- sh -c '{inside}'; echo code=$?; read x; echo got=$x"
pid, terminal = pty.fork()
if pid == 0:
    os.execvp("sh", ["sh", "-c", script])

seen = ""


def expect(pattern, seconds=20):
    global seen
    until = time.time() + seconds
    while not (match := re.search(pattern, seen)):
        if time.time() > until or not select.select([terminal], [], [], max(0, until - time.time()))[0]:
            sys.exit(f"{pattern!r} never came; on the screen:\n{seen}")
        seen += os.read(terminal, 4096).decode(errors="replace")
    seen = seen[match.end():]


expect("ready")
fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 44, 120, 0, 0))
expect("width\r\n44 120")
# Nobody could continue what this would stop.
os.write(terminal, b"\x1a")
time.sleep(0.3)
os.write(terminal, b"\x03")
expect("caught")
expect("script-interrupted")
expect("code=9")
os.write(terminal, b"word\r")
expect("got=word")
print("done", flush=True)
