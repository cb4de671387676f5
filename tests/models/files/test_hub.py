"""The hub, asked over HTTP: a server on loopback that has one model, and notes what it is asked for."""

import hashlib
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from saved_models import saved, tiny_language_model

NAME, COMMIT = "someone/tiny", "a" * 40


class Hub(ThreadingHTTPServer):
    """As much of the hub's protocol as a download uses: the list of files, and each of them."""

    def __init__(self, folder):
        self.asked = asked = []
        files = {path.name: path.read_bytes() for path in folder.iterdir()}

        class Answer(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_HEAD(self):
                self.do_GET()

            def do_GET(self):
                asked.append(self.path)
                if self.path.startswith(f"/api/models/{NAME}/tree/"):
                    entries = [
                        {"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
                        for name, data in files.items()
                    ]
                    self._send(200, json.dumps(entries).encode(), {"Content-Type": "application/json"})
                    return
                if self.path.startswith(f"/api/models/{NAME}"):
                    listed = [{"rfilename": name} for name in files]
                    about = {
                        "id": NAME,
                        "sha": COMMIT,
                        "siblings": listed,
                        "private": False,
                        "tags": [],
                        "downloads": 0,
                    }
                    self._send(200, json.dumps(about).encode(), {"Content-Type": "application/json"})
                    return
                name = self.path.removeprefix(f"/{NAME}/resolve/{COMMIT}/")
                if name not in files:
                    self._send(404, b"", {"X-Error-Code": "EntryNotFound"})
                    return
                etag = f'"{hashlib.sha256(files[name]).hexdigest()}"'
                self._send(200, files[name], {"ETag": etag, "X-Repo-Commit": COMMIT})

            def _send(self, status, body, headers):
                self.send_response(status)
                for key, value in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(key, value)
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(body)

            def log_message(self, *_):
                pass

        super().__init__(("127.0.0.1", 0), Answer)
        threading.Thread(target=self.serve_forever, daemon=True).start()


@pytest.fixture
def hub(tmp_path):
    pytest.importorskip("huggingface_hub", reason="downloading needs the extra audit")
    folder = saved(tiny_language_model("llama"), tmp_path / "model")
    (folder / "pytorch_model.bin").write_bytes(b"a pickle")
    (folder / "modeling_tiny.py").write_text("raise SystemExit('code of a model was run')")
    with Hub(folder) as server:
        yield server
        server.shutdown()


def rankwise(hub, home, *arguments):
    """The command in a process of its own, to which the server is the hub."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    environment |= {
        "HF_ENDPOINT": f"http://127.0.0.1:{hub.server_port}",
        "HF_HOME": str(home),
        "HF_HUB_DISABLE_XET": "1",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    command = [sys.executable, "-m", "rankwise", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, cwd=home.parent)


def test_nothing_is_asked_of_the_hub_unless_a_download_is(hub, tmp_path):
    refused = rankwise(hub, tmp_path / "hub", "audit", NAME, "--json")
    assert refused.returncode == 2
    assert "--download" in refused.stderr
    assert hub.asked == []


def test_a_download_fetches_numbers_and_json_and_no_code(hub, tmp_path):
    done = rankwise(hub, tmp_path / "hub", "audit", NAME, "--download", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["model"] == NAME
    fetched = {path.rpartition("/")[2] for path in hub.asked if "/resolve/" in path}
    assert {"config.json", "model.safetensors"} <= fetched
    assert not {name for name in fetched if not name.endswith((".json", ".safetensors"))}
    again = rankwise(hub, tmp_path / "hub", "audit", NAME, "--json")
    assert again.returncode == 2, "what was fetched is not looked for by its name"


def test_a_hub_that_does_not_answer_is_a_message(hub, tmp_path):
    hub.shutdown()
    hub.server_close()
    failed = rankwise(hub, tmp_path / "hub", "audit", NAME, "--download", "--json")
    assert failed.returncode == 2
    assert "expected a model on the Hugging Face hub" in failed.stderr
    assert "Traceback" not in failed.stderr
