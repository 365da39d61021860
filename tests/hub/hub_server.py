"""A hub on this machine, for tests: the few requests of the Hugging Face protocol that octavo
makes, and ways to answer them badly. Standard library only."""

import hashlib
import json
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def git_blob_id(content):
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class Repo:
    """Files by name; those in `large` are kept elsewhere, as Git LFS does."""

    def __init__(self, files, large=(), commit=COMMIT, revisions=("main",)):
        self.files = dict(files)
        self.large = set(large)
        self.commit = commit
        self.revisions = set(revisions)
        self.token = None  # what a request must carry

    def etag(self, name):
        content = self.files[name]
        return hashlib.sha256(content).hexdigest() if name in self.large else git_blob_id(content)


class HubServer:
    """`repos` by name. A test sets the attributes below to make it misbehave; `requests` holds what
    came: (method, path, headers)."""

    def __init__(self):
        self.repos = {}
        self.requests = []
        self.lock = threading.Lock()
        self.api_answer = None  # bytes in place of the listing
        self.failures = []  # (status, headers) for the next requests
        self.break_after = None  # bytes of content after which a connection ends
        self.num_breaks = 1
        self.content_of = {}  # name -> bytes that are sent in place of the right ones
        self.claim_length = None  # Content-Length of content, whatever is sent
        self.ranges = True
        self.delay_s = 0
        self.cdn = None  # where large files are: another HubServer
        self.event = threading.Event()

        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_HEAD(self):
                hub.answer(self)

            def do_GET(self):
                hub.answer(self)

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_):  # a client that ends in the middle is what is tested
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def close(self):
        self.event.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def count(self, method, part):
        return sum(m == method and part in path for m, path, _ in self.requests)

    # --- answers --------------------------------------------------------------------------------

    def send(self, http, status, body=b"", headers=None):
        http.send_response(status)
        for key, value in (headers or {}).items():
            http.send_header(key, value)
        http.send_header("Content-Length", str(len(body)))
        http.end_headers()
        if http.command != "HEAD":
            http.wfile.write(body)

    def answer(self, http):
        with self.lock:
            self.requests.append((http.command, http.path, dict(http.headers)))
            failure = self.failures.pop(0) if self.failures else None
        if failure is not None:
            return self.send(http, failure[0], b"no", failure[1])
        parts = urllib.parse.urlsplit(http.path).path.split("/")[1:]
        if parts[0] == "cdn":
            return self.send_content(http, bytes.fromhex(parts[1]).decode())
        if parts[:2] == ["api", "models"] and len(parts) == 6:
            return self.send_listing(http, "/".join(parts[2:4]), urllib.parse.unquote(parts[5]))
        if len(parts) >= 5 and parts[2] == "resolve":
            name = urllib.parse.unquote("/".join(parts[4:]))
            return self.send_file(http, "/".join(parts[:2]), parts[3], name)
        return self.send(http, 404)

    def authorized(self, http, repo):
        return repo.token is None or http.headers.get("Authorization") == f"Bearer {repo.token}"

    def send_listing(self, http, name, revision):
        if self.api_answer is not None:
            return self.send(http, 200, self.api_answer)
        repo = self.repos.get(name)
        if repo is None:
            return self.send(http, 404, headers={"X-Error-Code": "RepoNotFound"})
        if not self.authorized(http, repo):
            return self.send(http, 401, headers={"X-Error-Code": "GatedRepo"})
        if revision not in repo.revisions | {repo.commit}:
            return self.send(http, 404, headers={"X-Error-Code": "RevisionNotFound"})
        siblings = [{"rfilename": file} for file in repo.files]
        return self.send(http, 200, json.dumps({"sha": repo.commit, "siblings": siblings}).encode())

    def send_file(self, http, repo_name, commit, name):
        repo = self.repos.get(repo_name)
        if repo is None or commit not in repo.revisions | {repo.commit} or \
                name not in repo.files:
            return self.send(http, 404, headers={"X-Error-Code": "EntryNotFound"})
        if not self.authorized(http, repo):
            return self.send(http, 403)
        if name not in repo.large:
            return self.send_content(http, name, repo)
        elsewhere = (self.cdn or self).url + "/cdn/" + name.encode().hex()
        return self.send(http, 302, headers={
            "Location": elsewhere, "X-Repo-Commit": repo.commit,
            "X-Linked-Etag": f'"{repo.etag(name)}"',
            "X-Linked-Size": str(len(repo.files[name]))})

    def send_content(self, http, name, repo=None):
        content = self.content_of.get(name)
        if content is None:
            repos = [repo] if repo else list(self.repos.values())
            content = next(r.files[name] for r in repos if name in r.files)
        begin, status = 0, 200
        headers = {"X-Repo-Commit": repo.commit} if repo else {}
        headers |= {"ETag": f'"{repo.etag(name)}"' if repo else '"of-the-cdn"'}
        wanted = http.headers.get("Range")
        if wanted and self.ranges:
            begin, status = int(wanted.removeprefix("bytes=").removesuffix("-")), 206
            if begin >= len(content):
                return self.send(http, 416)
            headers["Content-Range"] = f"bytes {begin}-{len(content) - 1}/{len(content)}"
        http.send_response(status)
        for key, value in headers.items():
            http.send_header(key, value)
        length = len(content) - begin
        if self.claim_length is not None and http.command == "GET":
            length = self.claim_length
        http.send_header("Content-Length", str(length))
        http.end_headers()
        if http.command == "HEAD":
            return None
        body = content[begin:]
        with self.lock:
            breaks = self.break_after is not None and self.num_breaks > 0 and \
                len(body) > self.break_after
            self.num_breaks -= breaks
        if breaks:
            body = body[:self.break_after]
            http.close_connection = True
        try:
            http.wfile.write(body)
            http.wfile.flush()
            self.event.wait(self.delay_s)
        except OSError:
            http.close_connection = True
        if breaks or len(body) != length:
            http.close_connection = True
        return None
