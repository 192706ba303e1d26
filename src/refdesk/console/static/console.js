// The console's only script. Every page works without it; it adds keys, results while typing, live runs, copying.

const box = () => document.querySelector("[data-search]");
const isTyping = (at) => at.matches("input:not([type=checkbox], [type=radio], [type=range]), textarea, select");

async function part(url, signal) {
  const answer = await fetch(url, { headers: { "x-part": "1" }, credentials: "same-origin", signal });
  if (answer.redirected) location.reload();
  return answer.ok ? answer.text() : null;
}

// Results while typing, and filters without a new page.
const results = document.getElementById("results");
const form = document.getElementById("search");
let asked = new AbortController();
let timer = 0;

async function show(url, { isNew = true } = {}) {
  asked.abort(); // the server need not make what nobody waits for
  const mine = asked = new AbortController();
  results.setAttribute("aria-busy", "true");
  const text = await part(url, mine.signal).catch(() => null);
  if (mine.signal.aborted) return; // a later one was asked for meanwhile
  results.removeAttribute("aria-busy");
  if (text === null) { location.assign(url); return; }
  if (url !== location.pathname + location.search) history[isNew ? "pushState" : "replaceState"](null, "", url);
  results.innerHTML = text; // made and escaped by the server; the page's policy runs no script in it
  fold(results);
  const count = results.querySelectorAll(".hit-card").length;
  document.getElementById("told").textContent = count === 1 ? "1 hit" : `${count} hits`;
}

function address() {
  const pairs = [...new FormData(form)].filter(([, value]) => value !== "");
  return "/?" + new URLSearchParams(pairs);
}

function typed() {
  clearTimeout(timer);
  timer = setTimeout(() => { if (new FormData(form).get("q").trim()) show(address(), { isNew: false }); }, 140);
}

if (form) {
  addEventListener("popstate", () => location.reload());
  form.addEventListener("input", (event) => {
    const slider = event.target.closest("[data-alpha]");
    if (slider) form.querySelector("[data-alpha-text]").value = slider.value;
    if (form.checkValidity()) typed();
  });
  form.addEventListener("submit", (event) => {
    if (!new FormData(form).get("q").trim()) return;
    event.preventDefault();
    clearTimeout(timer);
    show(address());
  });
  results.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-swap]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    for (const old of form.querySelectorAll("input[type=hidden]")) old.remove();
    const wanted = new URL(link.href).searchParams;
    const [path = "", ...paths] = wanted.getAll("path");
    form.elements.path.value = path;
    for (const name of ["q", "alpha", "other", "path", "exact"]) wanted.delete(name);
    for (const [name, value] of [...wanted, ...paths.map((one) => ["path", one])]) {
      form.append(Object.assign(document.createElement("input"), { type: "hidden", name, value }));
    }
    show(link.pathname + link.search);
  });
}

// On a phone, what stands beside the page is folded.
function fold(within) {
  if (matchMedia("(max-width: 860px)").matches) {
    for (const one of within.querySelectorAll("[data-fold]")) one.open = false;
  }
}
fold(document);
const hit = document.querySelector(".doc .hit");
if (hit && !location.hash && hit.getBoundingClientRect().bottom > innerHeight) hit.scrollIntoView({ block: "center" });

const wide = document.querySelector(".graph.pad");
if (wide) wide.scrollLeft = (wide.scrollWidth - wide.clientWidth) / 2; // the symbol itself is in the middle

// Keys.
const places = { s: "/", l: "/library", g: "/graph", p: "/playbooks", a: "/agents", u: "/setup" };
let going = 0;

function move(step) {
  const rows = [...document.querySelectorAll("[data-row]")];
  if (!rows.length) return;
  const now = rows.findIndex((row) => row.classList.contains("at"));
  const next = Math.max(0, Math.min(rows.length - 1, now < 0 ? (step > 0 ? 0 : rows.length - 1) : now + step));
  if (now >= 0) rows[now].classList.remove("at");
  rows[next].classList.add("at");
  rows[next].querySelector("a")?.focus({ preventScroll: true });
  rows[next].scrollIntoView({ block: "nearest" });
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const at = event.target;
  const inBox = at === box();
  if (event.key === "Escape" && isTyping(at)) { at.blur(); return; }
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    if (isTyping(at) && !inBox) return;
    if (at.closest("pre, dialog, .outline") || at.type === "range") return;
    if (!document.querySelector("[data-row]")) return;
    event.preventDefault();
    move(event.key === "ArrowDown" ? 1 : -1);
    return;
  }
  if (isTyping(at) || at.closest("dialog")) return;
  if (going && Date.now() - going < 1200 && places[event.key]) { location.assign(places[event.key]); return; }
  going = 0;
  const row = document.querySelector("[data-row].at");
  switch (event.key) {
    case "/": box()?.focus(); box()?.select(); break;
    case "j": move(1); break;
    case "k": move(-1); break;
    case "g": going = Date.now(); break;
    case "e": { const why = row?.querySelector(".why"); if (why) why.open = !why.open; break; }
    case "?": document.getElementById("keys").showModal(); break;
    default: return;
  }
  event.preventDefault();
});

// Runs go on while one looks at them.
async function poll(at) {
  while (at.isConnected && at.dataset.poll) {
    await new Promise((go) => setTimeout(go, document.hidden ? 4000 : 700));
    const text = await part(at.dataset.poll).catch(() => null);
    if (text === null) continue;
    at.innerHTML = text;
    if (!text.trim() || at.querySelector("[data-over]")) at.dataset.poll = "";
  }
  if (at.dataset.then) location.assign(at.dataset.then);
}
for (const at of document.querySelectorAll("[data-poll]")) if (at.dataset.poll) poll(at);

// Copying, and dropping files.
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
  const before = button.textContent;
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = before; }, 1500);
});
for (const zone of document.querySelectorAll("[data-drop]")) {
  const input = zone.querySelector("input[type=file]");
  const over = (is) => (event) => { event.preventDefault(); zone.classList.toggle("over", is); };
  zone.addEventListener("dragover", over(true));
  zone.addEventListener("dragleave", over(false));
  zone.addEventListener("drop", (event) => {
    over(false)(event);
    input.files = event.dataTransfer.files;
    input.form.requestSubmit();
  });
}

// Parts that take longer than a page may.
for (const at of document.querySelectorAll("[data-load]")) { // one after the other: each walks a folder
  const text = await part(at.dataset.load).catch(() => null);
  if (text !== null) at.innerHTML = text;
}
