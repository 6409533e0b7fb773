// Follows a job until it ends.
"use strict";

const job = document.getElementById("job");
const byId = (id) => document.getElementById(id);
function say(element, text) { // only changes are read aloud
  if (element.textContent.trim() !== text) element.textContent = text;
}

function show(facts) {
  const over = facts.state !== "running";
  say(byId("status"), facts.said);
  if (facts.share === null && !over) byId("bar").removeAttribute("value");
  else byId("bar").value = facts.share === null ? 0 : facts.share;
  const turn = facts.turn > 1 ? `, reading ${facts.turn} of the table` : "";
  say(byId("count"), facts.rows === null ? "" : `${facts.rows.toLocaleString("en")} rows read${turn}`);
  say(byId("message"), facts.message);
  say(byId("spent"), facts.spent);
  byId("cancel").classList.toggle("hidden", over);
  byId("again").classList.toggle("hidden", !over);
  byId("result").classList.toggle("hidden", facts.state !== "done");
  job.dataset.state = facts.state;
  if (facts.state === "done" && "follow" in job.dataset) location.assign(byId("result").href);
  else if (facts.state === "done") byId("result").focus();
}

async function follow() {
  try {
    const facts = await (await fetch("/release/state")).json();
    show(facts);
    if (facts.state === "running") setTimeout(follow, 250);
  } catch {
    say(byId("status"), "The studio does not answer: is it still running?");
    setTimeout(follow, 2000);
  }
}

if (job.dataset.state === "running") follow();
