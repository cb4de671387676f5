"""A small imitation of the Hugging Face hub on loopback: one model that is free, one that is gated, no others."""

import hashlib
import json
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"
FREE, GATED = "someone/free", "someone/gated"


@contextmanager
def hub_of(folder):
    """The imitation with the files of ``folder`` in both models: its address, and the paths it was asked for."""
    asked = []

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self):
            path = unquote(urlsplit(self.path).path)
            asked.append(path)
            if not path.removeprefix("/api/models").startswith((f"/{FREE}/", f"/{GATED}/")):
                return self.refuse(404, "RepoNotFound")
            if path.startswith("/api/models/"):
                return self.about(path)
            return self.file(path)

        do_HEAD = do_GET  # noqa: N815

        def about(self, path):
            what, _, revision = path.rpartition("/")
            if revision not in ("main", COMMIT):
                return self.refuse(404, "RevisionNotFound")
            if what.endswith("/revision"):
                name = what.removeprefix("/api/models/").removesuffix("/revision")
                return self.send(json.dumps({"id": name, "sha": COMMIT, "siblings": []}).encode())
            files = [file for file in sorted(folder.rglob("*")) if file.is_file()]
            tree = [
                {
                    "type": "file", "path": file.relative_to(folder).as_posix(), "size": file.stat().st_size,
                    "oid": hashlib.sha1(file.read_bytes()).hexdigest(),
                }
                for file in files
            ]  # fmt: skip
            return self.send(json.dumps(tree).encode())

        def file(self, path):
            name, _, wanted = path.partition(f"/resolve/{COMMIT}/")
            if name == f"/{GATED}":
                return self.refuse(403, "GatedRepo")
            return self.send((folder / wanted).read_bytes())

        def send(self, body):
            self.send_response(200)
            self.send_header("ETag", f'"{hashlib.sha1(body).hexdigest()}"')
            self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def refuse(self, status, code):
            self.send_response(status)
            self.send_header("X-Error-Code", code)
            self.send_header("X-Error-Message", code)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
