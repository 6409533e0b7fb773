// Shows of each column the fields that its kind has.
"use strict";

function fit(line) {
  const kind = line.querySelector("select").value;
  for (const cell of line.querySelectorAll("[data-for]")) {
    const needed = cell.dataset.for.split(" ").includes(kind);
    for (const child of cell.children) child.classList.toggle("hidden", !needed);
    cell.classList.toggle("unused", !needed);
  }
}

for (const line of document.querySelectorAll("[data-line]")) {
  fit(line);
  line.querySelector("select").addEventListener("change", () => fit(line));
}
