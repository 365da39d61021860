#!/usr/bin/env python3
"""Schemathesis (pip install schemathesis) against every operation of /openapi.json: no 5xx, no
status that the document does not list. Not part of the tests, which need nothing from the network.

    OCTAVO_BINARY=build/cpu/octavo OCTAVO_TEST_DATA=tests/data tests/server/check_openapi.py [st]

The argument is the schemathesis command, where it is not in PATH.
"""

import subprocess
import sys

from harness import Server

CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance"


def main():
    command = sys.argv[1] if len(sys.argv) > 1 else "st"
    # Long answers would take the time that many requests need.
    server = Server("--enable-dev-endpoints", "--max-model-len", "128",
                    "--disable-uvicorn-access-log")
    with server:
        run = subprocess.run(
            [command, "run", "http://%s:%d/openapi.json" % server.address, "--checks", CHECKS,
             "--phases", "examples,coverage,fuzzing", "--max-examples", "100",
             "--request-timeout", "60", "--suppress-health-check", "all",
             # A paused engine answers nothing; both have tests of their own.
             "--exclude-path", "/pause", "--exclude-path", "/abort_requests"])
        idle = server.wait_idle()
        healthy = server.get("/health")[0] == 200
        print(f"afterwards: idle {idle}, healthy {healthy}")
        return run.returncode or not (idle and healthy)


if __name__ == "__main__":
    sys.exit(main())
