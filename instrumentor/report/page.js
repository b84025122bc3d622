"use strict";
(() => {
  const root = document.documentElement;
  const sections = [...document.querySelectorAll("main > section")];
  const links = new Map([...document.querySelectorAll("nav a[data-file]")].map((a) => [`f${a.dataset.file}`, a]));
  const filter = document.getElementById("filter");
  const keys = document.getElementById("keys");
  let currentFile = -1;
  let currentSite = null;

  // A page from the disk may keep nothing; then the choice lasts as long as the page.
  const remembered = () => { try { return localStorage.getItem("instrument-theme"); } catch { return null; } };
  const setTheme = (theme) => {
    root.dataset.theme = theme;
    try { localStorage.setItem("instrument-theme", theme); } catch { /* not kept */ }
  };
  const toggleTheme = () => setTheme(root.dataset.theme === "dark" ? "light" : "dark");
  root.dataset.theme = remembered() || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");

  const checked = (name) =>
    new Set([...document.querySelectorAll(`input[name="${name}"]:checked`)].map((box) => box.value));

  function apply() {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const confidences = checked("confidence");
    const decisions = checked("decision");
    for (const section of sections) {
      const sites = [...section.querySelectorAll(".site")];
      let shown = 0;
      for (const site of sites) {
        const { decision, confidence } = site.dataset;
        site.hidden = !decisions.has(decision) || (confidence !== "" && !confidences.has(confidence));
        shown += !site.hidden;
      }
      const named = words.every((word) => section.dataset.search.includes(word));
      section.hidden = !named || (sites.length > 0 && shown === 0 && !section.querySelector(".error"));
      const link = links.get(section.id);
      if (link) link.parentElement.hidden = section.hidden;
    }
    for (const folder of [...document.querySelectorAll("nav details")].reverse())
      folder.parentElement.hidden = ![...folder.querySelectorAll("a")].some((a) => !a.parentElement.hidden);
  }

  const visible = () => sections.filter((section) => !section.hidden);

  function goToFile(section) {
    if (!section) return;
    sections[currentFile]?.classList.remove("current");
    for (const link of links.values()) link.classList.remove("current");
    currentFile = sections.indexOf(section);
    section.classList.add("current");
    const link = links.get(section.id);
    if (link) { link.classList.add("current"); link.scrollIntoView({ block: "nearest" }); }
    section.scrollIntoView({ block: "start" });
  }

  function stepFile(by) {
    const shown = visible();
    const at = shown.indexOf(sections[currentFile]);
    currentSite = null;
    goToFile(shown[at < 0 ? 0 : Math.min(Math.max(at + by, 0), shown.length - 1)]);
  }

  function stepSite(by) {
    const sites = visible().flatMap((section) => [...section.querySelectorAll(".site:not([hidden])")]);
    if (!sites.length) return;
    let at = sites.indexOf(currentSite);
    if (at < 0) {
      // From the file that is looked at on, or from the top.
      const from = sites.findIndex((site) => sections.indexOf(site.closest("section")) >= Math.max(currentFile, 0));
      at = by > 0 ? Math.max(from, 0) : Math.max(from - 1, 0);
    } else at = Math.min(Math.max(at + by, 0), sites.length - 1);
    currentSite = sites[at];
    const section = currentSite.closest("section");
    section.querySelector("details").open = true;
    goToFile(section);
    currentSite.focus({ preventScroll: true });
    currentSite.scrollIntoView({ block: "center" });
  }

  const commands = {
    j: () => stepSite(1), k: () => stepSite(-1), n: () => stepFile(1), p: () => stepFile(-1),
    o: () => { const details = sections[currentFile]?.querySelector("details"); if (details) details.open = !details.open; },
    t: toggleTheme, "?": () => (keys.open ? keys.close() : keys.showModal()),
    "/": () => { filter.focus(); filter.select(); },
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape" && document.activeElement === filter) { filter.blur(); return; }
    if (document.activeElement === filter) return;
    const command = commands[event.key];
    if (command) { event.preventDefault(); command(); }
  });
  filter.addEventListener("input", apply);
  for (const box of document.querySelectorAll("fieldset input")) box.addEventListener("change", apply);
  document.getElementById("theme").addEventListener("click", toggleTheme);
  document.getElementById("help").addEventListener("click", () => keys.showModal());
  for (const [id, link] of links)
    link.addEventListener("click", (event) => { event.preventDefault(); goToFile(document.getElementById(id)); });
  apply();
})();
