"""`langchain-openai` against a server: answers, streams, batches, chains and embeddings."""

import asyncio
import importlib.metadata
import sys

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings

QUESTION = "Name three colours."


def check_chat(chat):
    answer = chat.invoke(QUESTION)
    assert answer.content and answer.response_metadata["finish_reason"] in ("stop", "length")
    usage = answer.usage_metadata
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    pieces = list(chat.stream(QUESTION))
    assert "".join(piece.content for piece in pieces) == answer.content
    assert sum((p.usage_metadata or {}).get("output_tokens", 0) for p in pieces) \
        == usage["output_tokens"]
    assert [a.content for a in chat.batch([QUESTION] * 4)] == [answer.content] * 4
    talk = [SystemMessage("Be brief."), HumanMessage(QUESTION), AIMessage("Red."),
            HumanMessage("And another?")]
    assert chat.invoke(talk).content
    chain = ChatPromptTemplate.from_messages([("human", "{question}")]) | chat | StrOutputParser()
    assert chain.invoke({"question": QUESTION}) == answer.content
    return answer.content


async def check_async(chat, text):
    assert (await chat.ainvoke(QUESTION)).content == text
    pieces = [piece.content async for piece in chat.astream(QUESTION)]
    assert "".join(pieces) == text


def main(url):
    common = {"base_url": url, "api_key": "none", "model": "default"}
    chat = ChatOpenAI(**common, temperature=0, max_tokens=24, stream_usage=True)
    text = check_chat(chat)
    asyncio.run(check_async(chat, text))
    complete = OpenAI(**common, temperature=0, max_tokens=8)
    assert complete.invoke("One, two,") == "".join(complete.stream("One, two,"))
    # By default it sends token ids, of a vocabulary of its own.
    embed = OpenAIEmbeddings(**common, check_embedding_ctx_length=False)
    one, other = embed.embed_documents(["A cat", "A dog"])
    assert len(one) == len(other) and one != other and embed.embed_query("A cat") == one
    print(f"langchain-openai {importlib.metadata.version('langchain-openai')}: all well")


if __name__ == "__main__":
    main(sys.argv[1])
