# Has the kernel send SIGHUP and SIGCONT to the process group that this process began in: the group loses its last link to a process
# outside of it while one of its members is stopped.
import os, signal, sys, time

signal.signal(signal.SIGHUP, signal.SIG_IGN)
group = int(sys.argv[1])


def attempt(name, call, *arguments):
    try:
        call(*arguments)
        print(name, "works", flush=True)
    except OSError as error:
        print(name, error.strerror, flush=True)


attempt("kill", os.kill, group, 0)
attempt("killpg", os.killpg, group, 0)
parent = os.fork()
if parent == 0:
    if os.fork() == 0:
        try:
            os.setpgid(0, group)
        except OSError:
            pass
        os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(0)
    time.sleep(0.5)
    os.setpgid(0, 0)
    os._exit(0)
os.waitpid(parent, 0)
time.sleep(0.5)
print("tried", flush=True)
