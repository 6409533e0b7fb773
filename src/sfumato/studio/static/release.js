// Shows the fields that the chosen mechanism has, and follows the chosen table: its columns, a free name, who pays.
"use strict";

const order = document.getElementById("order");
const field = order.elements;
let named = field.name.value; // as long as nobody typed another one, the name follows the table

function fit() {
  const chosen = field.mechanism.value;
  for (const part of order.querySelectorAll("[data-for]")) {
    const within = chosen === "sketch" && field.space?.value && "spaceless" in part.dataset; // the space says it
    part.classList.toggle("hidden", within || !part.dataset.for.split(";").includes(chosen));
  }
  const graph = order.getAttribute("data-graphs").split(";").includes(chosen);
  if (graph !== (field.unit.value === "edge")) field.unit.value = graph ? "edge" : "record";
}

async function follow() {
  const asked = field.data.value;
  const query = new URLSearchParams({ data: asked, mechanism: field.mechanism.value });
  const response = await fetch("/release/table?" + query);
  if (!response.ok || asked !== field.data.value) return;
  const told = await response.json();
  const before = field.label.value;
  field.label.replaceChildren(new Option("none", ""), ...told.labels.map((name) => new Option(name, name)));
  field.label.value = told.labels.includes(before) ? before : "";
  if (field.name.value === named) field.name.value = named = told.name;
  if (field.dataset && told.payer) field.dataset.value = told.payer;
}

field.mechanism.addEventListener("change", () => { fit(); follow().catch(() => {}); });
field.data.addEventListener("change", () => { follow().catch(() => {}); });
field.space?.addEventListener("change", fit);
fit();
