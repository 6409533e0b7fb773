// Asks for a new answer whenever a control moves; the server draws it. Without this script the form has a button.
"use strict";

const controls = document.getElementById("controls");
const place = document.getElementById("answer");
const words = document.getElementById("words");
const csrf = document.querySelector("meta[name=csrf]").content;
const sliders = [...controls.querySelectorAll("[data-log]")];
let waiting = 0, saying = 0, asked = 0;

function text(number, whole) {
  return whole ? String(Math.max(1, Math.round(number))) : String(Number(number.toPrecision(3)));
}

function follow(best) { // sliders follow the numbers; without a k, the best one
  for (const slider of sliders) {
    const name = slider.dataset.log;
    const value = Number(controls.elements[name].value || (name === "k" ? best : 0));
    if (value > 0) slider.value = Math.log10(value);
  }
  document.getElementById("columns-field").classList.toggle("hidden", controls.elements.data.value !== "");
}

async function ask() {
  const mine = ++asked;
  const fields = Object.fromEntries(new FormData(controls));
  const response = await fetch("/plan/answer", {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-CSRF": csrf },
    body: JSON.stringify(fields),
  });
  const told = await response.json();
  if (mine !== asked) return; // a later question is under way
  if (told.html === undefined) { place.textContent = told.error; return; }
  place.innerHTML = told.html;
  place.dataset.answered = String(mine);
  if (told.largest) controls.querySelector("[data-log=k]").max = Math.log10(told.largest);
  follow(told.k);
  clearTimeout(saying);
  saying = setTimeout(() => { words.textContent = told.words; }, 700);
  history.replaceState(null, "", "/plan?" + new URLSearchParams(fields));
}

function soon() {
  clearTimeout(waiting);
  waiting = setTimeout(() => ask().catch(() => { place.textContent = "The studio does not answer: is it still running?"; }), 120);
}

for (const slider of sliders) {
  slider.classList.remove("hidden");
  slider.addEventListener("input", () => {
    const name = slider.dataset.log;
    controls.elements[name].value = text(10 ** Number(slider.value), name === "k");
  });
}
document.getElementById("update").classList.add("hidden");
controls.addEventListener("input", soon);
controls.addEventListener("submit", (event) => { event.preventDefault(); soon(); });
follow();
soon();
