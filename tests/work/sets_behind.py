# A person at a terminal starts in the background what the argument says, which sets the terminal: it stops, and goes on in the foreground.
import os, pty, re, select, sys, time

pid, terminal = pty.fork()
if pid == 0:
    os.environ["PS1"] = "prompt> "
    os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])

seen = ""


def expect(pattern, seconds=20):
    global seen
    until = time.time() + seconds
    while not (match := re.search(pattern, seen)):
        if time.time() > until or not select.select([terminal], [], [], max(0, until - time.time()))[0]:
            sys.exit(f"{pattern!r} never came; on the screen:\n{seen}")
        seen += os.read(terminal, 4096).decode(errors="replace")
    seen = seen[match.end():]


def type_in(text):
    os.write(terminal, text.encode())


expect("prompt> ")
type_in(f"{sys.argv[1]} sh -c 'echo beg\"\"ins; stty -echo; echo code=$?; stty echo' &\r")
expect("begins")
time.sleep(1)
if "code=" in seen:
    sys.exit(f"it did not stop:\n{seen}")
type_in("jobs\r")
expect("Stopped")
type_in("fg\r")
expect("code=0")
expect("prompt> ")
print("done", flush=True)
type_in("exit\r")
