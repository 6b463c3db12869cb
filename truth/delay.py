# Holds each packet that a rule sends to queue 0 for so many milliseconds: delay.py MILLISECONDS
import collections, select, socket, struct, sys, time
delay = float(sys.argv[1]) / 1e3
s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)
s.bind((0, 0))
s.setsockopt(socket.SOL_SOCKET, 33, 1 << 24)  # SO_RCVBUFFORCE
def attr(kind, data): return struct.pack("=HH", 4 + len(data), kind) + data + b"\0" * (-len(data) % 4)
def message(kind, attrs, queue=0):
    body = struct.pack("=BBH", 0, 0, socket.htons(queue)) + attrs
    return struct.pack("=IHHII", 16 + len(body), 0x300 | kind, 1, 0, 0) + body
s.send(message(2, attr(1, struct.pack("!BxH", 1, 0))))
s.send(message(2, attr(2, struct.pack("!IB", 0, 1))))
s.send(message(2, attr(3, struct.pack("!I", 100000))))
held = collections.deque()
s.setblocking(False)
while True:
    wait = max(held[0][0] - time.monotonic(), 0) if held else 1
    if select.select([s], [], [], wait)[0]:
        now = time.monotonic()
        try:
            while True:
                data, at = s.recv(1 << 17), 0
                while at + 16 <= len(data):
                    length, kind = struct.unpack_from("=IH", data, at)
                    if kind == 0x300:
                        n, k = struct.unpack_from("=HH", data, at + 20)
                        if k == 1: held.append((now + delay, struct.unpack_from("!I", data, at + 24)[0]))
                    at += (length + 3) & ~3
        except BlockingIOError: pass
    now, last = time.monotonic(), None
    while held and held[0][0] <= now: last = held.popleft()[1]
    if last is not None: s.send(message(3, attr(2, struct.pack("!II", 1, last))))
