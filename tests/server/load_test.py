"""Many streams at once for a while: no event is lost or comes twice, and memory stays flat.

  OCTAVO_BINARY=build/cpu/octavo OCTAVO_TEST_DATA=tests/data \\
      python3 tests/server/load_test.py [--streams 1000] [--seconds 600] [--cost]

Every answer is greedy, so the same prompt has the same text each time: whatever is lost, doubled or
mixed up shows. --cost tells what the server spends on requests and tokens beyond the engine.
"""

import argparse
import asyncio
import concurrent.futures
import http.client
import json
import os
import resource
import sys
import threading
import time

from harness import Server

PROMPTS = 16
MAX_TOKENS = 24
IDLE_S = 55  # a little less than the server lets a connection be idle


def body_of(number):
    return {"prompt": f"Once upon a time number {number}", "max_tokens": MAX_TOKENS,
            "temperature": 0, "ignore_eos": True, "stream": True, "return_token_ids": True,
            "stream_options": {"include_usage": True}}


async def ask(address, number):
    """The bytes of one streamed answer, and how long it took to connect and ask."""
    body = json.dumps(body_of(number)).encode()
    begin = time.monotonic()
    reader, writer = await asyncio.open_connection(*address)
    try:
        writer.write(b"POST /v1/completions HTTP/1.1\r\nConnection: close\r\n"
                     b"Content-Length: %d\r\n\r\n" % len(body) + body)
        asked_s = time.monotonic() - begin
        return await reader.read(-1), asked_s
    finally:
        writer.close()


async def stream(address, number):
    """The text and the token ids of one streamed answer, checked for its form."""
    data, asked_s = await ask(address, number)
    while not data and asked_s > IDLE_S:  # this program was stopped; the server was right
        data, asked_s = await ask(address, number)
    head, _, rest = data.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), data[:300]
    text = b""
    while rest:  # chunks
        size, _, rest = rest.partition(b"\r\n")
        text += rest[:int(size, 16)]
        rest = rest[int(size, 16) + 2:]
    events = text.decode().split("\n\n")
    assert events.pop() == "" and events.pop() == "data: [DONE]", events[-2:]
    answer, ids, ends, usage = "", [], 0, None
    for event in events:
        event = json.loads(event.removeprefix("data: "))
        assert "error" not in event, event
        if not event["choices"]:
            assert usage is None
            usage = event["usage"]["completion_tokens"]
            continue
        choice = event["choices"][0]
        answer += choice["text"]
        ids += choice["token_ids"] or []
        ends += choice["finish_reason"] is not None
    assert ends == 1 and usage == len(ids) == MAX_TOKENS, (ends, usage, len(ids))
    return answer, ids


def process_memory(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS")) << 10


def server_cpu(pid):
    """CPU seconds of the threads that serve HTTP; those of the engine have other names."""
    total = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        folder = f"/proc/{pid}/task/{thread}/"
        with open(folder + "comm", encoding="ascii") as file:
            if not file.read().startswith("octavo-http"):
                continue
        with open(folder + "schedstat", encoding="ascii") as file:
            total += int(file.read().split()[0])
    assert total > 0, "no thread of that name"
    return total / 1e9


def measure_cost(server, keep_alive=True):
    """Microseconds of the server's threads for a request, and for a streamed token beyond that."""
    local = threading.local()

    def ask(body):
        connection = getattr(local, "connection", None)
        if connection is None:
            connection = local.connection = http.client.HTTPConnection(*server.address, timeout=60)
        connection.request("POST", "/v1/completions", json.dumps(body))
        response = connection.getresponse()
        assert response.status == 200 and response.read().endswith(b"data: [DONE]\n\n")
        if not keep_alive:
            connection.close()

    def cost(count, max_tokens):
        bodies = [{**body_of(i % PROMPTS), "max_tokens": max_tokens} for i in range(count)]
        before = server_cpu(server.process.pid)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(ask, bodies))
        return (server_cpu(server.process.pid) - before) / count * 1e6

    cost(50, MAX_TOKENS)  # the first ones meet cold caches
    short, long = cost(2000, 1), cost(200, 101)
    return short, (long - short) / 100


async def load(server, num_streams, seconds):
    expected = [await stream(server.address, number) for number in range(PROMPTS)]
    end = time.monotonic() + seconds
    count = 0

    async def client(number):
        nonlocal count
        while True:
            got = await stream(server.address, number % PROMPTS)
            assert got == expected[number % PROMPTS], (number, got, expected[number % PROMPTS])
            count += 1
            if time.monotonic() >= end:
                return

    async def watch():
        """Memory when a third of the time is over, and the most after that."""
        await asyncio.sleep(seconds / 3)
        first = most = process_memory(server.process.pid)
        while time.monotonic() < end:
            await asyncio.sleep(0.5)
            most = max(most, process_memory(server.process.pid))
        return first, most

    (first, most), *_ = await asyncio.gather(watch(), *map(client, range(num_streams)))
    return count, first, most


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--max-growth", type=float, default=0.05)
    parser.add_argument("--cost", action="store_true")
    args = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with Server("--disable-uvicorn-access-log", "--max-num-seqs", "256") as server:
        if args.cost:
            for keep_alive in False, True:
                request, token = measure_cost(server, keep_alive)
                print(f"{'kept' if keep_alive else 'new'} connections: {request:.1f} us for a "
                      f"request with one token, {token:.2f} us for each further token that is "
                      f"streamed")
            return 0
        count, first, most = asyncio.run(load(server, args.streams, args.seconds))
        assert server.wait_idle()
        tokens = server.metric("vllm:generation_tokens_total")
        assert tokens == (count + PROMPTS) * MAX_TOKENS, (tokens, count)
        assert server.metric("vllm:request_success_total") == count + PROMPTS
        growth = most / first - 1
        print(f"{args.streams} streams, {count} answers of {MAX_TOKENS} tokens, none wrong; "
              f"memory {first >> 20} MiB, at most {100 * growth:+.1f} % later")
        assert growth <= args.max_growth, growth
        assert server.stop() == 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
