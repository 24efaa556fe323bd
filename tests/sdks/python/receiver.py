"""A receiver on loopback that keeps the requests it gets and answers with a status per path."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# How long a delivery may take to arrive, in seconds.
TIMEOUT = 60


class Delivery:
    def __init__(self, path, headers, body):
        self.path = path
        self.headers = headers
        self.body = body


class Receiver:
    def __init__(self):
        self.deliveries = []
        self.statuses = {}
        self.changed = threading.Condition()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                with receiver.changed:
                    status = receiver.statuses.get(self.path, 200)
                    receiver.deliveries.append(Delivery(self.path, dict(self.headers.items()), body))
                    receiver.changed.notify_all()
                self.send_response(status)
                self.send_header("content-length", "2")
                self.end_headers()
                self.wfile.write(b"ok")

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def url(self, path):
        return f"http://127.0.0.1:{self.server.server_address[1]}{path}"

    def answer(self, path, status):
        with self.changed:
            self.statuses[path] = status

    def of(self, path, message_id):
        """The deliveries of a message to a path so far."""
        return [one for one in self.deliveries if one.path == path and one.headers.get("webhook-id") == message_id]

    def wait_for(self, path, message_id, count=1):
        """Waits until a message has arrived this many times, and returns its deliveries."""
        with self.changed:
            arrived = self.changed.wait_for(lambda: len(self.of(path, message_id)) >= count, timeout=TIMEOUT)
            assert arrived, f"{message_id} arrived {len(self.of(path, message_id))} of {count} times at {path}"
            return self.of(path, message_id)
