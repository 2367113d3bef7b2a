"""A registry of models on the loopback address: what Ollama's does, for clients that pull and push."""

import hashlib
import http.server
import json
import re
import threading


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


class Registry(http.server.ThreadingHTTPServer):
    """What Ollama's registry does, for clients that pull and push."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.blobs, self.manifests, self.types, self.sent = {}, {}, {}, 0
        self.host = f"127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        """A client that goes away is no news."""

    def add_model(self, name, layers):
        config = json.dumps({"model_format": "gguf", "model_family": "llama"}).encode()
        entries = []
        for kind, data in [*layers, ("config", config)]:
            self.blobs[digest(data)] = data
            media = "application/vnd.ollama.image." + kind
            if kind == "config":
                media = "application/vnd.docker.container.image.v1+json"
            entries.append({"mediaType": media, "digest": digest(data), "size": len(data)})
        manifest = {
            "schemaVersion": 2,
            "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
            "config": entries.pop(),
            "layers": entries,
        }
        self.manifests[name] = json.dumps(manifest).encode()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
            self.server.sent += len(body)

    def body(self):
        return self.rfile.read(int(self.headers.get("content-length", 0)))

    def do_GET(self):
        manifest = re.fullmatch(r"/v2/(.+)/manifests/(.+)", self.path)
        blob = re.fullmatch(r"/v2/.+/blobs/(sha256:[0-9a-f]{64})", self.path)
        if self.path == "/v2/":
            return self.reply(200)
        if manifest:
            name = f"{manifest[1]}:{manifest[2]}"
            data, kind = self.server.manifests.get(name), self.server.types.get(name)
            if data is not None and kind:
                return self.reply(200, data, content_type=kind, docker_content_digest=digest(data))
        else:
            data = self.server.blobs.get(blob[1]) if blob else None
        if data is None:
            return self.reply(404)
        span = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("range", ""))
        if self.command == "HEAD" or not span:
            return self.reply(200, data)
        start, end = int(span[1]), min(int(span[2]) + 1, len(data))
        self.reply(206, data[start:end], content_range=f"bytes {start}-{end - 1}/{len(data)}")

    do_HEAD = do_GET

    def do_POST(self):
        self.body()
        self.reply(202, location=self.path.rstrip("/") + "/1")

    def do_PATCH(self):
        self.server.upload = getattr(self.server, "upload", b"") + self.body()
        self.reply(202, location=self.path)

    def do_PUT(self):
        data = self.body()
        manifest = re.fullmatch(r"/v2/(.+)/manifests/(.+)", self.path)
        if manifest:
            name = f"{manifest[1]}:{manifest[2]}"
            self.server.manifests[name] = data
            self.server.types[name] = self.headers.get("content-type")
        else:
            self.server.blobs[digest(self.server.upload)] = self.server.upload
            self.server.upload = b""
        self.reply(201)


if __name__ == "__main__":
    registry = Registry()
    print(registry.host, flush=True)
    threading.Event().wait()
