#!/usr/bin/env python3
"""landlock_abi.py N CMD...: runs a command for which the kernel has at most Landlock ABI N.

The question for the version is answered by a tracer; everything else about Landlock is the kernel's. x86-64 only.
"""
import ctypes
import os
import signal
import struct
import sys

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.restype = ctypes.c_long
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]

CONT, GETREGS, SETREGS, SEIZE, LISTEN = 7, 12, 13, 0x4206, 0x4208
# fork, vfork, clone, seccomp; the command ends with its tracer
OPTIONS = 0x2 | 0x4 | 0x8 | 0x80 | 0x100000
EVENT_SECCOMP, EVENT_STOP = 7, 128
CREATE_RULESET, VERSION = 444, 1
# struct user_regs_struct: rbp ... rax is the 11th, orig_rax the 16th
RAX, ORIG_RAX = 10, 15


def ptrace(request, pid, data=0):
    if libc.ptrace(request, pid, None, ctypes.c_void_p(data)) == -1:
        raise OSError(ctypes.get_errno(), "ptrace")


def trace_version_questions():
    """A filter that asks the tracer when a ruleset call has flags."""
    instruction = struct.Struct("=HBBI")
    program = b"".join(
        instruction.pack(*i)
        for i in [
            (0x20, 0, 0, 0),  # number
            (0x15, 0, 3, CREATE_RULESET),
            (0x20, 0, 0, 32),  # third argument, low half
            (0x15, 0, 1, VERSION),
            (0x06, 0, 0, 0x7FF00000),  # trace
            (0x06, 0, 0, 0x7FFF0000),  # allow
        ]
    )
    code = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code))
    pointer = ctypes.create_string_buffer(header, len(header))
    libc.prctl.argtypes = [ctypes.c_int] + [ctypes.c_void_p] * 4
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.addressof(pointer), 0, 0):
        raise OSError(ctypes.get_errno(), "seccomp")


def answer(pid, most):
    registers = (ctypes.c_ulong * 27)()
    ptrace(GETREGS, pid, ctypes.addressof(registers))
    # Ask the kernel itself, which this process may, and lower what it says.
    found = libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), VERSION)
    registers[ORIG_RAX] = ctypes.c_ulong(-1).value
    registers[RAX] = min(found, most) if found > 0 else ctypes.c_ulong(-95).value
    ptrace(SETREGS, pid, ctypes.addressof(registers))


def main():
    most, command = int(sys.argv[1]), sys.argv[2:]
    ready, go = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(go)
        os.read(ready, 1)
        os.close(ready)
        trace_version_questions()
        os.execvp(command[0], command)
    os.close(ready)
    ptrace(SEIZE, child, OPTIONS)
    os.write(go, b"x")
    os.close(go)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda n, _: os.kill(child, n))
    while True:
        try:
            pid, status = os.waitpid(-1, 0x40000000)
        except InterruptedError:
            continue
        except ChildProcessError:
            return 125
        if not os.WIFSTOPPED(status):
            if pid == child:
                return os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
            continue
        event, number = status >> 16, os.WSTOPSIG(status)
        try:
            if event == EVENT_SECCOMP:
                answer(pid, most)
            if event == EVENT_STOP and number != signal.SIGTRAP:
                ptrace(LISTEN, pid)
            else:
                ptrace(CONT, pid, 0 if event else number)
        except OSError:
            pass  # it was killed meanwhile


sys.exit(main())
