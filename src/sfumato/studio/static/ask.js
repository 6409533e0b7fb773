// Examples become buttons that fill the question; they and the payer follow the chosen table.
"use strict";

const question = document.getElementById("question");
const field = question.elements;
const list = document.getElementById("examples");

function offer(texts) {
  list.replaceChildren(...texts.map((text) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "plain";
    button.textContent = text;
    button.addEventListener("click", () => { field.query.value = text; field.query.focus(); });
    const item = document.createElement("li");
    item.append(button);
    return item;
  }));
}

field.data.addEventListener("change", async () => {
  const asked = field.data.value;
  const response = await fetch("/ask/table?" + new URLSearchParams({ data: asked }));
  if (!response.ok || asked !== field.data.value) return;
  const told = await response.json();
  offer(told.examples);
  if (told.payer) field.dataset.value = told.payer;
});
offer([...list.querySelectorAll("code")].map((code) => code.textContent));
