// The form of a schema: shows of each column the fields that its kind has, searches columns, and fills many alike.
"use strict";

const form = document.getElementById("schema");
const byId = (id) => document.getElementById(id);
const blank = form ? byId("blank").content.firstElementChild : null;
const lines = form ? [...form.querySelectorAll("[data-line]")] : [];
const LARGEST = 1 << 20; // bytes that the studio takes at once
const COMMON = ["low", "high", "missing", "weight", "values"]; // offered whatever the kinds are
const MANY = 8; // columns from which on tools for many of them are shown
let changed = false;

const kindOf = (line) => line.querySelector("select");
const nameOf = (line) => line.querySelector("strong").textContent;
const picked = (line) => line.querySelector(".pick").checked;
const pieceOf = (line, key) => line.querySelector(`[data-key="${key}"]`);
const fieldOf = (piece) => piece.querySelector("input, select, textarea");
// The fields of each kind; not on the form, whose own properties its fields hide and are slow to look up.
const KINDS = form ? { ...byId("lines").dataset } : {};
const keysOf = (kind) => (kind ? KINDS[`kind${kind}`].split(" ") : []);
const neededOf = (kind) => (KINDS[`needed${kind}`] || "").split(" ");

// ---- one line -------------------------------------------------------------------------------------------------------

function adapt(piece, kind) { // what an empty field shows depends on the kind
  const hints = JSON.parse(pieceOf(blank, piece.dataset.key).dataset.hints);
  const field = fieldOf(piece);
  const hint = hints[kind] || "";
  if (field.tagName === "INPUT" && field.placeholder !== hint) field.placeholder = hint;
}

function label(element, number, name) { // a piece of the blank line becomes one of this line
  for (const field of element.querySelectorAll("input, select, textarea")) {
    if (field.id) field.id = field.id.replace("#", number);
    if (field.name) field.name = field.name.replace("#", number);
    if (field.hasAttribute("aria-label")) field.setAttribute("aria-label", `${field.getAttribute("aria-label").trim()} ${name}`);
  }
}

function fit(line) {
  const kind = kindOf(line).value;
  const keys = keysOf(kind);
  for (const model of blank.querySelectorAll("[data-key]")) {
    const key = model.dataset.key;
    let piece = pieceOf(line, key);
    if (!piece && keys.includes(key)) {
      piece = model.cloneNode(true);
      piece.removeAttribute("data-hints");
      label(piece, kindOf(line).name.split(".")[0], nameOf(line));
      const place = line.querySelector(`.${model.parentElement.className}`);
      const later = [...place.children].find((other) => follows(other.dataset.key, key));
      place.insertBefore(piece, later || null);
    }
    if (!piece) continue;
    piece.classList.toggle("hidden", !keys.includes(key));
    if (keys.includes(key)) adapt(piece, kind);
  }
}

function follows(key, other) {
  return Boolean(pieceOf(blank, other).compareDocumentPosition(pieceOf(blank, key)) & Node.DOCUMENT_POSITION_FOLLOWING);
}

function forgive(field) { // what is being mended is no longer wrong
  const complaint = byId(field.getAttribute("aria-describedby"));
  if (complaint) complaint.remove();
  field.removeAttribute("aria-invalid");
  field.removeAttribute("aria-describedby");
}

function write(line, key, text) { // only where the kind has such a field
  if (text === "" || !keysOf(kindOf(line).value).includes(key)) return;
  const field = fieldOf(pieceOf(line, key));
  field.value = text;
  forgive(field);
}

function become(line, kind) {
  if (kindOf(line).value === kind) return;
  kindOf(line).value = kind;
  forgive(kindOf(line));
  fit(line);
}

function incomplete(line) {
  if (line.querySelector("[aria-invalid]")) return true;
  const text = (key) => (pieceOf(line, key) ? fieldOf(pieceOf(line, key)).value.trim() : "");
  const instead = { size: "columns", values: "buckets" };
  return neededOf(kindOf(line).value).some((key) => key && !text(key) && !(instead[key] && text(instead[key])));
}

// ---- search and selection -------------------------------------------------------------------------------------------

function matcher(text) { // part of a name; with * or ? the whole name
  const wanted = text.trim().toLowerCase();
  if (!/[*?]/.test(wanted)) return (name) => name.toLowerCase().includes(wanted);
  const pattern = wanted.replace(/[.+^${}()|[\]\\]/g, "\\$&").replace(/\*/g, ".*").replace(/\?/g, ".");
  const whole = new RegExp(`^${pattern}$`, "s");
  return (name) => whole.test(name.toLowerCase());
}

