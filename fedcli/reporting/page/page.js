// Columns sort by a click or a key on their heads; tables say where they go on. The page says all it says without.
(() => {
  const value = (row, at) => {
    const text = row.cells[at].textContent.trim().replace(/−/g, "-").replace(/(\d),(?=\d{3})/g, "$1");
    const number = /^[-+<]?\s*\d/.test(text) ? parseFloat(text.replace(/^[+<]\s*/, "")) : null;
    return { text, number, none: text === "" || text === "-" };
  };
  const order = (a, b, sign) => {
    if (a.none || b.none) return a.none - b.none; // what has no number stays last
    if (a.number !== null && b.number !== null && a.number !== b.number) return sign * (a.number - b.number);
    return sign * a.text.localeCompare(b.text, "en", { numeric: true });
  };
  for (const table of document.querySelectorAll("table")) {
    const body = table.tBodies[0], given = [...body.rows];
    if (given.length < 2) continue;
    const heads = [...table.tHead.querySelectorAll("[data-at]")];
    heads.forEach((head) => {
      const at = Number(head.dataset.at), button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      head.addEventListener("click", () => { // wherever it is hit; a key on its button too
        const now = { none: "ascending", ascending: "descending", descending: "none" }[head.getAttribute("aria-sort") || "none"];
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        const rows = [...given], sign = now === "descending" ? -1 : 1;
        if (now !== "none") {
          head.setAttribute("aria-sort", now);
          rows.sort((a, b) => order(value(a, at), value(b, at), sign));
        }
        body.append(...rows);
      });
    });
  }
  const look = (part) => part.classList.toggle("more", part.scrollWidth - part.clientWidth - part.scrollLeft > 2);
  const seen = new ResizeObserver((parts) => parts.forEach(({ target }) => look(target)));
  for (const part of document.querySelectorAll(".scroll")) {
    seen.observe(part); // also when its section is opened
    part.addEventListener("scroll", () => look(part), { passive: true });
  }
})();
