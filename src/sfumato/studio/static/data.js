// Shows of each column the fields that its kind has, and takes complaints back once a field is edited.
"use strict";

function fit(line) {
  const kind = line.querySelector("select").value;
  for (const cell of line.querySelectorAll("[data-for]")) {
    const needed = cell.dataset.for.split(" ").includes(kind);
    for (const child of cell.children) child.classList.toggle("hidden", !needed);
    cell.classList.toggle("unused", !needed);
  }
}

function forgive(field) { // what is being mended is no longer wrong
  const complaint = document.getElementById(field.getAttribute("aria-describedby"));
  if (complaint) complaint.remove();
  field.removeAttribute("aria-invalid");
  field.removeAttribute("aria-describedby");
}

for (const line of document.querySelectorAll("[data-line]")) {
  fit(line);
  line.addEventListener("input", (event) => forgive(event.target));
  line.querySelector("select").addEventListener("change", () => fit(line));
}
