
"use strict";
// Draws the edges between what is visible: a closed box stands for all that is in it.
const graph = document.getElementById("graph");
const edges = JSON.parse(document.getElementById("edges").content.textContent);
const space = "http://www.w3.org/2000/svg";
const picture = graph.appendChild(document.createElementNS(space, "svg"));
picture.innerHTML =
  '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="6" markerHeight="6" orient="auto">' +
  '<path d="M0 0L8 4L0 8" fill="none" stroke="context-stroke"/></marker></defs>';
const parts = new Map();
for (const each of graph.querySelectorAll("[id]")) parts.set(each.id, each);

// The outermost closed box around an element, or the element itself.
function visible(element) {
  let shown = element;
  for (let above = element.parentElement; above !== graph; above = above.parentElement) {
    if (!above.open) shown = above;
  }
  return shown;
}

// A line down to what stands right below, or a curve beside what lies between.
function shape(from, to, origin) {
  const x = from.left - origin.left + 24, y = from.bottom - origin.top;
  const end = to.left - origin.left + 24, top = to.top - origin.top;
  if (top - y >= 0 && top - y < 60) return `M${x} ${y}C${x} ${y + 12} ${end} ${top - 12} ${end} ${top}`;
  const right = from.right - origin.left, far = to.right - origin.left;
  const middle = (from.top + from.bottom) / 2 - origin.top, level = (to.top + to.bottom) / 2 - origin.top;
  const bulge = Math.max(right, far) + Math.min(20 + Math.abs(level - middle) / 6, 180);
  return `M${right} ${middle}C${bulge} ${middle} ${bulge} ${level} ${far} ${level}`;
}

function draw() {
  for (const old of picture.querySelectorAll(":scope > path")) old.remove();
  const origin = graph.getBoundingClientRect();
  const drawn = new Set();
  for (const [source, target, label] of edges) {
    const from = visible(parts.get("n" + source)), to = visible(parts.get("n" + target));
    const key = from.id + " " + to.id;
    if (from === to || drawn.has(key)) continue;
    drawn.add(key);
    const line = picture.appendChild(document.createElementNS(space, "path"));
    line.setAttribute("d", shape(from.getBoundingClientRect(), to.getBoundingClientRect(), origin));
    line.setAttribute("marker-end", "url(#tip)");
    line.dataset.from = from.id;
    line.dataset.to = to.id;
    line.appendChild(document.createElementNS(space, "title")).textContent = label;
  }
}

function mark(id, on) {
  for (const line of picture.querySelectorAll(":scope > path")) {
    if (line.dataset.from !== id && line.dataset.to !== id) continue;
    line.classList.toggle("marked", on);
    parts.get(line.dataset.from === id ? line.dataset.to : line.dataset.from).classList.toggle("marked", on);
  }
}

function openAll(on) {
  for (const box of graph.querySelectorAll("details")) box.open = on;
  draw();
}

for (const [id, part] of parts) {
  if (part === graph || !id.startsWith("n")) continue;
  const handle = part.tagName === "DETAILS" ? part.firstElementChild : part;
  handle.addEventListener("pointerenter", () => mark(id, true));
  handle.addEventListener("pointerleave", () => mark(id, false));
}
graph.addEventListener("toggle", draw, true);
document.getElementById("open").addEventListener("click", () => openAll(true));
document.getElementById("close").addEventListener("click", () => openAll(false));
window.addEventListener("resize", draw);
draw();
