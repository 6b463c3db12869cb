# Sends SYNs from addresses of 127.9.0.0/16 and never completes a connection: syns.py PORT
import socket, struct, sys, time, random
port = int(sys.argv[1])
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
def ck(b):
    t = sum(struct.unpack("!%dH" % (len(b) // 2), b)); t = (t >> 16) + (t & 0xffff); t += t >> 16
    return ~t & 0xffff
while True:
    for _ in range(20):
        src = bytes([127, 9, random.randrange(256), random.randrange(1, 255)]); dst = bytes([127, 0, 0, 1])
        tcp = struct.pack("!HHIIBBHHH", random.randrange(1024, 65535), port, random.randrange(2**32), 0, 0x50, 2, 65535, 0, 0)
        c = ck(src + dst + struct.pack("!BBH", 0, 6, len(tcp)) + tcp)
        tcp = tcp[:16] + struct.pack("!H", c) + tcp[18:]
        ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 40, 0, 0, 64, 6, 0, src, dst)
        s.sendto(ip + tcp, ("127.0.0.1", port))
    time.sleep(0.05)
