"""The `openai` package against a server: blocking, streaming and asynchronous."""

import asyncio
import sys

import openai

MESSAGES = [{"role": "user", "content": "Name three colours."}]
OPTIONS = {"max_tokens": 24, "temperature": 0}


def check_blocking(client, model):
    chat = client.chat.completions.create(model=model, messages=MESSAGES, logprobs=True,
                                          top_logprobs=2, **OPTIONS)
    text = chat.choices[0].message.content
    usage = chat.usage
    assert text and usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert len(chat.choices[0].logprobs.content) == usage.completion_tokens
    completion = client.completions.create(model=model, prompt=["One, two,", "A, B,"], logprobs=1,
                                           extra_body={"top_k": 1}, **OPTIONS)
    assert [choice.index for choice in completion.choices] == [0, 1]
    assert completion.choices[0].logprobs.tokens
    return text


def check_streaming(client, model, text):
    stream = client.chat.completions.create(model=model, messages=MESSAGES, stream=True,
                                            stream_options={"include_usage": True}, **OPTIONS)
    chunks = list(stream)
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-1].usage.completion_tokens > 0
    parts = [c.choices[0].delta.content or "" for c in chunks if c.choices]
    assert "".join(parts) == text
    with client.completions.create(model=model, prompt="Once", stream=True, max_tokens=2000,
                                   extra_body={"ignore_eos": True}) as early:
        next(iter(early))  # and leave


def check_errors(client, model):
    for error, call in [
            (openai.NotFoundError, lambda: client.completions.create(model="none", prompt="x")),
            (openai.BadRequestError,
             lambda: client.completions.create(model=model, prompt="x", temperature=-1)),
            (openai.BadRequestError,
             lambda: client.chat.completions.create(model=model, messages=[]))]:
        try:
            call()
        except error as raised:
            assert raised.body["message"], raised
        else:
            raise AssertionError(f"no {error.__name__}")


async def check_async(url, model, text):
    async with openai.AsyncOpenAI(base_url=url, api_key="none") as client:
        answers = await asyncio.gather(*(client.chat.completions.create(
            model=model, messages=MESSAGES, **OPTIONS) for _ in range(8)))
        assert {answer.choices[0].message.content for answer in answers} == {text}
        stream = await client.chat.completions.create(model=model, messages=MESSAGES, stream=True,
                                                      **OPTIONS)
        parts = [chunk.choices[0].delta.content or "" async for chunk in stream]
        assert "".join(parts) == text


def main(url):
    client = openai.OpenAI(base_url=url, api_key="none")
    model = client.models.list().data[0].id
    text = check_blocking(client, model)
    check_streaming(client, model, text)
    check_errors(client, model)
    asyncio.run(check_async(url, model, text))
    print(f"openai {openai.__version__}: all well with {model}")


if __name__ == "__main__":
    main(sys.argv[1])
