"use strict";
// What a page can do beyond being read: pages of one file, order and filter of tables, charts,
// keys, light and dark, and word of a changing store. It lays out and computes no figure; text of a
// trace is only ever read from the page and written as text.
(() => {
  const root = document.documentElement;
  const one = (selector, within = document) => within.querySelector(selector);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const inFile = root.dataset.mode === "file";
  root.dataset.js = "";

  // -- The address: what is shown, and how it is chosen and ordered.

  const place = () => {
    const [anchor, query] = location.hash.slice(1).split("?");
    return { anchor, query: new URLSearchParams(inFile ? query || "" : location.search) };
  };

  function remember(key, value) {
    const { anchor, query } = place();
    if (value) query.set(key, value); else query.delete(key);
    const said = query.toString();
    const address = inFile
      ? `#${anchor || "overview"}${said ? `?${said}` : ""}`
      : `${location.pathname}${said ? `?${said}` : ""}${location.hash}`;
    history.replaceState(null, "", address);
  }

  // -- One file with all pages: one is shown at a time.

  function show() {
    const { anchor } = place();
    const target = (anchor && document.getElementById(anchor)) || one(".page");
    const page = target && target.closest(".page");
    if (!page) return;
    if (inFile) {
      for (const other of all(".page")) other.hidden = other !== page;
      document.title = `${page.dataset.title} · stepscope`;
      for (const link of all(".top nav a")) {
        if (link.getAttribute("href") === `#${page.dataset.page}`) link.setAttribute("aria-current", "page");
        else link.removeAttribute("aria-current");
      }
    }
    for (let at = target; at && at !== page; at = at.parentElement) {
      if (at.tagName === "DETAILS") at.open = true;
    }
    if (target === page) { if (inFile) scrollTo(0, 0); } else reveal(target);
    restore();
    watch();
  }

  function reveal(element) {
    element.scrollIntoView({ block: element.classList.contains("step") ? "start" : "center" });
    element.focus({ preventScroll: true });
  }

  // -- Tables: ordered by a click on a head, chosen by a form, taken away as CSV.

  const key = (row, at) => {
    const cell = row.cells[at];
    if (!cell) return null;
    const said = cell.dataset.sort ?? cell.textContent.trim();
    if (said === "" || said === "-") return null;
    return cell.dataset.sort !== undefined && said !== "" && isFinite(said) ? Number(said) : said;
  };

  function order(table, at, descending) {
    const body = table.tBodies[0];
    const words = new Intl.Collator(undefined, { numeric: true });
    const rows = [...body.rows].map((row) => [key(row, at), row]);
    rows.sort(([a], [b]) => {
      if (a === null || b === null) return (a === null) - (b === null);
      const way = typeof a === "number" && typeof b === "number" ? a - b : words.compare(a, b);
      return descending ? -way : way;
    });
    body.append(...rows.map(([, row]) => row));
    for (const head of all("thead th", table)) head.removeAttribute("aria-sort");
    table.tHead.rows[0].cells[at].setAttribute("aria-sort", descending ? "descending" : "ascending");
  }

  function sortable(table) {
    [...table.tHead.rows[0].cells].forEach((head, at) => {
      if (one("a", head)) return;
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const descending = head.getAttribute("aria-sort") === "ascending"
          || (!head.hasAttribute("aria-sort") && head.classList.contains("num"));
        order(table, at, descending);
        remember(`sort-${table.id}`, `${descending ? "-" : ""}${at}`);
      });
    });
  }

  function restore() {
    const { query } = place();
    for (const [name, value] of query) {
      const table = name.startsWith("sort-") && document.getElementById(name.slice(5));
      const at = Math.abs(Number(value));
      if (table && table.tHead && at < table.tHead.rows[0].cells.length) order(table, at, value.startsWith("-"));
    }
    if (inFile) for (const form of all("form[data-filter]")) {
      for (const field of form.elements) if (field.name && query.has(field.name)) field.value = query.get(field.name);
      filter(form);
    }
  }

  function filter(form) {
    const table = document.getElementById(form.dataset.filter);
    const text = (form.elements.q?.value || "").toLowerCase();
    const facets = [...form.elements].filter((field) => field.tagName === "SELECT" && field.value);
    let shown = 0;
    for (const row of table.tBodies[0].rows) {
      row.hidden = !(row.dataset.match || "").toLowerCase().includes(text)
        || facets.some((field) => row.dataset[field.name] !== field.value);
      shown += !row.hidden;
    }
    const every = table.tBodies[0].rows.length;
    one("output", form).value = shown === every ? `${every} runs` : `${shown} of ${every} runs`;
    const none = one(".none", table.closest(".table"));
    if (none) none.hidden = shown > 0;
  }

  function quoted(cell) {
    const number = cell.dataset.sort !== undefined;
    const note = one("small", cell)?.textContent.trim();
    const said = [...cell.childNodes].filter((node) => node.nodeName !== "SMALL")
      .map((node) => node.textContent).join("").trim();
    let text = note ? `${said} ${note}` : said;
    // A spreadsheet would run what begins so.
    if (!number && text !== "-" && /^[=+\-@\t\r]/.test(text)) text = `'${text}`;
    return `"${text.replaceAll('"', '""')}"`;
  }

  function csv(table) {
    const rows = [...table.rows].filter((row) => !row.hidden);
    const text = rows.map((row) => [...row.cells].map(quoted).join(",")).join("\r\n") + "\r\n";
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob(["\ufeff", text], { type: "text/csv" }));
    link.download = `${table.id}.csv`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  // -- Charts: specifications and rows are in the page; nothing is fetched.

  const tip = document.createElement("div");
  tip.id = "tip";
  tip.hidden = true;

  function told(handler, event, item, value) {
    tip.hidden = !value;
    if (!value) return;
    tip.replaceChildren(...Object.entries(value).map(([name, said]) => {
      const line = document.createElement("div");
      const head = document.createElement("span");
      head.textContent = name;
      line.append(head, String(said));
      return line;
    }));
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 12, innerWidth - box.width - 8))}px`;
    tip.style.top = `${Math.max(4, Math.min(event.clientY + 12, innerHeight - box.height - 8))}px`;
  }

  function colours() {
    const style = getComputedStyle(root);
    const value = (name) => style.getPropertyValue(name).trim();
    const [ink, soft, line, font] = ["--ink", "--soft", "--line", "--sans"].map(value);
    const words = { labelColor: soft, titleColor: soft, labelFont: font, titleFont: font, titleFontWeight: "normal" };
    return {
      background: "transparent",
      axis: { ...words, gridColor: line, domainColor: line, tickColor: line },
      legend: { ...words, labelColor: ink },
      title: { color: soft, font },
      text: { font },
    };
  }

  // Wide as the page is; the curve's panels share their left edge with the strip below them.
  function sized(spec, width) {
    const made = structuredClone(spec);
    if (made.vconcat) {
      for (const view of made.vconcat) view.width = Math.max(width - 44, 120);
      made.padding = { left: 0, right: 0, top: 4, bottom: 4 };
    } else {
      made.width = width;
      made.autosize = { type: "fit-x", contains: "padding" };
    }
    return made;
  }

  async function draw(figure) {
    const spec = one(`script[data-spec="${figure.dataset.chart}"]`);
    const plot = one(".plot", figure);
    const width = plot.clientWidth;
    if (!spec || !window.vegaEmbed || !width) return;
    figure.dataset.width = width;
    const loader = window.vega.loader();
    loader.load = () => Promise.reject(new Error("nothing is fetched"));
    loader.sanitize = (uri) => /^(#|\/)[\w?=&./#-]*$/.test(uri)
      ? Promise.resolve({ href: uri }) : Promise.reject(new Error("no address of this page"));
    const made = sized(JSON.parse(spec.textContent), width);
    made.datasets = { ...made.datasets, rows: JSON.parse(one("script[data-rows]", figure).textContent) };
    const drawn = await window.vegaEmbed(plot, made, {
      mode: "vega-lite", renderer: "svg", ast: true, actions: false, defaultStyle: false,
      config: colours(), loader, tooltip: told, logLevel: window.vega.Error,
    });
    // The figure says what it shows, and its table holds the numbers.
    one("svg", plot)?.setAttribute("aria-hidden", "true");
    figure.drawn?.finalize();
    figure.drawn = drawn;
  }

  const seen = "IntersectionObserver" in window && new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) { seen.unobserve(entry.target); draw(entry.target); }
  }, { rootMargin: "300px" });

  function watch() {
    for (const figure of all(".page:not([hidden]) figure[data-chart]")) {
      const width = String(one(".plot", figure).clientWidth);
      if (figure.dataset.width !== width) { if (seen) seen.observe(figure); else draw(figure); }
    }
  }

  function redraw() {
    for (const figure of all("figure[data-chart]")) delete figure.dataset.width;
    watch();
  }

  // -- Light and dark.

  const THEMES = ["auto", "light", "dark"];
  const stored = () => { try { return localStorage.getItem("stepscope-theme") || "auto"; } catch { return "auto"; } };

  function theme(name) {
    if (name === "auto") delete root.dataset.theme; else root.dataset.theme = name;
    const button = one('[data-do="theme"] span');
    if (button) button.textContent = name;
    try { localStorage.setItem("stepscope-theme", name); } catch { /* a file may not keep anything */ }
    redraw();
  }

  const nextTheme = () => theme(THEMES[(THEMES.indexOf(root.dataset.theme || "auto") + 1) % THEMES.length]);

  // -- Keys.

  function step(way, marked) {
    const steps = all(`.page:not([hidden]) .step${marked ? "[data-marked]" : ""}`);
    if (!steps.length) return;
    const every = all(".page:not([hidden]) .step");
    const here = every.indexOf(one(".page:not([hidden]) .step.here") || document.activeElement.closest?.(".step"));
    const next = way > 0
      ? steps.find((element) => every.indexOf(element) > here)
      : steps.findLast((element) => here < 0 || every.indexOf(element) < here);
    if (next) { go(next); return; }
    const more = one(".page:not([hidden]) .steps")?.dataset[way > 0 ? "after" : "before"];
    if (more) location.href = more;
  }

  function go(element) {
    for (const other of all(".step.here")) other.classList.remove("here");
    element.classList.add("here");
    reveal(element);
  }

  function fold() {
    const here = one(".page:not([hidden]) .step.here") || one(".step:target");
    const folds = here ? all("details:not(.raw)", here) : [];
    const open = folds.some((details) => !details.open);
    for (const details of folds) details.open = open;
  }

  const KEYS = {
    j: () => step(1, false), k: () => step(-1, false), n: () => step(1, true), p: () => step(-1, true),
    o: fold, t: nextTheme, "?": () => one("#help").showModal(),
    "/": () => one(".page:not([hidden]) .filter input")?.focus(),
  };

  addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, select, textarea, dialog");
    if (event.key === "Escape" && typing && !one("#help").open) { event.target.blur(); return; }
    if (typing || event.ctrlKey || event.metaKey || event.altKey || !KEYS[event.key]) return;
    event.preventDefault();
    KEYS[event.key]();
  });

  // -- A store that changes while it is looked at.

  function live(address) {
    const said = one(".live");
    let first = null;
    let source = null;

    function heard(event) {
      const state = JSON.parse(event.data);
      first ??= state.version;
      if (state.version === first) return;
      const reload = document.createElement("button");
      reload.type = "button";
      reload.textContent = "reload";
      reload.addEventListener("click", () => location.reload());
      said.hidden = false;
      said.replaceChildren(`${state.scored} of ${state.runs} runs scored `, reload);
    }

    // A browser gives one host few connections: a page that nobody sees hands its own back.
    function listen() {
      source?.close();
      if (document.hidden) return;
      source = new EventSource(address);
      source.addEventListener("store", heard);
    }

    document.addEventListener("visibilitychange", listen);
    listen();
  }

  // -- All together.

  const DO = { theme: nextTheme, help: KEYS["?"], csv: (button) => csv(one("table", button.closest(".table"))) };

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-do]");
    if (button) DO[button.dataset.do](button);
  });
  for (const button of all("[data-do]")) button.hidden = false;
  for (const table of all("table[data-table]")) sortable(table);
  for (const form of all("form[data-filter]")) {
    if (inFile) {
      form.addEventListener("submit", (event) => event.preventDefault());
      form.addEventListener("input", (event) => { remember(event.target.name, event.target.value); filter(form); });
    } else form.addEventListener("change", () => form.requestSubmit());
  }
  document.body.append(tip);
  theme(stored());
  show();
  addEventListener("hashchange", show);
  document.addEventListener("toggle", watch, true);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  addEventListener("beforeprint", () => { for (const figure of all("figure[data-chart]")) draw(figure); });
  let wait = 0;
  addEventListener("resize", () => { clearTimeout(wait); wait = setTimeout(watch, 150); });
  if (document.body.dataset.events) live(document.body.dataset.events);
})();
