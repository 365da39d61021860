#!/usr/bin/env python3
"""The chat page in headless Chromium, driven over the DevTools protocol with the standard library
alone: asks, streams, stops, shows Markdown safely. --screenshots FOLDER keeps pictures. Skipped
with a message where there is no chromium."""

import argparse
import base64
import http.server
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.request

from harness import Server

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
SKIPPED = 77  # what ctest takes for "skipped"
SCREENSHOTS = None

MARKDOWN = """## Heading

A *paragraph* with **bold**, `code`, a [link](https://example.org/) and a
[bad](javascript:document.title='broken') one.

1. one
2. two
   - inner

| a | b |
|---|---|
| 1 | 2 |

```python
print("<b>not bold</b>")
```

<img src=x onerror="document.title='broken'"><script>document.title='broken'</script>
"""


class Socket:
    """A WebSocket client, as far as DevTools needs one."""

    def __init__(self, url):
        host, port, path = re.match(r"ws://([^:/]+):(\d+)(/.*)", url).groups()
        self.socket = socket.create_connection((host, int(port)), timeout=60)
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\n"
                            f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
                            "Sec-WebSocket-Version: 13\r\n\r\n".encode())
        self.stream = self.socket.makefile("rb")
        while self.stream.readline() not in (b"\r\n", b""):
            pass

    def send(self, text):
        data, mask = text.encode(), os.urandom(4)
        size = len(data)
        head = b"\x81" + (struct.pack("!B", 0x80 | size) if size < 126 else
                          struct.pack("!BH", 0x80 | 126, size) if size < 65536 else
                          struct.pack("!BQ", 0x80 | 127, size))
        self.socket.sendall(head + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(data)))

    def receive(self):
        text = b""
        while True:
            first, second = self.stream.read(2)
            size = second & 0x7F
            if size == 126:
                size = struct.unpack("!H", self.stream.read(2))[0]
            elif size == 127:
                size = struct.unpack("!Q", self.stream.read(8))[0]
            data = self.stream.read(size)
            if first & 0x0F in (0, 1):
                text += data
                if first & 0x80:
                    return text.decode()