function search() {
  const matches = matcher(byId("search").value);
  const only = byId("only").value;
  for (const line of lines) {
    const kind = only === "*" || (only === "*bad" ? incomplete(line) : only === "*picked" ? picked(line) : kindOf(line).value === only);
    line.hidden = !(kind && matches(nameOf(line)));
  }
  tally();
}

function tally(done = "") {
  const count = (test) => lines.filter(test).length.toLocaleString("en");
  const told = `${count((line) => !line.hidden)} of ${count(() => true)} columns shown, ${count(picked)} selected, ${count(incomplete)} not complete.`;
  byId("tally").textContent = done ? `${done} ${told}` : told;
}

function pick(chosen, on) {
  for (const line of chosen) line.querySelector(".pick").checked = on;
  tally();
}

// ---- many alike -----------------------------------------------------------------------------------------------------

const wanted = (key) => byId(`all-${key}`).value.trim();

function offer() { // the fields that the chosen kind has
  const kind = byId("all-kind").value;
  for (const part of byId("fill").querySelectorAll("[data-all]")) {
    part.classList.toggle("hidden", !(kind === "*" ? COMMON : keysOf(kind)).includes(part.dataset.all));
  }
}

function fill() {
  const chosen = lines.filter(picked);
  const kind = byId("all-kind").value;
  const keys = [...byId("fill").querySelectorAll("[data-all]:not(.hidden)")].map((part) => part.dataset.all);
  const texts = new Map(keys.map((key) => [key, wanted(key)]));
  for (const line of chosen) {
    if (kind !== "*") become(line, kind);
    for (const [key, text] of texts) write(line, key, text);
  }
  changed = changed || chosen.length > 0;
  tally(chosen.length ? `Filled ${chosen.length.toLocaleString("en")} columns.` : "Select columns first.");
}

function join() { // the selected columns are left out, and one vector is read from them
  const chosen = lines.filter(picked);
  const name = byId("joined").value.trim();
  if (!chosen.length || !name) { tally("Select columns and name the vector first."); return; }
  const line = blank.cloneNode(true);
  const number = String(lines.length);
  line.querySelectorAll("[data-key]").forEach((piece) => piece.remove());
  line.querySelector(".named strong").id = `n${number}`;
  line.setAttribute("aria-labelledby", `n${number}`);
  line.querySelector(".named strong").textContent = name;
  line.querySelector(".named input").value = name;
  line.querySelector(".named small").textContent = "vector of the columns listed";
  label(line, number, name);
  lines.push(line);
  form.elements.lines.value = String(lines.length);
  byId("lines").append(line);
  listen(line);
  become(line, "vector");
  for (const key of ["low", "high"]) write(line, key, byId(`joined-${key}`).value.trim());
  write(line, "columns", chosen.map(nameOf).join("\n"));
  for (const other of chosen) become(other, "");
  changed = true;
  pick(chosen, false);
  tally(`Joined ${chosen.length.toLocaleString("en")} columns into ${name}.`);
  fieldOf(pieceOf(line, "low")).focus();
}

// ---- the page -------------------------------------------------------------------------------------------------------

function listen(line) {
  line.querySelector(".pick").classList.remove("hidden");
}

function start() {
  if (lines.length >= MANY) {
    lines.forEach(listen);
    byId("tools").classList.remove("hidden");
    form.classList.add("picking");
  }
  form.addEventListener("input", (event) => {
    const line = event.target.closest("[data-line]");
    if (event.target.classList.contains("pick")) { tally(); return; }
    changed = true;
    if (!line) return;
    forgive(event.target);
    if (event.target === kindOf(line)) fit(line);
  });
  form.addEventListener("change", () => tally());
  for (const id of ["search", "only"]) byId(id).addEventListener("input", search);
  byId("pick").addEventListener("click", () => pick(lines.filter((line) => !line.hidden), true));
  byId("drop").addEventListener("click", () => pick(lines, false));
  byId("all-kind").addEventListener("input", offer);
  byId("fill").addEventListener("submit", (event) => { event.preventDefault(); fill(); });
  byId("join").addEventListener("submit", (event) => { event.preventDefault(); join(); });
  form.addEventListener("submit", (event) => {
    const size = new URLSearchParams(new FormData(form)).toString().length;
    changed = changed && size >= LARGEST;
    byId("too-large").textContent = size < LARGEST ? "" : "This is more than the form can send: list fewer values, or describe the table as text below.";
    if (size >= LARGEST) event.preventDefault();
  });
  window.addEventListener("beforeunload", (event) => { if (changed) event.preventDefault(); });
  byId("learn").addEventListener("keydown", (event) => { // else Enter would save the schema
    if (event.key !== "Enter" || event.target.tagName !== "INPUT") return;
    event.preventDefault();
    byId("learning").click();
  });
  offer();
  search();
}

if (form) start();
