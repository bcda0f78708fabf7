// Follows the state of an order; without it the page refreshes by itself.
"use strict";
const progress = document.getElementById("progress");
const holders = document.getElementById("holders");
const FINAL = ["emailed", "bounced", "partly_refunded", "deleted", "refunded", "cancelled"];

function show(status) {
  progress.dataset.state = status.state;
  for (const part of progress.querySelectorAll("[data-for]")) {
    part.hidden = part.dataset.for !== status.state;
  }
  progress.querySelector("[data-pdf]").hidden = !status.pdf;
  const estimate = progress.querySelector("[data-estimate]");
  estimate.textContent = status.estimate;
  estimate.hidden = !status.estimate;
}

// Who goes in is there as soon as the tickets are.
async function name(status) {
  if (!status.tickets || holders.childElementCount) return;
  const answer = await fetch(window.location.pathname);
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  holders.replaceChildren(...page.getElementById("holders").childNodes);
}

function over() {
  const { state } = progress.dataset;
  // After a refund of some, the file of the others is made anew.
  if (state === "partly_refunded" && progress.querySelector("[data-pdf]").hidden) return false;
  return FINAL.includes(state);
}

async function follow(pause) {
  if (over()) return;
  await new Promise((done) => setTimeout(done, pause * (0.8 + Math.random() * 0.4)));
  try {
    const answer = await fetch(progress.dataset.statusUrl, { headers: { Accept: "application/json" } });
    if (answer.ok) {
      const status = await answer.json();
      await name(status);
      show(status);
    }
  } catch {
    // Offline for a moment: the next look will tell.
  }
  follow(Math.min(pause * 1.4, 15000));
}

// What was just done is told once: not again when the page is opened later.
window.history.replaceState(null, "", window.location.pathname);
follow(1000);
