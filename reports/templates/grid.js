"use strict";
// The table is one stop of the Tab key and the arrows move inside it; the release in view is marked.
for (const grid of document.querySelectorAll(".grid")) {
  const heads = grid.tHead.rows[1].cells;
  const rows = [...grid.tBodies].flatMap((body) => [...body.rows]).filter((row) => row.cells.length > 1);
  const links = grid.querySelectorAll("td a");
  links.forEach((link, position) => { link.tabIndex = position ? -1 : 0; });

  const mark = (event) => {
    const cell = event.target.closest("td");
    grid.querySelector("th.on")?.classList.remove("on");
    if (cell) heads[cell.cellIndex - 1]?.classList.add("on");
  };
  const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  const move = (event) => {
    const cell = event.target.closest("td");
    const step = steps[event.key];
    if (!cell || !step || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    const row = rows[rows.indexOf(cell.parentElement) + step[0]];
    const next = row?.cells[cell.cellIndex + step[1]]?.querySelector("td > a");
    if (!next) return;
    event.target.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
    next.scrollIntoView({ block: "nearest", inline: "nearest" });
  };
  grid.addEventListener("mouseover", mark);
  grid.addEventListener("mouseleave", mark);
  grid.addEventListener("focusin", mark);
  grid.addEventListener("keydown", move);
}
