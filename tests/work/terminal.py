# A person at a terminal: an interactive shell in which picktwo is started, stopped, continued, interrupted and resized.
import fcntl, os, pty, re, select, signal, struct, sys, termios, time

picktwo = sys.argv[1]
pid, terminal = pty.fork()
if pid == 0:
    os.environ["PS1"] = "prompt> "
    os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])

seen = ""


def resize(rows, columns):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def expect(pattern, seconds=20):
    global seen
    until = time.time() + seconds
    while True:
        match = re.search(pattern, seen)
        if match:
            seen = seen[match.end():]
            return match
        if time.time() > until or not select.select([terminal], [], [], max(0, until - time.time()))[0]:
            sys.exit(f"{pattern!r} never came; on the screen:\n{seen}")
        seen += os.read(terminal, 4096).decode(errors="replace")


def type_in(text):
    os.write(terminal, text.encode())


def session(script):
    type_in(f"'{picktwo}' run -- sh -c '{script}'\r")


expect("prompt> ")
resize(33, 101)
# What is typed appears on the screen, too: the words that are waited for are never typed as such.
session('stty size; tty; trap "stty size; exit 9" WINCH; echo rea""dy; while :; do sleep 0.05; done')
expect("33 101")
expect("/dev/")
expect("ready")
resize(44, 120)
expect("44 120")
expect("prompt> ")
type_in("echo code=$?\r")
expect("code=9")
print("window size", flush=True)

session('echo wai""ting; read word; echo got=$word')
expect("waiting")
type_in("\x1a")
expect("Stopped")
expect("prompt> ")
type_in("jobs | wc -l; echo ali''ve\r")
expect("1\r\n.*alive")
expect("prompt> ")
type_in("fg\r")
time.sleep(0.3)
type_in("again\r")
expect("got=again")
expect("prompt> ")
type_in("echo code=$?\r")
expect("code=0")
print("stop and continue", flush=True)

session('n=0; trap "n=\\$((n+1)); echo caug\\"\\"ht \\$n" INT; echo rea""dy; while [ $n -lt 2 ]; do sleep 0.05; done; exit 4')
expect("ready")
type_in("\x03")
expect("caught 1")
time.sleep(0.3)
if "caught" in seen:
    sys.exit("one interrupt arrived twice")
type_in("\x03")
expect("caught 2")
expect("prompt> ")
type_in("echo code=$?\r")
expect("code=4")
print("interrupt", flush=True)

session("sleep 1000")
time.sleep(1)
type_in("\x03")
expect("prompt> ")
type_in("echo code=$?\r")
expect("code=130")
print("death by interrupt", flush=True)

type_in(f"'{picktwo}' run -- sh -c 'echo from-beh''ind; sleep 0.2; read x; echo nev''er' &\r")
expect("from-behind")
time.sleep(0.8)
type_in("jobs\r")
expect("Stopped")
type_in("kill -9 %1; exit\r")
print("a background job that reads the terminal stops", flush=True)
os.close(terminal)
