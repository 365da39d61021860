"""What tools/tidy.py knows of a source file: its code without comments and strings, its includes,
its functions; and of the tree as a whole.
"""

import bisect
import os
import re
import subprocess
from pathlib import Path

CPP = (".h", ".inl", ".cpp", ".cu", ".cuh")
CUDA = (".cu", ".cuh")
HEADERS = (".h", ".cuh")
CODE = CPP + (".py", ".sh", ".cmake")
TEXT = CODE + (".md", ".txt", ".json", ".yml", ".yaml", ".html", ".css", ".js", "run")
FOREIGN = "tests/data/"  # texts of others, kept byte for byte


def blank(match):
    return re.sub(r"[^\n]", " ", match.group())


class Source:
    """A file's text, and `code`: the same with the insides of comments and strings blanked, so that
    lines and columns stay where they are."""

    COMMENT_OR_STRING = re.compile(
        r'//[^\n]*|/\*.*?\*/|R"(?P<tag>[^(\s]*)\(.*?\)(?P=tag)"'
        r'|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)
    INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', re.MULTILINE)

    def __init__(self, text):
        self.text = text
        self.lines = text.split("\n")
        if self.lines[-1] == "":
            self.lines.pop()
        self._starts = [0]
        for m in re.finditer("\n", text):
            self._starts.append(m.end())
        self._code = None

    @property
    def code(self):
        if self._code is None:
            self._code = self.COMMENT_OR_STRING.sub(blank, self.text)
        return self._code

    def line_of(self, offset):
        return bisect.bisect_right(self._starts, offset)

    def includes(self):
        """(line, quoted, name) of every #include that is not in a comment."""
        for m in self.INCLUDE.finditer(self.text):
            if "#" in self.code[m.start():m.end()]:
                yield self.line_of(m.start()), m.group(1) == '"', m.group(2)


class Tree:
    """All text files of the project by path; `paths` also has the files that are not text."""

    def __init__(self, texts, other_paths=()):
        self.sources = {path: Source(text) for path, text in texts.items()}
        self.paths = set(texts) | set(other_paths)
        self.folders = {str(p) for path in self.paths for p in Path(path).parents}

    @classmethod
    def read(cls, root):
        listing = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=root, capture_output=True, text=True)
        if listing.returncode == 0 and listing.stdout:
            paths = [p for p in listing.stdout.split("\0") if p and (root / p).is_file()]
        else:  # an unpacked archive has no history
            paths = [os.path.relpath(os.path.join(folder, name), root)
                     for folder, _, names in os.walk(root) for name in names]
            paths = [p for p in paths if not p.startswith(("build/", ".git/"))]
        texts = {p: (root / p).read_text(encoding="utf-8", errors="replace")
                 for p in paths if p.endswith(TEXT) and not p.startswith(FOREIGN)}
        return cls(texts, paths)

    def under(self, folders, suffixes=CPP):
        for path in sorted(self.sources):
            if path.startswith(folders) and path.endswith(suffixes):
                yield path, self.sources[path]

    def exists(self, path):
        path = path.rstrip("/")
        return path in self.paths or path in self.folders


PREPROCESSOR = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.MULTILINE)
LABEL = re.compile(r"\s*(?:(?:public|private|protected)\s*:\s*)*")
FUNCTION_NAME = re.compile(r"(~?[\w:]+|operator\s*\S+?)\s*\(")


def functions(source):
    """(name, first line, last line, is_kernel) of every function body: the outermost braces that
    belong to neither a scope nor an initialiser. A heuristic, right for formatted code."""
    code = PREPROCESSOR.sub(blank, source.code)
    stack = []  # (kind, offset, start of the header) of each open brace
    header_start = 0
    parens = 0
    for m in re.finditer(r"[{}();]", code):
        char, at = m.group(), m.start()
        if char in "()":
            parens = max(0, parens + (1 if char == "(" else -1))
            continue
        if char == "{":
            inside = parens > 0 or any(kind != "scope" for kind, _, _ in stack)
            kind = "other" if inside else brace_kind(code[header_start:at])
            stack.append((kind, at, header_start))
        elif char == "}" and stack:
            kind, opening, start = stack.pop()
            if kind == "function":
                start += LABEL.match(code[start:opening]).end()
                header = code[start:opening]
                name = FUNCTION_NAME.search(header)
                yield (name.group(1) if name else "a function", source.line_of(start),
                       source.line_of(at), "__global__" in header or "__device__" in header)
        if parens == 0:
            header_start = at + 1


def brace_kind(header):
    """What an opening brace begins, by the text between the last statement and it."""
    header = re.sub(r"\b(?:alignas|__attribute__)\s*\((?:[^()]|\([^()]*\))*\)", "", header)
    bare = re.sub(r"\boperator\s*[^\s\w(]+", "operator", header)
    shorter = None
    while shorter != bare:  # an = in parentheses or angle brackets makes no initialiser
        bare, shorter = re.sub(r"\([^()]*\)|<[^<>]*>", "", bare), bare
    if bare.strip()[:1] in ("", ","):  # after a member's own braces: Foo(int x) : x_{x} {
        return "function"
    scope = None
    for scope in re.finditer(r"\b(?:namespace|class|struct|union|enum|extern)\b", header):
        pass  # the last one decides: template <class T> void f(T x)
    if "=" in bare:
        return "other"
    if "(" in header and (scope is None or header.rindex("(") > scope.start()):
        return "function"
    return "scope" if scope else "other"


def code_spans(source):
    """(line, text) of what a Markdown file sets as code, in backticks or a fenced block."""
    fenced = False
    for number, line in enumerate(source.lines, 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif fenced:
            yield number, line
        else:
            for m in re.finditer(r"`([^`]+)`", line):
                yield number, m.group(1)
