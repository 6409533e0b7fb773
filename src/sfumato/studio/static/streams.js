// Shows the fields that the chosen statistic has.
"use strict";

const form = document.getElementById("stream");

function fit() {
  for (const part of form.querySelectorAll("[data-for]")) {
    part.classList.toggle("hidden", part.dataset.for !== form.elements.statistic.value);
  }
}

if (form) {
  form.elements.statistic.addEventListener("change", fit);
  fit();
}
