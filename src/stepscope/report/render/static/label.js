"use strict";
// The labelling page: one key answers and goes on. What it sends is stored before it is acknowledged;
// where no acknowledgement comes, the page says so and the same question stays.
(() => {
  const place = document.getElementById("asked");
  if (!place || !place.querySelector(".labelling")) return;
  const now = () => place.querySelector(".labelling");
  const say = (text, bad = false) => {
    const line = place.querySelector(".saved");
    line.textContent = text;
    line.classList.toggle("bad", bad);
  };
  let since = performance.now();
  let busy = false;

  function reveal() {
    const asked = [...place.querySelectorAll(".asked")];
    if (asked.length) for (const step of asked.reverse()) step.scrollIntoView({ block: "nearest" });
    else scrollTo(0, 0);
  }

  function show(html) {
    // The server escapes every text of a trace in it.
    place.innerHTML = html;
    reveal();
  }

  async function ask(address, options) {
    if (busy) return null;
    busy = true;
    try {
      const answer = await fetch(address, options);
      const said = await answer.json();
      if (answer.ok) return said;
      say(said.error, true);
    } catch {
      say("no answer: reload the page to see if it was saved, or start stepscope label again", true);
    } finally {
      busy = false;
    }
    return null;
  }

  async function send(action, key = "") {
    const { place: at, step, policy, opened } = now().dataset;
    const body = {
      do: action,
      key,
      place: Number(at),
      step: step === "" ? null : Number(step),
      policy,
      seconds: (performance.now() - since) / 1000,
      expanded: opened ? opened.split(" ") : [],
      note: document.getElementById("note")?.value || "",
    };
    const said = await ask("/api/label", {
      method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" },
    });
    if (!said) return;
    show(said.html);
    since = performance.now();
    if (action !== "skip") say(action === "undo" ? "taken back" : "saved");
  }

  // First more steps of the run, then every text that is folded.
  async function more() {
    const { place: at, wide, more: left } = now().dataset;
    const note = document.getElementById("note").value;
    if (left !== undefined) {
      const said = await ask(`/label/more?place=${at}&wide=${Number(wide) + 1}`);
      if (said) show(said.html);
    } else {
      for (const fold of place.querySelectorAll(".exchange details")) fold.open = true;
      const opened = new Set(now().dataset.opened.split(" ").filter(Boolean));
      now().dataset.opened = [...opened.add("texts")].join(" ");
    }
    document.getElementById("note").value = note;
  }

  function act(button) {
    if (button.disabled) return;
    if (button.dataset.key) send("answer", button.dataset.key);
    else if (button.dataset.do === "more") more();
    else send(button.dataset.do);
  }

  place.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-key], button[data-do]");
    if (button) act(button);
  });

  const KEYS = { m: "more", u: "undo", s: "skip" };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    if (document.querySelector("dialog[open]")) return;
    if (event.target.closest("input")) {
      if (event.key === "Escape" || event.key === "Enter") event.target.blur();
      return;
    }
    const find = KEYS[event.key] ? `[data-do="${KEYS[event.key]}"]` : `[data-key="${CSS.escape(event.key)}"]`;
    const button = place.querySelector(find);
    if (!button) return;
    event.preventDefault();
    act(button);
  });
  reveal();
})();
