// The dashboard: asks /metrics and /ab every two seconds and draws what changed in between.

const byId = (id) => document.getElementById(id);
const kPeriodMs = 2000;
const kNumPoints = 150;  // five minutes
const kColors = ["#8a3b2a", "#2a6b8a", "#5b7a1f", "#7a4a9c", "#a0741c", "#1f7a6b"];

// name: the chart's, and what of two answers to /metrics it shows.
const kCharts = [
  { name: "Generated tokens/s", value: (now, then, s) => rate(now, then, s, "generation_tokens_total") },
  { name: "Requests/s", value: (now, then, s) => rate(now, then, s, "e2e_request_latency_seconds_count") },
  { name: "First token, mean ms", value: (now, then) => mean(now, then, "time_to_first_token_seconds") },
  { name: "Token, mean ms", value: (now, then) => mean(now, then, "inter_token_latency_seconds") },
  { name: "Request, mean ms", value: (now, then) => mean(now, then, "e2e_request_latency_seconds") },
];

const kWhole = "all requests";  // no group's name has a space

// {group: {name: value}}, of the counters of /metrics. A group's name may be that of a prototype's
// member: there is none.
function parseMetrics(text) {
  const groups = Object.assign(Object.create(null), { [kWhole]: {} });
  for (const line of text.split("\n")) {
    const match = /^(vllm|octavo):(\w+)\{([^}]*)\} (\S+)$/.exec(line);
    if (match === null || match[2].endsWith("_bucket")) continue;
    const name = match[1] === "vllm" ? kWhole : /group="([^"]*)"/.exec(match[3])?.[1];
    if (name !== undefined) (groups[name] ??= {})[match[2]] = Number(match[4]);
  }
  return groups;
}

const delta = (now, then, name) => (now[name] ?? 0) - (then[name] ?? 0);
const rate = (now, then, seconds, name) => delta(now, then, name) / seconds;

function mean(now, then, name) {
  const count = delta(now, then, `${name}_count`);
  return count > 0 ? (1000 * delta(now, then, `${name}_sum`)) / count : null;
}

// --- drawing

function addChart(chart) {
  const figure = document.createElement("figure");
  const caption = document.createElement("figcaption");
  const canvas = document.createElement("canvas");
  figure.append(caption, canvas);
  byId("charts").append(figure);
  Object.assign(chart, { caption, canvas, series: new Map() });
}

const color = (index) => kColors[index % kColors.length];
const short = (value) => (Math.abs(value) >= 100 ? value.toFixed(0) : value.toPrecision(3));

function draw(chart) {
  const { canvas, series, caption } = chart;
  const scale = window.devicePixelRatio || 1;
  const width = canvas.clientWidth, height = canvas.clientHeight;
  canvas.width = width * scale;
  canvas.height = height * scale;
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  const most = Math.max(1e-9, ...[...series.values()].flat().filter((value) => value !== null));
  caption.replaceChildren(chart.name);
  [...series].forEach(([name, points], index) => {
    const last = points.findLast((value) => value !== null);
    const label = document.createElement("span");
    label.textContent = `${name} ${last === undefined ? "–" : short(last)}`;
    label.style.color = color(index);
    caption.append(label);
    context.strokeStyle = color(index);
    context.lineWidth = 1.5;
    context.beginPath();
    let open = false;
    points.forEach((value, at) => {
      if (value === null) return;
      const x = (width * (at + kNumPoints - points.length)) / (kNumPoints - 1);
      const y = height - 2 - ((height - 4) * value) / most;
      if (open) context.lineTo(x, y);
      else context.moveTo(x, y);
      open = true;
    });
    context.stroke();
  });
}

// --- the table

const milliseconds = (seconds) => short(seconds * 1000);
const pair = (latency) =>
  latency.count > 0 ? `${milliseconds(latency.p50)} / ${milliseconds(latency.p99)} ms` : "–";

function difference(group) {
  const interval = group.difference?.latency_s;
  if (!group.difference) return "";
  if (!interval) return "too few requests";
  return `${milliseconds(interval.mean)} ms [${milliseconds(interval.low)}, ${milliseconds(interval.high)}]`;
}

function showGroups(report) {
  byId("window").textContent = `The last ${Math.round(report.window_s)} s; brackets hold 95 %`;
  byId("groups").replaceChildren(...report.groups.map((group) => {
    const row = document.createElement("tr");
    const cells = [group.name, group.weight, group.requests, group.errors,
      short(group.generation_tokens_per_s), pair(group.ttft_s), pair(group.itl_s),
      pair(group.latency_s), difference(group)];
    for (const text of cells) row.insertCell().textContent = text;
    return row;
  }));
}

// --- polling

let last = null;

async function ask(path) {
  const response = await fetch(path, { cache: "no-store" });
  if (!response.ok) throw new Error(`${path}: ${response.status} ${response.statusText}`);
  return response;
}

async function poll() {
  try {
    const groups = parseMetrics(await (await ask("metrics")).text());
    const time = performance.now();
    showGroups(await (await ask("ab")).json());
    const all = groups[kWhole];
    byId("load").textContent = `${all.num_requests_running} running, ${all.num_requests_waiting} waiting, ` +
      `KV cache ${short(100 * all.kv_cache_usage_perc)} %`;
    if (last !== null) {
      const seconds = (time - last.time) / 1000;
      for (const chart of kCharts) {
        for (const name of Object.keys(groups)) {
          const points = chart.series.get(name) ?? [];
          points.push(chart.value(groups[name], last.groups[name] ?? {}, seconds));
          chart.series.set(name, points.slice(-kNumPoints));
        }
        draw(chart);
      }
    }
    last = { time, groups };
    byId("problem").hidden = true;
  } catch (error) {
    byId("problem").textContent = String(error.message ?? error);
    byId("problem").hidden = false;
  }
  setTimeout(poll, kPeriodMs);
}

kCharts.forEach(addChart);
poll();
