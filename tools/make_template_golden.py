#!/usr/bin/env python3
"""Makes the golden files of the chat template tests with Python's Jinja2 3.1.6.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install jinja2==3.1.6
    /tmp/venv/bin/python tools/make_template_golden.py

Renders every template of tests/data/chat-templates with every conversation of
tools/template_conversations.py, and every snippet of tests/data/chat-templates/snippets, in the
environment that Hugging Face transformers uses. A result is the text, or the error's message.
"""

import datetime
import json
import pathlib
import sys

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox
import jinja2.utils

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import template_conversations

DATA = pathlib.Path(__file__).parent.parent / "tests/data/chat-templates"
NOW = datetime.datetime(2025, 7, 6, 9, 5, 3)  # UTC; 1751792703 seconds since 1970


class Generation(jinja2.ext.Extension):
    """`{% generation %}`: a call block that renders its body."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        call = self.call_method("render_body")
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

    def render_body(self, caller):
        return caller()


class Namespace(jinja2.utils.Namespace):
    """As Jinja2's, without names that start with an underscore."""

    def __init__(*args, **kwargs):
        self, args = args[0], args[1:]
        attributes = dict(*args, **kwargs)
        for name in attributes:
            Namespace.check(name)
        jinja2.utils.Namespace.__init__(self, attributes)

    def __setitem__(self, name, value):
        Namespace.check(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)

    @staticmethod
    def check(name):
        if isinstance(name, str) and name.startswith("_"):
            raise jinja2.exceptions.SecurityError(f"no attribute {name!r} on a namespace")


class Raised(jinja2.exceptions.TemplateError):
    """raise_exception was called."""


def raise_exception(message):
    raise Raised(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def make_environment():
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[Generation, jinja2.ext.loopcontrols],
    )
    environment.filters["tojson"] = tojson
    environment.filters["from_json"] = json.loads
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda pattern: NOW.strftime(pattern)
    environment.globals["dict"] = lambda *args, **kwargs: dict(*args, **kwargs)
    environment.globals["namespace"] = Namespace
    return environment


def render(environment, source, variables):
    """{"text"}, or {"raised"} with raise_exception's message, or {"error"} with any other's."""
    try:
        return {"text": environment.from_string(source).render(**variables)}
    except Raised as error:
        return {"raised": str(error.message)}
    except Exception as error:  # every way to fail counts
        return {"error": f"{type(error).__name__}: {error}"[:120]}


def write(path, value):
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n")


def read_snippets():
    """Expressions, one a line, and templates, between lines of three dashes."""
    expressions = (DATA / "snippets/expressions.txt").read_text().strip("\n").split("\n")
    templates = (DATA / "snippets/templates.txt").read_text().strip("\n").split("\n---\n")
    return ["{{ " + expression + " }}" for expression in expressions] + templates


def main():
    environment = make_environment()
    conversations = template_conversations.CONVERSATIONS
    write(DATA / "conversations.json", conversations)
    for path in sorted(DATA.glob("*.jinja")):
        source = path.read_text()
        results = {
            name: render(environment, source, json.loads(json.dumps(variables)))
            for name, variables in conversations.items()
        }
        write(DATA / "golden" / f"{path.stem}.json", results)
        good = sum("text" in result for result in results.values())
        print(f"{path.stem}: {good} texts, {len(results) - good} errors")
    variables = json.loads((DATA / "snippets/variables.json").read_text())
    snippets = []
    for source in read_snippets():
        result = render(environment, source, json.loads(json.dumps(variables)))
        snippets.append({"template": source, **result})
    write(DATA / "snippets.json", {"variables": variables, "cases": snippets})
    print(f"{len(snippets)} snippets, {sum('text' not in s for s in snippets)} of them errors")


if __name__ == "__main__":
    main()