class Browser:
    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="octavo-chromium-")
        self.process = subprocess.Popen(
            [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
             "--remote-debugging-port=0", "--disable-dev-shm-usage",
             "--disable-background-networking", f"--user-data-dir={self.folder.name}",
             "about:blank"],
            stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            found = re.search(r"listening on ws://([\d.]+:\d+)/", line)
            if found:
                break
        else:
            raise RuntimeError("chromium did not start")
        threading.Thread(target=self.process.stderr.read, daemon=True).start()
        with urllib.request.urlopen(f"http://{found[1]}/json") as answer:
            pages = [page for page in json.load(answer) if page["type"] == "page"]
        self.socket = Socket(pages[0]["webSocketDebuggerUrl"])
        self.next_id = 0
        self.problems = []
        for domain in "Page", "Runtime", "Log":
            self.call(domain + ".enable")

    def call(self, method, **params):
        self.next_id += 1
        self.socket.send(json.dumps({"id": self.next_id, "method": method, "params": params}))
        while True:
            message = json.loads(self.socket.receive())
            if message.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded"):
                self.problems.append(json.dumps(message["params"]))
            if message.get("id") == self.next_id:
                assert "error" not in message, message
                return message["result"]

    def run(self, script):
        result = self.call("Runtime.evaluate", expression=script, awaitPromise=True,
                           returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def wait(self, script, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.run(script):
                return True
            time.sleep(0.05)
        return False

    def open(self, url, width=1200, height=800, mobile=False, dark=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=2 if mobile else 1, mobile=mobile)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Page.navigate", url=url)
        assert self.wait("document.readyState === 'complete' && "
                         "document.getElementById('model')?.textContent !== ''"), "no page"

    def press(self, key, text="", modifiers=0):
        codes = {"Enter": 13, "Escape": 27}
        for kind in "keyDown", "keyUp":
            self.call("Input.dispatchKeyEvent", type=kind, key=key, modifiers=modifiers,
                      windowsVirtualKeyCode=codes[key], text=text if kind == "keyDown" else "")

    def type(self, text):
        self.call("Input.insertText", text=text)

    def screenshot(self, name):
        if SCREENSHOTS is None:
            return
        data = self.call("Page.captureScreenshot", format="png")["data"]
        with open(os.path.join(SCREENSHOTS, name + ".png"), "wb") as file:
            file.write(base64.b64decode(data))

    def close(self):
        self.process.terminate()
        self.process.wait(30)
        self.process.stderr.close()
        self.folder.cleanup()


class Impostor(http.server.ThreadingHTTPServer):
    """The page of the real server, with answers that a test chooses."""

    def __init__(self, server, answer):
        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_GET(self):
                status, headers, body = server.get(self.path)
                self.send_response(status)
                for name in "Content-Type", "Content-Security-Policy":
                    if name in headers:
                        self.send_header(name, headers[name])
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.end_headers()
                for i in range(0, len(answer), 7):
                    event = {"choices": [{"delta": {"content": answer[i:i + 7]},
                                          "finish_reason": None}],
                             "usage": {"prompt_tokens": 9, "completion_tokens": i // 7 + 1}}
                    self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
                    time.sleep(0.002)
                self.wfile.write(b"data: [DONE]\n\n")

        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class ChatPageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.url = "http://%s:%d/" % cls.server.address
        cls.browser = Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.server.stop()

    def setUp(self):
        self.browser.problems.clear()

    def answer(self, index=-1):
        return self.browser.run(f"[...document.querySelectorAll('.assistant .content')]"
                                f".at({index})?.textContent")

    def ended(self):
        return self.browser.wait("document.getElementById('stop').hidden && "
                                 "document.querySelector('.assistant') !== null")

    def set(self, **values):
        for name, value in values.items():
            self.browser.run(f"document.getElementById('{name}').value = {json.dumps(value)}")

    def test_asks_and_streams(self):
        browser = self.browser
        browser.open(self.url)
        self.assertEqual(browser.run("document.getElementById('model').textContent"), "tiny")
        self.assertTrue(browser.run("document.getElementById('send').disabled"))
        self.set(max_tokens="12", temperature="0", system="Be brief.")
        browser.type("Why is the sky blue?")
        browser.press("Enter", "\r")
        self.assertTrue(self.ended())
        messages = [{"role": "system", "content": "Be brief."},
                    {"role": "user", "content": "Why is the sky blue?"}]
        expected = self.server.post("/v1/chat/completions", {
            "messages": messages, "temperature": 0, "max_tokens": 12})[1]
        plain = lambda text: re.sub(r"\W", "", text)
        self.assertEqual(plain(self.answer()),
                         plain(expected["choices"][0]["message"]["content"]))
        figures = browser.run("document.querySelector('.figures').textContent")
        self.assertRegex(figures, r"[\d.]+ tokens/s · first token after [\d.]+ s · "
                                  r"\d+ \+ 12 tokens")
        self.assertEqual(browser.problems, [])

    def test_stops(self):
        browser = self.browser
        browser.open(self.url)
        self.set(max_tokens="", temperature="1", system="")
        browser.type("Go on for ever")
        browser.press("Enter", "\r")
        self.assertTrue(browser.wait("document.querySelector('.assistant .content')"
                                     "?.textContent.length > 20"))
        browser.press("Escape")
        self.assertTrue(self.ended())
        self.assertIn("stopped", browser.run("document.querySelector('.figures').textContent"))
        self.assertTrue(self.server.wait_idle())

    def test_markdown_is_shown_and_html_is_not(self):
        browser = self.browser
        impostor = Impostor(self.server, MARKDOWN)
        try:
            browser.open("http://127.0.0.1:%d/" % impostor.server_port)
            browser.type("Show me Markdown")
            browser.press("Enter", "\r")
            self.assertTrue(self.ended())
            for selector in ("h4", "em", "strong", "p code", "ol > li", "li > ul > li", "table td",
                             ".code pre code", "a[href='https://example.org/']"):
                found = f"document.querySelector(\".assistant .content {selector}\") !== null"
                self.assertTrue(browser.run(found), selector)
            self.assertFalse(browser.run(
                "document.querySelector('.content img, .content script, .content b, "
                "a[href^=javascript]') !== null"))
            self.assertIn("<script>", self.answer())
            self.assertIn("<b>not bold</b>", self.answer())
            self.assertEqual(browser.run("document.title"), "octavo")
            browser.screenshot("desktop")
            browser.call("Emulation.setEmulatedMedia", features=[
                {"name": "prefers-color-scheme", "value": "dark"}])
            browser.screenshot("desktop-dark")
            browser.open("http://127.0.0.1:%d/" % impostor.server_port, 390, 844, mobile=True)
            browser.screenshot("phone-empty")
            browser.type("What does Markdown look like on a phone?")
            browser.press("Enter", "\r")
            self.assertTrue(self.ended())
            self.assertLessEqual(browser.run("document.documentElement.scrollWidth"), 390)
            browser.screenshot("phone")
            browser.run("document.getElementById('open-settings').click()")
            browser.screenshot("phone-settings")
        finally:
            impostor.shutdown()
            impostor.server_close()

    def test_nothing_else_may_run_or_load(self):
        status, headers, _ = self.server.get("/")
        self.assertEqual(status, 200)
        policy = headers["Content-Security-Policy"]
        self.assertIn("default-src 'none'", policy)
        self.assertNotIn("unsafe", policy)
        self.browser.open(self.url)
        self.browser.run("""(() => {
            const script = document.createElement('script');
            script.textContent = "document.title = 'broken'";
            document.head.append(script);
        })()""")
        self.assertEqual(self.browser.run("document.title"), "octavo")

    def test_the_dashboard_draws(self):
        browser = self.browser
        for path in "dashboard", "dashboard/":
            browser.call("Page.navigate", url=self.url + path)
            self.assertTrue(browser.wait("document.querySelectorAll('#groups tr').length === 1"))
            self.server.post("/v1/completions", {"prompt": "x", "max_tokens": 5,
                                                 "ignore_eos": True})
            tokens = "document.querySelector('figcaption span')?.textContent"
            self.assertTrue(browser.wait(f"/^all requests [1-9.]/.test({tokens})"),
                            browser.run(tokens))
            self.assertTrue(browser.run("document.getElementById('problem').hidden"))
            row = browser.run("document.querySelector('#groups tr').innerText").split("\t")
            self.assertEqual(row[0], "all")
            self.assertGreater(int(row[2]), 0)
            self.assertIn("0 running, 0 waiting", browser.run(
                "document.getElementById('load').textContent"))
        browser.screenshot("dashboard")
        self.assertEqual(browser.problems, [])

    def test_the_dashboard_tells_groups_from_the_whole(self):
        browser = self.browser
        names = ["all", "__proto__", "constructor"]
        groups = json.dumps({"groups": [{"name": name} for name in names]})
        with Server("--ab-config", groups) as server:
            browser.call("Page.navigate", url="http://%s:%d/dashboard" % server.address)
            self.assertTrue(browser.wait("document.querySelectorAll('#groups tr').length === 3"))
            for name in names:
                server.request("POST", "/v1/completions", {
                    "prompt": "x", "max_tokens": 5, "ignore_eos": True}, {"X-Octavo-Group": name})
            labels = ("[...document.querySelectorAll('figure:first-child span')]"
                      ".map((label) => label.textContent)")
            self.assertTrue(browser.wait(f"{labels}.length === 4"), browser.run(labels))
            shown = browser.run(f"{labels}.map((label) => label.replace(/ \\S+$/, ''))")
            self.assertEqual(sorted(shown), sorted(["all requests", *names]))
            self.assertTrue(browser.wait(f"{labels}.every((label) => / [1-9.]+$/.test(label) || "
                                         f"/ 0\\.[0-9]*[1-9]/.test(label))"), browser.run(labels))
            self.assertTrue(browser.run("document.getElementById('problem').hidden"))
        self.assertEqual(browser.problems, [])

    def test_errors_are_shown(self):
        browser = self.browser
        browser.open(self.url)
        self.set(max_tokens="", temperature="-1", system="")
        browser.type("x")
        browser.press("Enter", "\r")
        self.assertTrue(self.ended())
        self.assertIn("temperature", browser.run("document.querySelector('.error').textContent"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--screenshots")
    arguments, rest = parser.parse_known_args()
    SCREENSHOTS = arguments.screenshots
    if CHROMIUM is None:
        print("skipped: there is no chromium (apt-get install chromium)")
        sys.exit(SKIPPED)
    unittest.main(argv=[sys.argv[0], *rest])
