# Holds files of the workspace open for writing in three ways, then writes through each when asked.
import array, mmap, os, socket, sys

way = sys.argv[1]
fd = os.open(f"{way}.txt", os.O_RDWR)
if way == "mapping":
    kept = mmap.mmap(fd, 4096)
    os.close(fd)
elif way == "parked":
    kept = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    kept[0].sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))])
    os.close(fd)
print("holding", flush=True)
for line in sys.stdin:
    if way == "mapping":
        kept[0:4] = b"late"
    elif way == "descriptor":
        os.pwrite(fd, b"late", 0)
    print("wrote", flush=True)
