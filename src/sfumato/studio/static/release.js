// Shows the fields that the chosen mechanism has.
"use strict";

const order = document.getElementById("order");

function fit() {
  const chosen = order.elements.mechanism.value;
  for (const field of order.querySelectorAll("[data-for]")) {
    field.classList.toggle("hidden", !field.dataset.for.split(";").includes(chosen));
  }
}

order.elements.mechanism.addEventListener("change", fit);
fit();
