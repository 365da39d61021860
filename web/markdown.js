// Markdown to DOM nodes. Text reaches the page through textContent alone: whatever a model writes,
// none of it becomes HTML.

function element(tag, className = "", ...children) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  node.append(...children);
  return node;
}

// Only what opens a page in a browser; "javascript:" and its kin stay text.
function safeLink(url) {
  try {
    return ["http:", "https:", "mailto:"].includes(new URL(url).protocol) ? url : null;
  } catch {
    return null;
  }
}

const kInline =
  /(`+)(.+?)\1(?!`)|\*\*(?=\S)(.+?)\*\*|\*(?=\S)([^*]+?)\*|~~(?=\S)(.+?)~~|\[([^\]\n]{1,400})\]\(([^()\s]{1,2000})\)/s;

function inline(text) {
  const nodes = [];
  for (;;) {
    const found = kInline.exec(text);
    if (!found) break;
    const [whole, , code, strong, emphasis, deleted, label, url] = found;
    nodes.push(text.slice(0, found.index));
    if (code !== undefined) nodes.push(element("code", "", code));
    else if (strong !== undefined) nodes.push(element("strong", "", ...inline(strong)));
    else if (emphasis !== undefined) nodes.push(element("em", "", ...inline(emphasis)));
    else if (deleted !== undefined) nodes.push(element("del", "", ...inline(deleted)));
    else if (safeLink(url)) {
      const link = element("a", "", ...inline(label));
      link.href = url;
      link.rel = "noopener noreferrer";
      link.target = "_blank";
      nodes.push(link);
    } else nodes.push(whole);
    text = text.slice(found.index + whole.length);
  }
  nodes.push(text);
  return nodes;
}

function codeBlock(language, lines) {
  const text = lines.join("\n");
  const copy = element("button", "", "Copy");
  copy.type = "button";
  copy.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      copy.textContent = "Copied";
    } catch {
      copy.textContent = "Not allowed";
    }
    setTimeout(() => { copy.textContent = "Copy"; }, 1500);
  });
  const bar = element("div", "bar", element("span", "", language || "text"), copy);
  const pre = element("pre", "", element("code", "", text));
  pre.tabIndex = 0;  // long lines scroll by keyboard too
  return element("div", "code", bar, pre);
}

const kItem = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;

// Items that stand further right than the first belong to a list within the item before them.
function list(lines, depth) {
  const first = kItem.exec(lines[0]);
  const node = element(/\d/.test(first[2]) ? "ol" : "ul");
  if (node.tagName === "OL") node.start = parseInt(first[2], 10);
  for (let i = 0; i < lines.length;) {
    const item = kItem.exec(lines[i++]);
    const inner = [];
    let text = item ? item[3] : lines[i - 1].trim();
    while (i < lines.length) {
      const next = kItem.exec(lines[i]);
      if (next && next[1].length <= first[1].length) break;
      if (next || inner.length > 0) inner.push(lines[i]);
      else text += "\n" + lines[i].trim();
      ++i;
    }
    const entry = element("li", "", ...inline(text));
    if (inner.length > 0 && depth < 8) entry.append(list(inner, depth + 1));
    else if (inner.length > 0) entry.append("\n" + inner.join("\n"));
    node.append(entry);
  }
  return node;
}

function cells(line) {
  return line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());
}

function table(lines) {
  const row = (tag, line) => element("tr", "", ...cells(line).map((c) => element(tag, "", ...inline(c))));
  const head = element("thead", "", row("th", lines[0]));
  const body = element("tbody", "", ...lines.slice(2).map((line) => row("td", line)));
  return element("div", "table", element("table", "", head, body));
}

const kFence = /^\s*(`{3,}|~{3,})\s*([\w+#.-]*)/;
const kDelimiter = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)+\|?\s*$/;

// Takes what belongs together from the beginning of `lines`, and returns its node.
function takeBlock(lines, depth) {
  const takeWhile = (test) => {
    let count = 1;
    while (count < lines.length && test(lines[count])) ++count;
    return lines.splice(0, count);
  };
  const line = lines[0];
  const fence = kFence.exec(line);
  if (fence) {
    const block = takeWhile((next) => !next.trim().startsWith(fence[1]));
    lines.shift();
    return codeBlock(fence[2], block.slice(1));
  }
  const heading = /^(#{1,6})\s+(.*)$/.exec(line);
  if (heading) {
    lines.shift();
    return element("h" + Math.min(heading[1].length + 2, 5), "", ...inline(heading[2]));
  }
  if (/^\s*([-*_])(\s*\1){2,}\s*$/.test(line)) {
    lines.shift();
    return element("hr");
  }
  if (/^\s*>/.test(line)) {
    const quoted = takeWhile((next) => /^\s*>/.test(next)).map((l) => l.replace(/^\s*> ?/, ""));
    return element("blockquote", "", ...blocks(quoted, depth + 1));
  }
  if (kItem.test(line)) {
    return list(takeWhile((next) => kItem.test(next) || /^\s+\S/.test(next)), 0);
  }
  if (line.includes("|") && lines.length > 1 && kDelimiter.test(lines[1])) {
    return table(takeWhile((next) => next.includes("|")));
  }
  const paragraph = takeWhile((next) => next.trim() !== "" && !kFence.test(next) &&
    !/^(#{1,6}\s|\s*>)/.test(next) && !kItem.test(next));
  return element("p", "", ...inline(paragraph.join("\n")));
}

function blocks(lines, depth) {
  if (depth > 8) return [element("p", "", lines.join("\n"))];
  const nodes = [];
  while (lines.length > 0) {
    if (lines[0].trim() === "") lines.shift();
    else nodes.push(takeBlock(lines, depth));
  }
  return nodes;
}

export function renderMarkdown(text) {
  return blocks(text.split("\n"), 0);
}
