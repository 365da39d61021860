"""`litellm` against a server, under both of its names for such a one: openai and hosted_vllm."""

import asyncio
import importlib.metadata
import sys

import litellm

MESSAGES = [{"role": "user", "content": "Name three colours."}]


def check(url, model):
    options = {"model": model, "api_base": url, "api_key": "none", "messages": MESSAGES,
               "temperature": 0, "max_tokens": 24}
    answer = litellm.completion(**options)
    text = answer.choices[0].message.content
    assert text and answer.usage.completion_tokens > 0
    chunks = list(litellm.completion(**options, stream=True,
                                     stream_options={"include_usage": True}))
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == text
    assert chunks[-1].usage.completion_tokens == answer.usage.completion_tokens

    async def streamed():
        stream = await litellm.acompletion(**options, stream=True)
        return "".join([c.choices[0].delta.content or "" async for c in stream])

    assert asyncio.run(streamed()) == text
    try:
        litellm.completion(**{**options, "temperature": -1})
    except litellm.BadRequestError as error:
        assert "temperature" in str(error), error
    else:
        raise AssertionError("a temperature of -1 is taken")


def main(url):
    for model in "openai/default", "hosted_vllm/default":
        check(url, model)
    completion = litellm.text_completion(model="text-completion-openai/default", api_base=url,
                                         api_key="none", prompt="One, two,", max_tokens=8)
    assert completion.choices[0].text
    vectors = litellm.embedding(model="openai/default", api_base=url, api_key="none",
                                input=["A cat", "A dog"])
    assert len(vectors.data) == 2
    print(f"litellm {importlib.metadata.version('litellm')}: all well")


if __name__ == "__main__":
    main(sys.argv[1])
