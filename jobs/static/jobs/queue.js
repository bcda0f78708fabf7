// Looks at the queue again every few seconds; without it the page refreshes by itself.
"use strict";
const queue = document.getElementById("queue");
const away = document.getElementById("queue-away");
const PATIENCE_MS = 30000;
let looking = false;

// Only what differs: what is read aloud, opened or selected stays.
function show(text) {
  const fresh = new DOMParser().parseFromString(text, "text/html");
  const parts = [...fresh.querySelectorAll("[data-part]")];
  const known = [...queue.querySelectorAll("[data-part]")];
  if (parts.map((one) => one.dataset.part).join() !== known.map((one) => one.dataset.part).join()) {
    queue.replaceChildren(...parts);
    return;
  }
  parts.forEach((part, place) => {
    const open = [...known[place].querySelectorAll("details")].map((one) => one.open);
    part.querySelectorAll("details").forEach((one, number) => { one.open = open[number] ?? false; });
    if (part.innerHTML !== known[place].innerHTML) known[place].replaceChildren(...part.childNodes);
  });
}

// One at a time: while a server hangs, looks of an open page would take every thread of the web part.
async function look() {
  if (document.hidden || looking) return;
  looking = true;
  let seen = false;
  try {
    const answer = await fetch(queue.dataset.url, { signal: AbortSignal.timeout(PATIENCE_MS) });
    // Who is logged out is led to another page.
    seen = answer.ok && !answer.redirected;
    if (seen) show(await answer.text());
  } catch {
    // Told below: the next look may tell more.
  }
  looking = false;
  away.hidden = seen;
}

if (queue) setInterval(look, Number(queue.dataset.every) * 1000);
