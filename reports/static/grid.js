"use strict";
// The table is one stop of the Tab key and the arrows move inside it; the release in view is marked.
// What a mark says is put together when somebody asks: from the usual words of its class, or from
// the text whose number its cell has.
const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

for (const grid of document.querySelectorAll(".grid")) {
  const said = JSON.parse(grid.parentElement.querySelector("script").textContent);
  const [above, below] = grid.tHead.rows;
  const heads = [...below.cells, ...above.querySelectorAll(".apart")];
  const rows = [...grid.tBodies].flatMap((body) => [...body.rows]).filter((row) => row.cells.length > 1);
  const precisions = rows.length ? [...rows[0].querySelectorAll(".precisions i")].map((item) => item.textContent) : [];

  const headOf = (cell) => heads[cell.cellIndex - 1];
  const linkOf = (cell) => cell.parentElement.querySelector("th a");
  // A row's name is a link; a cell is a stop of its own where it has marks.
  const stopOf = (cell) => cell?.tagName === "TH" ? linkOf(cell) : cell?.firstChild ? cell : null;
  const drawn = (event) => {
    const cell = event.target.closest?.("td");
    return cell?.firstChild ? cell : null;
  };
  const environment = (cell) => {
    const head = headOf(cell);
    const extras = head.classList.contains("apart") ? "" : cell.parentElement.dataset.extras ?? "";
    return head.getAttribute("aria-label") + extras;
  };
  const address = (cell) => linkOf(cell).href.split("#")[0] + "#" + encodeURIComponent(environment(cell));
  const describe = (cell) => {
    if (cell.title) return;
    const numbers = (cell.dataset.says ?? "").split(",");
    const where = `on ${environment(cell)}${said.device}`;
    const alike = new Map();
    precisions.forEach((precision, place) => {
      const mark = cell.children[place] ?? cell.firstElementChild;
      const number = numbers.length > 1 ? numbers[place] : numbers[0];
      const here = mark.classList.contains("here") ? "; measured here" : "";
      const text = (number ? said.texts[number] : said.usual[mark.className]) + here;
      alike.set(text, [...(alike.get(text) ?? []), precision]);
    });
    const lines = [...alike].map(([text, some]) => `${some.join(", ")} ${where}: ${text}`);
    cell.title = lines.join("\n");
    cell.setAttribute("aria-label", lines.join("; "));
  };

  const show = (event) => {
    const cell = drawn(event);
    grid.querySelector("th.on")?.classList.remove("on");
    if (!cell) return;
    headOf(cell).classList.add("on");
    describe(cell);
  };
  const open = (event) => {
    const cell = drawn(event);
    if (!cell || event.button > 1) return;
    if (event.button || event.ctrlKey || event.metaKey || event.shiftKey) window.open(address(cell), "_blank", "noopener");
    else location.assign(address(cell));
  };

  let stop = rows.length ? linkOf(rows[0].cells[0]) : null;
  const stopAt = (next) => {
    stop.tabIndex = -1;
    stop = next;
    stop.tabIndex = 0;
  };
  const press = (event) => {
    const cell = event.target.closest("td, th");
    if (event.key === "Enter" && cell.tagName === "TD") open(event);
    const step = steps[event.key];
    if (!cell || !step || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    let next = cell;
    // Over what is empty: an environment that a case has no cells in.
    do {
      const row = rows[rows.indexOf(next.parentElement) + step[0]];
      next = row?.cells[next.cellIndex + step[1]];
    } while (next && !stopOf(next));
    if (!next) return;
    stopAt(stopOf(next));
    stop.focus({ preventScroll: true });
    next.scrollIntoView({ block: "nearest", inline: "nearest" });
  };

  grid.setAttribute("role", "grid");
  for (const row of rows) linkOf(row.cells[0]).tabIndex = -1;
  if (stop) stop.tabIndex = 0;
  grid.addEventListener("mouseover", show);
  grid.addEventListener("mouseleave", show);
  grid.addEventListener("focusin", (event) => { show(event); stopAt(stopOf(event.target.closest("td, th")) ?? stop); });
  grid.addEventListener("mousedown", (event) => { const cell = drawn(event); if (cell) cell.tabIndex = -1; });
  grid.addEventListener("click", open);
  grid.addEventListener("auxclick", open);
  grid.addEventListener("keydown", press);
}
