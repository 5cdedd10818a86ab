// The theme, the filter, folded tables and the runs of a cell. Words from results become text, never markup.
"use strict";
(() => {
  const root = document.documentElement;
  const THEME = "paceline-theme";
  root.classList.add("js");

  // ---- theme: set before anything is painted

  function stored() {
    try { return localStorage.getItem(THEME) || ""; } catch { return ""; } // a browser may forbid it
  }

  function useTheme(name) {
    if (name === "light" || name === "dark") root.dataset.theme = name;
    else delete root.dataset.theme;
  }

  function offerThemes() {
    const choice = document.getElementById("theme");
    if (!choice) return;
    choice.value = root.dataset.theme || "";
    choice.closest("label").hidden = false;
    choice.addEventListener("change", () => {
      useTheme(choice.value);
      try { localStorage.setItem(THEME, choice.value); } catch { /* it holds for this visit */ }
    });
  }

  // ---- elements

  function make(tag, text, kind) {
    const element = document.createElement(tag);
    if (text) element.textContent = text;
    if (kind) element.className = kind;
    return element;
  }

  function within(element, ...children) {
    element.append(...children.filter(Boolean));
    return element;
  }

  function pairs(facts) {
    const list = make("dl", "", "facts-list");
    for (const [name, value] of facts) {
      if (value) list.append(within(make("div"), make("dt", name), make("dd", value)));
    }
    return list;
  }

  function folded(name, content) {
    return content && within(make("details"), make("summary", name), content);
  }

  function titled(name, content) {
    return content && within(make("div"), make("h4", name), content);
  }

  // ---- tables with many lines

  function foldTables() {
    for (const table of document.querySelectorAll("table.long")) {
      const count = table.tBodies[0].rows.length;
      const button = make("button", `Show all ${count} lines`, "unfold");
      button.type = "button";
      button.addEventListener("click", () => {
        const all = table.classList.toggle("all");
        button.textContent = all ? "Show the first 30 lines" : `Show all ${count} lines`;
      });
      table.closest(".scroll").after(button);
    }
  }

  // ---- print: what is folded as well, also where a browser does not know ::details-content

  function unfoldForPrint() {
    const closed = [];
    addEventListener("beforeprint", () => {
      closed.push(...document.querySelectorAll("details:not([open])"));
      for (const each of closed) each.open = true;
    });
    addEventListener("afterprint", () => {
      for (const each of closed.splice(0)) each.open = false;
    });
  }

  // ---- filter

  function offerFilter(known) {
    const form = document.getElementById("filter");
    if (!form || known.cells.length < 2) return;
    const fill = (name, values) => {
      const sorted = [...new Set(values)].sort((one, other) => one.localeCompare(other, "en", { numeric: true }));
      for (const value of sorted) form.elements[name].append(new Option(value, value));
    };
    fill("framework", known.cells.map((cell) => cell.framework));
    fill("devices", known.cells.map((cell) => cell.devices));
    fill("mark", known.cells.flatMap((cell) => cell.marks));
    const words = known.cells.map((cell) =>
      [cell.framework, cell.devices, known.titles[cell.table], cell.reason, ...cell.marks].join(" ").toLowerCase());
    const apply = () => filterCells(form, known, words);
    form.addEventListener("input", apply);
    form.addEventListener("reset", () => setTimeout(apply));
    form.addEventListener("submit", (event) => event.preventDefault());
    form.hidden = false;
  }

  function filterCells(form, known, words) {
    const { framework, devices, mark, text } = Object.fromEntries(new FormData(form));
    const wanted = text.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = known.cells.map((cell, place) =>
      (!framework || cell.framework === framework) && (!devices || cell.devices === devices) &&
      (!mark || cell.marks.includes(mark)) && wanted.every((word) => words[place].includes(word)));
    const active = Boolean(framework || devices || mark || wanted.length);
    for (const row of document.querySelectorAll("tr[data-cell]")) row.hidden = !fits[row.dataset.cell - 1];
    for (const table of document.querySelectorAll("table.long")) table.classList.toggle("filtered", active);
    for (const button of document.querySelectorAll(".unfold")) button.hidden = active;
    for (const group of document.querySelectorAll(".group")) group.hidden = !group.querySelector("tr[data-cell]:not([hidden])");
    for (const section of document.querySelectorAll(".workload")) section.hidden = !section.querySelector(".group:not([hidden])");
    const count = fits.filter(Boolean).length;
    form.querySelector("output").textContent = active
      ? `${count} of ${known.cells.length} cells; charts, remarks and tables in a layout of their own still speak of all cells` : "";
  }

  // ---- the runs of a cell

  function decoded(hash) {
    try { return decodeURIComponent(hash); } catch { return ""; } // a lone % is no name of ours
  }

  function valuesOf(number) {
    const facts = [];
    for (const row of document.querySelectorAll(`tr[data-cell="${number}"]`)) {
      const headings = row.closest("table").tHead.rows[0].cells;
      if (row.cells.length !== headings.length) continue; // a cause stands in place of numbers
      for (let place = 2; place < headings.length; place++) {
        if (headings[place].textContent !== "status") facts.push([headings[place].textContent, row.cells[place].textContent]);
      }
    }
    return pairs(new Map(facts));
  }

  function blocksOf(run) {
    const found = Object.entries(run.blocks || {}).map(([phase, [steps, count, seconds]]) => {
      const shown = seconds.split(" ").length;
      const more = count > shown ? ` … and ${count - shown} more` : "";
      return `${phase} (${count} × ${steps} step${steps === 1 ? "" : "s"}): ${seconds}${more}`;
    });
    return found.length ? make("pre", found.join("\n"), "blocks") : null;
  }

  function setupOf(run, known) {
    const setup = known.setups[run.setup];
    if (!setup) return [make("p", "The record of this run is gone or damaged: its versions and commands are not known.")];
    const text = (place) => place >= 0 && known.texts[place].replaceAll("‹run›", run.id);
    const pre = (place) => text(place) && make("pre", text(place));
    return [
      pairs([
        ["framework version", setup.version], ["Python", setup.python], ["Paceline", setup.paceline],
        ["machine", setup.machine], ["host", setup.host], ["worker's code", setup.worker], ["data checksum", setup.data],
        ["code", setup.code],
      ]),
      folded("Versions of all packages", pre(setup.packages)),
      folded("Environment variables", pre(setup.environment)),
      folded("Commands that were started", pre(setup.commands)),
    ];
  }

  function pageOf(run, known) {
    const link = make("a", "All about this run, and its whole log");
    link.href = known.run_page + encodeURIComponent(run.id);
    return link;
  }

  function runOf(run, known, open) {
    const element = make("details", "", "run");
    const status = run.status || "ok";
    element.id = `run-${run.id}`;
    element.open = open;
    const started = new Date(run.started * 1000).toISOString().replace("T", " ").slice(0, 19);
    return within(element,
      make("summary", `${known.signs[status] || ""} ${status} · seed ${run.seed} · ${run.id}`),
      run.cause && make("p", run.cause, "cause"),
      pairs([["started", `${started} UTC`], ["whole run", `${run.seconds} s`], ["seed", String(run.seed)]]),
      titled("Run it again and compare", make("pre", `paceline replay ${run.id}`, "command")),
      titled(`End of its log; \u201cpaceline log ${run.id}\u201d prints all of it`, make("pre", run.log || "(it printed nothing)", "log")),
      known.run_page && within(make("p"), pageOf(run, known)),
      titled("Seconds of each block; of several ranks the slowest", blocksOf(run)),
      ...setupOf(run, known));
  }

  function fill(dialog, known, number, chosen) {
    const cell = known.cells[number - 1];
    const close = make("button", "Close", "close");
    close.type = "button";
    close.addEventListener("click", () => dialog.close());
    const heading = make("h2", `${cell.framework} on ${cell.devices}`);
    heading.id = "detail-title";
    const runs = cell.runs || [];
    const first = runs.find((place) => known.runs[place].status) ?? runs[0]; // the one that failed, if any
    const marks = make("p");
    cell.marks.forEach((word) => marks.append(make("span", `${known.signs[word]} ${word}`, `mark ${word.replace(" ", "-")}`), " "));
    dialog.replaceChildren(
      within(make("div", "", "bar"), heading, close),
      make("p", known.titles[cell.table], "aside"),
      marks,
      ...(cell.reason ? [make("p", cell.reason)] : []),
      valuesOf(number),
      make("h3", "Measure it again"),
      make("pre", cell.again, "command"),
      make("h3", runs.length === 1 ? "One run" : `${runs.length || "No"} runs`),
      ...runs.map((place) => runOf(known.runs[place], known, known.runs[place].id === chosen || (!chosen && place === first))));
  }

  function offerDetails(known) {
    const dialog = document.getElementById("detail");
    const owner = new Map(known.cells.flatMap((cell, place) =>
      (cell.runs || []).map((run) => [known.runs[run].id, place + 1])));
    let opener = null;

    function target() {
      const hash = decoded(location.hash);
      const number = Number((/^#cell-(\d+)$/.exec(hash) || [])[1]);
      if (known.cells[number - 1]) return { number };
      const run = (/^#run-(.+)$/.exec(hash) || [])[1];
      return owner.has(run) ? { number: owner.get(run), run } : null;
    }

    function follow() {
      const wanted = target();
      if (!wanted) return dialog.close();
      fill(dialog, known, wanted.number, wanted.run);
      if (!dialog.open) dialog.showModal();
      dialog.scrollTop = 0;
      if (wanted.run) document.getElementById(`run-${wanted.run}`).scrollIntoView();
    }

    document.addEventListener("click", (event) => {
      const link = event.target.closest?.("a");
      const href = link && (link.getAttribute("href") || link.getAttribute("xlink:href") || "");
      if (!link || !/^#(cell|run)-/.test(href) || event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault(); // else the browser takes the focus away from the link
      if (!dialog.open) opener = link;
      history.pushState({ depth: (history.state?.depth || 0) + 1 }, "", href);
      follow();
    });
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close()); // beside it
    dialog.addEventListener("close", () => {
      const depth = history.state?.depth || 0;
      if (target()) depth ? history.go(-depth) : history.replaceState(null, "", location.pathname + location.search);
      opener?.focus();
      opener = null;
    });
    addEventListener("popstate", follow);
    follow();
  }

  useTheme(stored());
  document.addEventListener("DOMContentLoaded", () => {
    offerThemes();
    foldTables();
    unfoldForPrint();
    const details = document.getElementById("details");
    if (!details) return;
    const known = JSON.parse(details.textContent);
    offerFilter(known);
    offerDetails(known);
  });
})();
