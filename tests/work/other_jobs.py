# A person at a terminal with a job in the background, who then runs what the arguments say (`{}` stands for the job). Says what
# became of the job: `ended`, `stopped` or `lives`.
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
        came = os.read(terminal, 4096)
        # As every terminal does, it answers where the cursor is.
        os.write(terminal, came.count(b"\x1b[6n") * b"\x1b[5;7R")
        seen += came.decode(errors="replace")
        sys.stdout.write(came.decode(errors="replace"))
    seen = seen[match.end():]
    return match


def type_in(text):
    os.write(terminal, text.encode())


expect("prompt> ")
type_in("sleep 987 & echo jo''b=$!.\r")
job = int(expect(r"job=(\d+)\.")[1])
expect("prompt> ")
type_in(sys.argv[1].replace("{}", str(job)) + "\r")
expect("tried")
expect("prompt> ")
try:
    state = open(f"/proc/{job}/stat").read().rsplit(")", 1)[1].split()[0]
except FileNotFoundError:
    state = "X"
print("\nbecame=" + {"X": "ended", "Z": "ended", "T": "stopped"}.get(state, "lives"), flush=True)
type_in("kill -KILL %1; exit\r")
