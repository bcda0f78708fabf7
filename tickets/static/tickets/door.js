// Keeps the page while scans are sent: a page that is being loaded hears no key, and the next code
// would lose its first letters. Without this script, each scan is a page of its own.
"use strict";
const form = document.querySelector("form.scan");
const field = document.getElementById("code");
const told = document.getElementById("told");
const PARTS = ["told", "crowd", "scans"];
const PATIENCE_MS = 3000;
// Tries with the same key: within ten seconds the door takes them for one press.
const TRIES = 3;
const PAUSE_MS = 400;
const keys = new Map();
let last = Promise.resolve();

const back = () => {
  if (!window.getSelection().toString()) field.focus();
};
back();
document.addEventListener("click", (event) => {
  if (!event.target.closest("a, button, input, label")) back();
});
window.addEventListener("focus", back);

// The answer of the ticket before must not be read as that of this one.
function say(words, hint = "") {
  document.title = words;
  // The field stays where it is.
  told.style.minHeight = `${told.offsetHeight}px`;
  const answer = document.createElement("section");
  answer.className = `answer ${hint ? "lost" : "asking"}`;
  answer.append(Object.assign(document.createElement("h2"), { textContent: words }));
  if (hint) answer.append(Object.assign(document.createElement("p"), { className: "what", textContent: hint }));
  told.replaceChildren(answer);
}

async function ask(body) {
  for (let tries = 1; ; tries += 1) {
    try {
      return await fetch(window.location.href, { method: "POST", body, signal: AbortSignal.timeout(PATIENCE_MS) });
    } catch (error) {
      if (tries === TRIES) throw error;
      await new Promise((done) => setTimeout(done, PAUSE_MS));
    }
  }
}

async function scan(body) {
  say("Checking …");
  try {
    const answer = await ask(body);
    // Logged out meanwhile: the way in leads back here.
    if (answer.redirected) return window.location.assign(answer.url);
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    show(new DOMParser().parseFromString(await answer.text(), "text/html"));
  } catch {
    say("No answer", "It is not known whether this ticket is good. Check the network, reload the page, and look into the last scans.");
  }
}

function show(page) {
  document.title = page.title;
  for (const id of PARTS) document.getElementById(id).replaceChildren(...page.getElementById(id).childNodes);
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const body = new FormData(form);
  // A reader that reads one ticket twice at once has pressed once: one key for it until that is
  // answered, whatever else is answered meanwhile.
  const code = field.value.trim().toUpperCase();
  if (!keys.has(code)) keys.set(code, crypto.getRandomValues(new Uint32Array(2)).join("-"));
  body.set("key", keys.get(code));
  field.value = "";
  back();
  last = last.then(() => scan(body)).then(() => keys.delete(code));
});
