"""Conversations for the chat template tests: what a server may be asked to render."""

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the current weather in a place.",
        "parameters": {
            "type": "object",
            "properties": {
                "location": {"type": "string", "description": "City, e.g. Zürich"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
                "days": {"type": "integer", "description": "How many", "default": 1},
            },
            "required": ["location"],
        },
        "return": {"type": "number", "description": "Degrees"},
    },
}
SEARCH = {
    "type": "function",
    "function": {
        "name": "search",
        "description": "Search <documents> & \"quotes\"",
        "parameters": {
            "type": "object",
            "properties": {
                "query": {"type": ["string", "null"], "description": "What to look for"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "options": {
                    "type": "object",
                    "properties": {"limit": {"type": "number"}, "exact": {"type": "boolean"}},
                },
                "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
            },
            "required": ["query", "tags"],
        },
    },
}
TOOLS = [WEATHER, SEARCH]


def message(role, content, **more):
    return {"role": role, "content": content, **more}


def call(name, arguments, call_id="call00001"):
    return {
        "id": call_id,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def case(messages, tools=None, documents=None, prompt=True, **more):
    return {
        "messages": messages,
        "tools": tools,
        "documents": documents,
        "add_generation_prompt": prompt,
        "bos_token": "<s>",
        "eos_token": "</s>",
        **more,
    }


SYSTEM = message("system", "  You are a helpful assistant.\n")
HELLO = message("user", "Hello, wörld! 😀  ")
REPLY = message("assistant", "Hi there.")
ASK = message("user", "What is the weather in Zürich?")
PARIS = {"location": "Paris", "unit": "celsius", "days": 2}
ROUND = [
    ASK,
    message("assistant", None, tool_calls=[call("get_weather", PARIS)]),
    message("tool", '{"temperature": 21.5}', tool_call_id="call00001", name="get_weather"),
    message("assistant", "It is 21.5 degrees."),
]
THOUGHT = "Let me think.\n2 + 2 = 4"

CONVERSATIONS = {
    "user": case([HELLO]),
    "user, no prompt": case([HELLO], prompt=False),
    "system and user": case([SYSTEM, HELLO]),
    "several turns": case([SYSTEM, HELLO, REPLY, message("user", "And now?\n\nMore.")]),
    "ends with assistant": case([HELLO, REPLY], prompt=False),
    "continues assistant": case([HELLO, REPLY]),
    "two users": case([HELLO, message("user", "again")]),
    "assistant first": case([REPLY, HELLO]),
    "late system": case([HELLO, REPLY, SYSTEM, message("user", "go on")]),
    "developer": case([message("developer", "Be brief."), HELLO]),
    "unknown role": case([message("narrator", "Once upon a time"), HELLO]),
    "empty": case([]),
    "empty content": case([message("system", ""), message("user", ""), message("assistant", "")]),
    "missing content": case([{"role": "user"}]),
    "null content": case([message("user", None)]),
    "control tokens": case(
        [
            message("system", "<|im_start|>system"),
            message("user", "<|im_end|>\n<|eot_id|></s>[/INST]<think>x</think><end_of_turn>"),
            message("assistant", "<|start_header_id|>user<|end_header_id|> </think> done"),
            message("user", "<｜User｜>{{ 1 + 1 }}{% if %}<|end|>"),
        ]
    ),
    "unicode": case(
        [message("user", "日本語 \u2028 é e\u0301 \u00a0 ß İ 🏳️‍🌈 \t tab \"q\" 'a' \\ back")]
    ),
    "typed content": case(
        [
            message("system", [{"type": "text", "text": "Be kind."}]),
            message(
                "user",
                [{"type": "text", "text": "Look: "}, {"type": "text", "text": "here"}],
            ),
        ]
    ),
    "image": case(
        [message("user", [{"type": "image", "image": "a.png"}, {"type": "text", "text": "What?"}])]
    ),
    "tools": case([SYSTEM, ASK], TOOLS),
    "one tool": case([SYSTEM, ASK], [WEATHER]),
    "one tool's round": case([*ROUND, message("user", "Thanks")], [WEATHER]),
    "one tool, no prompt": case([SYSTEM, *ROUND], [WEATHER], prompt=False),
    "tools, no system": case([ASK], TOOLS),
    "tools, no prompt": case([ASK], TOOLS, prompt=False),
    "no tools in list": case([ASK], []),
    "tool round": case([SYSTEM, *ROUND, message("user", "Thanks")], TOOLS),
    "tool round, no tools": case(ROUND),
    "tool result last": case(ROUND[:3], TOOLS),
    "calls without content": case(
        [
            ASK,
            {"role": "assistant", "tool_calls": [call("get_weather", PARIS)]},
            message("tool", '{"temperature": 21.5}', tool_call_id="call00001", name="get_weather"),
            message("assistant", "It is 21.5 degrees."),
            message("user", "Thanks"),
        ],
        [WEATHER],
    ),
    "string arguments": case(
        [
            ASK,
            message(
                "assistant",
                "",
                tool_calls=[call("get_weather", '{"location": "Paris", "days": 2}')],
            ),
            message("tool", "rain", tool_call_id="call00001"),
        ],
        TOOLS,
    ),
    "parallel calls": case(
        [
            ASK,
            message(
                "assistant",
                "I will look.",
                tool_calls=[
                    call("get_weather", PARIS, "call00001"),
                    call("search", {"query": None, "tags": ["a", "b"], "x": 1.0}, "call00002"),
                ],
            ),
            message("tool", "rain", tool_call_id="call00001", name="get_weather"),
            message("tool", ["typed", "list"], tool_call_id="call00002", name="search"),
        ],
        TOOLS,
    ),
    "odd arguments": case(
        [
            ASK,
            message(
                "assistant",
                "",
                tool_calls=[
                    call(
                        "search",
                        {
                            "text": "line\n\"quoted\" <tag> & 'single' é \u0001",
                            "deep": {"a": [1, 2.5, -0.0, 1e20, True, False, None], "b": {}},
                            "empty": [],
                            "": 18446744073709551615,
                        },
                    )
                ],
            ),
            message("tool", {"rows": [1, "zwei"], "ok": True}, tool_call_id="call00001"),
        ],
        TOOLS,
    ),
    "no arguments": case(
        [ASK, message("assistant", "", tool_calls=[call("search", {})]), message("user", "?")],
        TOOLS,
    ),
    "reasoning": case(
        [
            HELLO,
            message("assistant", "Four.", reasoning_content=THOUGHT, thinking=THOUGHT),
            message("user", "Sure?"),
        ]
    ),
    "reasoning in content": case(
        [HELLO, message("assistant", f"<think>\n{THOUGHT}\n</think>\n\nFour."), HELLO]
    ),
    "reasoning and tools": case(
        [
            ASK,
            message(
                "assistant",
                "",
                reasoning_content=THOUGHT,
                tool_calls=[call("get_weather", PARIS)],
            ),
            message("tool", "21", tool_call_id="call00001", name="get_weather"),
        ],
        TOOLS,
    ),
    "thinking on": case([SYSTEM, HELLO], enable_thinking=True, thinking=True),
    "thinking off": case([SYSTEM, HELLO], enable_thinking=False, thinking=False),
    "effort": case([HELLO], reasoning_effort="high", thinking_budget=512),
    "documents": case(
        [HELLO],
        None,
        [
            {"title": "Nets", "text": "A net is <knotted>."},
            {"title": "Zürich", "text": "A city.", "doc_id": 7},
        ],
    ),
    "documents and tools": case([SYSTEM, ASK], TOOLS, [{"title": "T", "text": "x"}]),
    "date": case([HELLO], TOOLS, date_string="01 Jan 2030"),
    "llama switches": case(
        [SYSTEM, ASK],
        TOOLS,
        tools_in_user_message=False,
        builtin_tools=["code_interpreter", "brave_search"],
    ),
    "custom tools": case([SYSTEM, ASK], custom_tools=TOOLS),
    "gpt-oss switches": case(
        [message("developer", "Obey."), HELLO],
        TOOLS,
        model_identity="You are X.",
        reasoning_effort="low",
        builtin_tools=["browser", "python"],
    ),
    "variables missing": {"messages": [SYSTEM, HELLO]},
    "role missing": case([{"content": "who?"}]),
}
