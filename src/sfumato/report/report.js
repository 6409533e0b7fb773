"use strict";
// Each plot gets a probe: the point under the pointer, or the one that arrow keys lead to, is told below it.
const plots = JSON.parse(document.getElementById("plots").textContent);
const made = (name, attributes) => {
  const node = document.createElementNS(document.querySelector("svg").namespaceURI, name);
  for (const key in attributes) node.setAttribute(key, attributes[key]);
  return node;
};
for (const [name, plot] of Object.entries(plots)) {
  const svg = document.getElementById(name), told = document.getElementById(name + "-told");
  const probe = svg.querySelector(".probe"), box = svg.viewBox.baseVal;
  const line = made("line", {class: "hair", y1: plot.top, y2: plot.floor});
  const dots = plot.y.map(() => made("circle", {r: 5, class: "at"}));
  probe.append(line, ...dots);
  let here = plot.first;
  const show = (place) => {
    here = Math.max(0, Math.min(plot.x.length - 1, place));
    line.setAttribute("x1", plot.x[here]);
    line.setAttribute("x2", plot.x[here]);
    dots.forEach((dot, i) => {
      dot.setAttribute("cx", plot.x[here]);
      dot.setAttribute("cy", plot.y[i][here]);
    });
    told.textContent = plot.told[here];
    svg.setAttribute("aria-valuenow", here);
    svg.setAttribute("aria-valuetext", plot.told[here]);
  };
  const point = (event) => {
    const edge = svg.getBoundingClientRect();
    const x = (event.clientX - edge.left) / edge.width * box.width;
    let best = 0;
    plot.x.forEach((at, i) => { if (Math.abs(at - x) < Math.abs(plot.x[best] - x)) best = i; });
    show(best);
  };
  svg.addEventListener("pointermove", point);
  svg.addEventListener("pointerdown", point);
  svg.addEventListener("keydown", (event) => {
    const last = plot.x.length - 1, leap = Math.max(1, Math.round(last / 10));
    const to = {ArrowLeft: here - 1, ArrowDown: here - 1, ArrowRight: here + 1, ArrowUp: here + 1,
      PageDown: here - leap, PageUp: here + leap, Home: 0, End: last}[event.key];
    if (to === undefined) return;
    event.preventDefault();
    show(to);
  });
  svg.setAttribute("tabindex", "0");
  svg.setAttribute("role", "slider");
  svg.setAttribute("aria-valuemin", "0");
  svg.setAttribute("aria-valuemax", String(plot.x.length - 1));
  show(here);
}
document.documentElement.classList.add("live");
