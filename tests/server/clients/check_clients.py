#!/usr/bin/env python3
"""Clients that people use, as they are released, against `octavo serve` with the default model:

  OCTAVO_BINARY=build/cpu/octavo tests/server/clients/check_clients.py [openai nginx …]

Makes a virtual environment of its own (--venv, kept for the next time) and installs into it what
the chosen clients need: the network is needed, and for guidellm gigabytes of disk. nginx is
Debian's package. Without names: all of them.
"""

import argparse
import contextlib
import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
os.environ.setdefault("OCTAVO_TEST_DATA", "")
from harness import Server  # noqa: E402

PACKAGES = {"openai": ["openai==3.57.0"],
            "langchain": ["langchain-openai==1.7.4"],
            "litellm": ["litellm==1.110.2"],
            "guidellm": ["guidellm==0.8.1"],
            "nginx": ["openai==3.57.0"]}  # asks through it

NGINX = """
daemon off;
pid {folder}/pid;
error_log stderr;
events {{}}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://127.0.0.1:{upstream};
      proxy_http_version 1.1;
    }}
  }}
}}
"""


def run(python, *command):
    subprocess.run([python, *command], check=True, timeout=600)


def check_package(name):
    def check(python, server):
        run(python, os.path.join(HERE, name + "_client.py"), "http://%s:%d/v1" % server.address)
    return check


def check_guidellm(python, server):
    """A short benchmark, all of whose requests must succeed."""
    with tempfile.TemporaryDirectory(prefix="octavo-guidellm-") as folder:
        prompts = os.path.join(folder, "prompts.jsonl")
        with open(prompts, "w", encoding="utf-8") as file:
            for number in range(16):
                file.write(json.dumps({"prompt": f"Tell me about the number {number}.",
                                       "output_tokens_count": 16}) + "\n")
        report = os.path.join(folder, "report.json")
        run(os.path.join(os.path.dirname(python), "guidellm"), "run",
            "--backend", "kind=openai_http,target=http://%s:%d,model=default" % server.address,
            "--profile", "kind=concurrent,streams=4", "--constraint", "kind=max_requests,count=16",
            "--data", f"kind=json_file,path={prompts}", "--output", f"kind=json,path={report}",
            "--disable-console")
        with open(report, encoding="utf-8") as file:
            totals = json.load(file)["benchmarks"][0]["metrics"]["request_totals"]
    assert totals["successful"] == 16 and totals["errored"] == 0, totals
    print("guidellm: all well")


@contextlib.contextmanager
def nginx_before(upstream):
    with socket.socket() as free, tempfile.TemporaryDirectory(prefix="octavo-nginx-") as folder:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        path = os.path.join(folder, "nginx.conf")
        with open(path, "w", encoding="ascii") as file:
            file.write(NGINX.format(folder=folder, port=port, upstream=upstream))
        process = subprocess.Popen(["nginx", "-p", folder, "-c", path])
        try:
            for _ in range(100):
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.05)
            yield port
        finally:
            process.terminate()
            process.wait(30)


def check_nginx(python, server):
    """With its buffers, as it comes: events must pass it at once all the same."""
    with nginx_before(server.address[1]) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        body = {"prompt": "Once", "max_tokens": 100, "stream": True, "ignore_eos": True}
        connection.request("POST", "/v1/completions", json.dumps(body))
        response = connection.getresponse()
        assert response.status == 200
        times = []
        while response.readline():
            times.append(time.monotonic())
        connection.close()
        spread = times[-1] - times[0]
        gaps = [after - before for before, after in zip(times, times[1:])]
        assert len(times) > 150 and max(gaps) < spread / 2, (spread, gaps)
        run(python, os.path.join(HERE, "openai_client.py"), f"http://127.0.0.1:{port}/v1")
    print("nginx: all well")


CHECKS = {"openai": check_package("openai"), "langchain": check_package("langchain"),
          "litellm": check_package("litellm"), "guidellm": check_guidellm, "nginx": check_nginx}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clients", nargs="*", metavar="CLIENT", help=", ".join(CHECKS))
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--venv", default="build/clients-venv")
    args = parser.parse_args()
    clients = args.clients or list(CHECKS)
    if unknown := set(clients) - set(CHECKS):
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(CHECKS)}")
    python = os.path.join(os.path.abspath(args.venv), "bin", "python3")
    if not os.path.exists(python):
        run(sys.executable, "-m", "venv", args.venv)
    wanted = sorted({package for name in clients for package in PACKAGES[name]})
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted)
    with Server(model=args.model, names=["default"]) as server:
        for name in clients:
            CHECKS[name](python, server)
        assert server.stop() == 0, server.log
    return 0


if __name__ == "__main__":
    sys.exit(main())
