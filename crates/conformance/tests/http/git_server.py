"""Serves the git repositories below a folder over HTTP, through `git http-backend`, as web servers do.

Usage: git_server.py FOLDER [USER:PASSWORD]. Prints its port. With a password, it requires it. Paths below /slow/ are
answered, and then never completed. Paths below /moved/ are redirected to the port in the environment MOVED_TO.
Paths below /echo/ fail with a text that contains the user and the password of the request.
"""

import base64
import http.server
import os
import subprocess
import sys
import threading

FOLDER = sys.argv[1]
EXPECTED = "Basic " + base64.b64encode(sys.argv[2].encode()).decode() if len(sys.argv) > 2 else None


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"

    def log_message(self, *args):
        given = self.headers.get("Authorization") if hasattr(self, "headers") else None
        with open(os.path.join(FOLDER, "requests"), "a", encoding="utf-8") as file:
            file.write(f"{self.requestline} {'with' if given else 'without'}\n")

    def respond(self):
        path, _, query = self.path.partition("?")
        if path.startswith("/slow/"):
            self.send_response(200)
            self.send_header("Content-Type", "application/x-git-upload-pack-advertisement")
            self.send_header("Content-Length", "1000000")
            self.end_headers()
            self.wfile.write(b"001e# service=git-upload-pack\n")
            self.wfile.flush()
            threading.Event().wait()
        if path.startswith("/moved/"):
            self.send_response(302)
            self.send_header("Location", f"http://127.0.0.1:{os.environ['MOVED_TO']}/{path[7:]}?{query}")
            self.end_headers()
            return
        if EXPECTED and self.headers.get("Authorization") != EXPECTED:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
            self.end_headers()
            return
        if path.startswith("/echo/"):
            given = base64.b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()
            text = f"you are {given}, in {self.headers['Authorization']}\n".encode()
            self.send_response(500)
            self.send_header("Content-Type", "text/plain")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)
            return
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        env = {
            **os.environ,
            "GIT_PROJECT_ROOT": FOLDER,
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(length),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "REMOTE_ADDR": self.client_address[0],
            "REMOTE_USER": "user",
        }
        done = subprocess.run(["git", "http-backend"], input=body, env=env, stdout=subprocess.PIPE, check=False)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        status, headers = 200, []
        for line in head.decode().split("\r\n"):
            name, _, value = line.partition(": ")
            if name == "Status":
                status = int(value.split()[0])
            elif name:
                headers.append((name, value))
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = respond


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
print(server.server_address[1], flush=True)
server.serve_forever()
