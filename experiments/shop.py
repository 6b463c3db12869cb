"""A small shop for experiments/data.toml: users log in, look at items, and order, over HTTP and JSON.

Python's own HTTP server, a thread for each connection, and SQLite in memory behind one lock. A user's password is "secret N" for
"user-N". What is not right is answered with its status: 401 without a token that was given, 400 for what is no JSON.
"""

import http.server
import json
import secrets
import sqlite3
import sys
import threading
import urllib.parse

LOCK = threading.Lock()
DATABASE = sqlite3.connect(":memory:", check_same_thread=False)
DATABASE.executescript(
    """
    CREATE TABLE users(name PRIMARY KEY, password);
    CREATE TABLE tokens(token PRIMARY KEY, name);
    CREATE TABLE items(id PRIMARY KEY, title);
    CREATE TABLE orders(id INTEGER PRIMARY KEY, item, name);
    """
)
DATABASE.executemany("INSERT INTO users VALUES (?, ?)", [(f"user-{n}", f"secret {n}") for n in range(1, 1001)])
DATABASE.executemany("INSERT INTO items VALUES (?, ?)", [(n, f"item {n}") for n in range(1, 101)])


def ask(sql, *values):
    with LOCK:
        return DATABASE.execute(sql, values).fetchall()


class Shop(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # A reply leaves in one piece: in two, the second would wait for the acknowledgement of the first.
    wbufsize = 65536

    def user(self):
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        found = ask("SELECT name FROM tokens WHERE token = ?", token)
        return found[0][0] if found else None

    def reply(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        path = urllib.parse.urlsplit(self.path)
        if path.path != "/items":
            return self.reply(404, {"state": "there is no such page"})
        if not self.user():
            return self.reply(401, {"state": "log in first"})
        page = int(urllib.parse.parse_qs(path.query).get("page", ["1"])[0])
        items = ask("SELECT id, title FROM items ORDER BY id LIMIT 10 OFFSET ?", 10 * (page - 1))
        self.reply(200, {"state": "fine", "items": [{"id": number, "title": title} for number, title in items]})

    def do_POST(self):
        try:
            asked = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        except ValueError:
            return self.reply(400, {"state": "that is no JSON"})
        if self.path == "/login":
            name = asked.get("name")
            if not ask("SELECT 1 FROM users WHERE name = ? AND password = ?", name, asked.get("password")):
                return self.reply(401, {"state": "no such user, or another password"})
            token = secrets.token_hex(16)
            ask("INSERT INTO tokens VALUES (?, ?)", token, name)
            return self.reply(200, {"token": token})
        name = self.user()
        if self.path != "/orders" or not name:
            return self.reply(404 if name else 401, {"state": "log in first"})
        ask("INSERT INTO orders(item, name) VALUES (?, ?)", asked.get("item"), name)
        self.reply(201, {"state": "ordered", "for": name})

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


Server(("127.0.0.1", int(sys.argv[1])), Shop).serve_forever()
