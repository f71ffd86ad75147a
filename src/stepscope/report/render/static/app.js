"use strict";
// What a page can do beyond being read: pages of one file, the map of runs, the outline and the strip
// of a run, order and filter of tables, charts, keys, light and dark, word of a changing store. It
// computes no figure; text of a trace is only ever read from the page and written as text.
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
    const target = anchor ? document.getElementById(anchor) : one(".page");
    const page = target ? target.closest(".page") : one("#missing");
    if (!page) return;
    if (inFile) {
      for (const other of all(".page")) other.hidden = other !== page;
      root.dataset.page = page.dataset.page || "";
      document.title = `${page.dataset.title} · stepscope`;
      for (const link of all(".bar nav a")) {
        if (link.getAttribute("href") === `#${page.dataset.page}`) link.setAttribute("aria-current", "page");
        else link.removeAttribute("aria-current");
      }
      if (page.id === "missing") one("b", page).textContent = `#${anchor}`;
    }
    for (let at = target; at && at !== page; at = at.parentElement) {
      if (at.tagName === "DETAILS") at.open = true;
    }
    measure();
    if (target && target.closest(".step")) go(target, false);
    else if (target && target !== page) reveal(target);
    else if (inFile) scrollTo(0, 0);
    restore();
    watch();
  }

  function reveal(element) {
    element.scrollIntoView({ block: element.closest(".step, .pair") ? "start" : "center" });
    element.focus({ preventScroll: true });
  }

  // What sticks at the top is as high as it is: a step lands below it, with the run's name in view.
  const measured = new CSSStyleSheet();
  document.adoptedStyleSheets.push(measured);

  function measure() {
    const stick = one(".page:not([hidden]) .stick");
    if (stick) measured.replaceSync(`:root { --strip: ${Math.ceil(stick.getBoundingClientRect().height)}px; }`);
  }

  // -- The map of runs: one tab stop, arrows move, what is pointed at is read beside the legend.

  for (const map of all(".map")) {
    const read = one(".read", map);
    const idle = read.textContent;
    const say = (event) => {
      const cell = event.target.closest(".col .cell, .few .cell");
      read.textContent = cell ? cell.getAttribute("aria-label") || cell.title : idle;
    };
    for (const name of ["mouseover", "focusin"]) map.addEventListener(name, say);
    for (const name of ["mouseleave", "focusout"]) map.addEventListener(name, () => { read.textContent = idle; });
    map.addEventListener("keydown", (event) => {
      const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
      const column = event.target.closest(".col");
      if (!way || !column) return;
      const columns = all(".col", map);
      const row = all("a.cell", column).indexOf(event.target);
      const next = columns[columns.indexOf(column) + way[0]];
      const to = next && all("a.cell", next)[row + way[1]];
      event.preventDefault();
      if (!to) return;
      event.target.tabIndex = -1;
      to.tabIndex = 0;
      to.focus();
    });
  }

  // The cells of a failure mode light up while its row is pointed at.
  function light(event) {
    const row = event.target.closest("tr[data-mode]");
    for (const map of all(".page:not([hidden]) .map")) {
      map.classList.toggle("lit", Boolean(row));
      for (const cell of all(".cell", map)) {
        cell.classList.toggle("on", Boolean(row) && cell.dataset.mode === row.dataset.mode);
      }
    }
  }
  if (one("tr[data-mode]")) for (const name of ["mouseover", "focusin"]) document.addEventListener(name, light);

  // -- One run: the cursor is in the outline, the strip, the detail and the address at once.

  const run = () => one(".page.run:not([hidden])");
  const number = (address) => Number((/-s(\d+)$/.exec(address || "") || [])[1] ?? NaN);

  function go(element, remembered = true) {
    const page = element.closest(".page");
    const step = element.closest(".step");
    if (!step) return;
    for (const other of all(".step.here", page)) other.classList.remove("here");
    step.classList.add("here");
    const at = number(element.id);
    let column = null;
    for (const link of all(".strip a.k", page)) {
      link.removeAttribute("aria-current");
      if (number(link.getAttribute("href")) <= at) column = link;
    }
    column?.setAttribute("aria-current", "step");
    const outline = one(".outline", page);
    for (const row of all("a", outline)) {
      const here = row.getAttribute("href") === `#${element.id}`;
      if (here) row.setAttribute("aria-current", "step"); else row.removeAttribute("aria-current");
      const seen = row.offsetTop - outline.scrollTop;
      if (here && (seen < 60 || seen > outline.clientHeight - 60)) outline.scrollTop = row.offsetTop - outline.clientHeight / 2;
    }
    if (remembered) history.replaceState(null, "", `${inFile ? "" : location.pathname + location.search}#${element.id}`);
    element.scrollIntoView({ block: "start" });
    element.focus({ preventScroll: true });
  }

  document.addEventListener("click", (event) => {
    const link = event.target.closest(".outline a, .strip a, a.suspect");
    const target = link && document.getElementById((link.getAttribute("href") || "").slice(1));
    if (!target || !target.closest(".step") || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    go(target);
  });

  // A search finds what is written in a step, seen or folded.
  for (const field of all('.outline input[type="search"]')) {
    if (field.form.hasAttribute("action")) continue;
    field.form.addEventListener("submit", (event) => event.preventDefault());
    field.addEventListener("input", () => {
      const text = field.value.toLowerCase();
      for (const row of all("a", field.closest(".outline"))) {
        const target = document.getElementById(row.getAttribute("href").slice(1));
        row.hidden = Boolean(text) && !`${row.textContent} ${target?.textContent}`.toLowerCase().includes(text);
      }
    });
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
      if (one("a, .axis", head)) return;
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
    const [ink, soft, line, font] = ["--ink", "--ink-2", "--line", "--sans"].map(value);
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
    const page = run();
    if (!page) return;
    const steps = all(`.step${marked ? "[data-marked]" : ""}`, page);
    const every = all(".step", page);
    const here = every.indexOf(one(".step.here", page) || document.activeElement.closest?.(".step"));
    const next = way > 0
      ? steps.find((element) => every.indexOf(element) > here)
      : steps.findLast((element) => here < 0 || every.indexOf(element) < here);
    if (next) { go(next); return; }
    const more = one(".steps", page)?.dataset[way > 0 ? "after" : "before"];
    if (more) location.href = more;
  }

  function fold() {
    const here = one(".page:not([hidden]) .step.here") || one(".step:target");
    const folds = here ? all("details:not(.checked):not(.raw)", here) : [];
    const open = folds.some((details) => !details.open);
    for (const details of folds) details.open = open;
  }

  const KEYS = {
    j: () => step(1, false), k: () => step(-1, false), n: () => step(1, true), p: () => step(-1, true),
    o: fold, t: nextTheme, "?": () => one("#help").showModal(),
    c: () => one(".page:not([hidden]) a[data-compare]")?.click(),
    "/": () => (one(".page:not([hidden]) .outline input") || one(".bar .find input") || one(".page:not([hidden]) .choice[open] input") || one(".page:not([hidden]) .filter:not(.choice *) input"))?.focus(),
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
  // Where people label, every other key is an answer.
  if (root.dataset.page === "label") for (const key of Object.keys(KEYS)) if (key !== "t") delete KEYS[key];

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-do]");
    if (button) DO[button.dataset.do](button);
  });
  for (const button of all("[data-do]")) button.hidden = false;
  for (const table of all("table[data-table]")) sortable(table);
  const narrow = matchMedia("(max-width: 720px)");
  // A card says the name of a value's column before the value.
  function cards() {
    if (!narrow.matches) return;
    for (const table of all("table.cards:not([data-named])")) {
      table.dataset.named = "";
      const heads = [...table.tHead.rows[0].cells].map((head) => (one(".name", head) || (one(".axis", head) ? null : head))?.textContent.trim());
      for (const row of table.tBodies[0].rows) {
        [...row.cells].forEach((cell, at) => { if (cell.textContent.trim() || one("svg", cell)) cell.dataset.label = heads[at] || ""; });
      }
    }
  }
  cards();
  narrow.addEventListener("change", cards);
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
  addEventListener("resize", () => { clearTimeout(wait); wait = setTimeout(() => { measure(); watch(); }, 150); });
  if (document.body.dataset.events) live(document.body.dataset.events);
})();
