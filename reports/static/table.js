"use strict";
// The grid: rows are drawn when they come into view, marks are copied from the few that there are.
// It is one stop of the Tab key, and the arrows move inside it. It is as high as its rows, so that a
// wheel turns the page; what is wider than the page is moved sideways, heads and rows together.
const Table = (() => {
  const AHEAD = "240px";
  const REM = Number.parseFloat(getComputedStyle(document.documentElement).fontSize) / 16; // who reads large has larger marks
  const NARROW = 17 * REM; // pixels that a mark needs
  const WIDE = 44 * REM;
  const LETTER = 6.7; // a letter of a head
  const LETTERS = 10; // of a head that holds releases only
  const EASY = 25 * REM; // pixels of a column beside which titles may take what is left
  const TITLE = 560 * REM; // pixels of the longest titles
  const SCREEN = 16; // rows that may be in sight
  const EDGES = 2; // borders

  const create = (root, book, on) => {
    let view = null;
    let places = []; // what stands in each column: the columns that it folds, and its head
    const knownPlaces = new Map();
    let stop = null;
    let shownAt = null;
    let sizes = null;
    let page = null; // what was measured of it
    let seenAt = 0; // its width then
    let drawnAs = { precisions: "", places: "" };
    let rowsOf = new Map(); // by case, made once for each choice of precisions
    let rows = []; // that are shown
    const cached = new Map();
    const trackOf = new WeakMap();
    const observer = new IntersectionObserver((entries) => {
      for (const entry of entries) if (entry.isIntersecting) fill(entry.target);
    }, { rootMargin: AHEAD });
    const top = element("div", { role: "rowgroup", class: "top" });
    const body = element("div", { class: "body" });
    const width = element("div");
    // A scrollbar that is in sight wherever the table is.
    const bar = element("div", { class: "bar", "aria-hidden": "true", tabindex: "-1" }, width);
    const together = [top, body, bar];
    for (const one of together) one.addEventListener("scroll", () => { for (const other of together) if (other.scrollLeft !== one.scrollLeft) other.scrollLeft = one.scrollLeft; });
    root.replaceChildren(top, body, bar);

    // Marks ---------------------------------------------------------------------------------
    const signOf = (tolds) => {
      const styles = new Set(tolds.map((told) => told.style));
      const here = tolds.some((told) => told.here) ? " here" : "";
      if (styles.size === 1) return { style: tolds[0].style + here, glyph: book.marks[tolds[0].mark].glyph };
      const bad = tolds.some((told) => Book.FAILS.has(told.mark));
      return { style: (bad ? "mixed bad" : "mixed") + here, glyph: "±" };
    };
    const drawn = (stacks) => {
      const key = stacks.join();
      let cell = cached.get(key);
      if (!cell) {
        cell = element("div", { role: "gridcell", class: "cell" });
        if (stacks.length) {
          const signs = view.precisions.map((precision) => signOf(stacks.map((stack) => book.told[book.stacks[stack][precision]])));
          const alike = signs.every((sign) => sign.style === signs[0].style);
          for (const sign of alike ? signs.slice(0, 1) : signs) cell.append(element("i", { class: sign.style }, sign.glyph));
          cell.tabIndex = -1;
        }
        cached.set(key, cell);
      }
      return cell.cloneNode(true);
    };
    const stacksAt = (track, place) => [...new Set(place.columns.map((column) => track.cells[column]).filter((stack) => stack >= 0))].sort((a, b) => a - b);

    const empty = (row) => {
      if (!row.filled) return;
      row.replaceChildren(row.firstChild);
      row.filled = null;
    };
    const fill = (row) => {
      if (row.filled === places || !trackOf.has(row)) return;
      const { track, entry } = trackOf.get(row);
      const made = (place) => {
        const cell = drawn(stacksAt(track, place));
        if (place.first) cell.classList.add("first");
        if (cell.firstChild) cell.setAttribute("aria-label", Detail.name(book, { entry, track, place, precisions: view.precisions }));
        return cell;
      };
      // Fewer columns of the same cells are the commonest change: what stays is not touched.
      const cells = [...row.children].slice(1);
      const kept = new Set(places);
      row.filled?.forEach((place, at) => { if (!kept.has(place)) cells[at].remove(); });
      const had = new Set(row.filled);
      if (row.children.length === 1) row.append(...places.map(made));
      else places.forEach((place, at) => { if (!had.has(place)) row.insertBefore(made(place), row.children[at + 1] ?? null); });
      row.filled = places;
    };

    // Heads and rows ------------------------------------------------------------------------
    // Pairs, stacks and main are few cells in many columns: they are shown to who asks for them.
    const placesOf = () => {
      const shown = new Set(Book.shown(book, view.scope, view.more));
      return book.lines.flatMap((line) => placesIn(line, (column) => shown.has(column)).map(same));
    };
    // A place that was there before is the same object, so that its cells are known again.
    const same = (place) => {
      const key = JSON.stringify(place);
      if (!knownPlaces.has(key)) knownPlaces.set(key, place);
      return knownPlaces.get(key);
    };
    const placesIn = (line, isIn) => {
      const columns = line.columns.filter(isIn);
      const folds = columns.length > 1;
      if (folds && !view.open.has(line.label)) return [{ columns, line: line.label, label: line.label, folded: true, first: true }];
      return columns.map((column, i) => ({ columns: [column], line: line.label, label: book.columns[column].name, open: folds, first: i === 0 }));
    };
    const headOf = (place) => {
      const kind = place.folded ? "line" : place.open ? "release" : "alone";
      const label = element("span", {}, place.label);
      const head = element("div", { role: "columnheader", class: `head ${kind}${place.first ? " first" : ""}` });
      if (!place.folded && !place.open) head.append(label);
      else {
        const does = place.folded ? `${place.label}: ${place.columns.length} releases, unfold` : `${place.label}: fold ${place.line}`;
        const button = element("button", { type: "button", tabindex: "-1", "aria-expanded": String(!place.folded), "aria-label": does, title: does }, label);
        button.addEventListener("click", () => {
          on.fold(place.line);
          root.querySelector(".heads").children[places.findIndex((one) => one.line === place.line) + 1].firstChild.focus();
        });
        head.append(button);
      }
      return head;
    };
    const rowOf = (entry, track) => {
      const way = track.workaround ? entry.ways[track.workaround] : null;
      const kind = way ? "workaround" : "case";
      const device = book.devices.length > 1 ? [element("span", { class: "device" }, ` on ${track.device}`)] : [];
      const link = element("a", { href: way ? `${entry.href}#${way.anchor}` : entry.href, tabindex: "-1", title: way ? way.says : entry.title }, way ? track.workaround : entry.title, ...device);
      // Its cells stand in columns that are shown on request: a row of dashes alone would look safe.
      const waits = track.cells.some((stack) => book.waits[stack]);
      const badges = [...(way ? (way.skips ? ["skips"] : []) : (entry.simulated ? ["simulated"] : [])), ...(waits ? [book.marks["needs-gpu"].words] : [])];
      const small = element("small", {}, ...badges.flatMap((badge) => [element("span", { class: "badge" }, badge), " "]), way ? way.says : element("code", {}, entry.name), ...(way ? [] : [" ", entry.badges.join(", ")]));
      const precisions = element("div", { class: "precisions", "aria-hidden": "true" }, ...view.precisions.map((at) => element("i", {}, book.precisions[at])));
      const head = element("div", { role: "rowheader", class: "name" }, element("div", { class: "label" }, link, small), precisions);
      const row = element("div", { role: "row", class: `row ${kind}` }, head);
      trackOf.set(row, { entry, track });
      return row;
    };
    // A workaround's row stands there unasked where it is what the query found.
    const hit = (track) => view.asked.some((one) => !one.plain && track.cells.some((stack, column) => stack >= 0 && view.scope.columns[column] && one.hits[stack]));

    const isShown = ({ track }) => view.scope.devices.has(track.device) && (!track.workaround || view.ways || hit(track));
    // Cases in the order of the answer above, or those that the newest release still has first.
    const choose = () => {
      const { name, isOpen } = Book.newest(book, view.scope);
      const titleOf = (entry) => (view.isRanked ? "The nearest first" : `${isOpen(entry) ? "Open" : "Not open"} in ${name}`);
      const groups = [...Map.groupBy(view.cases, titleOf)].map(([title, entries]) => {
        const shown = entries.map((entry) => rowsOf.get(entry).filter((row) => isShown(trackOf.get(row)))).filter((some) => some.length);
        const head = element("div", { role: "row", class: "area" }, element("div", { role: "rowheader" }, element("span", {}, `${title} (${shown.length})`)));
        return { shown: shown.flat(), group: element("div", { role: "rowgroup" }, head, ...shown.flat()) };
      }).filter(({ shown }) => shown.length);
      rows = groups.flatMap(({ shown }) => shown);
      body.replaceChildren(...groups.map(({ group }) => group));
      root.classList.toggle("several", view.scope.devices.size > 1);
      root.classList.toggle("empty", !rows.length);
      root.setAttribute("aria-rowcount", String(rows.length + 1));
    };

    // As wide as there is room for, with all lines folded; asked for rarely, since it costs a layout.
    const fit = ({ room, least }) => {
      const lines = new Set(places.map((place) => place.line)).size;
      const head = Math.max(least, Math.min(TITLE, Math.floor(room - lines * EASY)));
      root.style.setProperty("--head", `${head}px`);
      const column = Math.max(NARROW, Math.min(WIDE, Math.floor((room - head) / lines)));
      sizes = { head, room, column };
      root.style.setProperty("--fit", `${column}px`);
      const releases = places.every((place) => place.columns.every((column) => book.columns[column].source === "release"));
      const letters = Math.min(releases ? LETTERS : Infinity, Math.max(...places.map((place) => place.label.length)));
      const heads = `${Math.ceil((8 + LETTER * letters) * REM)}px`;
      root.style.setProperty("--heads", heads);
      // What the heads cover is out of sight for whoever goes through the table by keyboard.
      root.style.setProperty("--covered", heads);
      stretch();
    };
    const stretch = () => {
      root.style.setProperty("--places", String(places.length));
      const wide = sizes.head + places.length * sizes.column;
      for (const one of [top.firstChild, width, ...body.children]) one.style.width = `${wide}px`;
      bar.hidden = wide <= sizes.room;
      const inside = root.querySelector(".inside");
      if (inside) inside.style.width = `${Math.min(wide, sizes.room)}px`;
    };
    // Kept until the width changes: each answer costs a layout.
    const measured = () => page ??= {
      room: root.parentElement.clientWidth - EDGES,
      least: Number.parseFloat(getComputedStyle(document.documentElement).getPropertyValue("--head")) * 16 * REM,
    };
    new ResizeObserver(([{ contentRect: { width } }]) => {
      if (width !== seenAt) page = null;
      seenAt = width;
    }).observe(root.parentElement);
    addEventListener("resize", () => {
      page = null;
      if (root.hidden) drawnAs.places = ""; else fit(measured());
    });

    const show = (next) => {
      const kept = stop && root.contains(stop) ? whereIs(stop) : null;
      close();
      view = { ...next, precisions: book.precisions.map((_, i) => i).filter((i) => next.scope.precisions[i]) };
      const now = { precisions: view.precisions.join(), places: JSON.stringify([view.scope.columns, [...view.open], view.more]) };
      if (now.precisions !== drawnAs.precisions || !rowsOf.size) {
        rowsOf = new Map(book.cases.map((entry) => [entry, entry.tracks.map((track) => rowOf(entry, track))]));
      }
      if (now.precisions !== drawnAs.precisions || now.places !== drawnAs.places) {
        const space = measured();
        places = placesOf();
        if (now.precisions !== drawnAs.precisions) cached.clear();
        choose(); // first: what is hidden, and what is emptied, need not be laid out
        const near = rows.slice(0, SCREEN);
        const isNear = new Set(near);
        for (const row of [...rowsOf.values()].flat()) if (!isNear.has(row)) empty(row);
        const corner = element("div", { role: "columnheader", class: "corner" }, "case", element("small", {}, "transformers"));
        top.replaceChildren(element("div", { role: "row", class: "heads" }, corner, ...places.map(headOf)));
        if (now.precisions !== drawnAs.precisions) root.style.setProperty("--precisions", String(view.precisions.length || 1));
        root.setAttribute("aria-colcount", String(places.length + 1));
        fit(space);
        observer.disconnect();
        for (const row of [...rowsOf.values()].flat()) observer.observe(row);
        near.forEach(fill); // the observer is a frame late
        if (!drawnAs.places) body.scrollLeft = body.scrollWidth; // the newest releases
      } else {
        choose();
        stretch();
      }
      drawnAs = now;
      stopAt((kept && find(kept)) || rows[0]?.querySelector("a") || null);
      openAt(view.at);
    };

    // Cells and their addresses ---------------------------------------------------------------
    const whereIs = (inside) => {
      const row = inside.closest(".row");
      const known = row && trackOf.get(row);
      if (!known) return null;
      const place = [...row.children].indexOf(inside.closest("[role]")) - 1;
      return { case: known.entry.name, workaround: known.track.workaround, device: known.track.device, column: places[place]?.label ?? "" };
    };
    const find = (where) => {
      const row = rows.find((one) => {
        const { entry, track } = trackOf.get(one);
        return entry.name === where.case && track.workaround === where.workaround && track.device === where.device;
      });
      if (!row) return null;
      const place = places.findIndex((one) => one.label === where.column);
      if (place < 0) return row.querySelector("a");
      fill(row);
      return row.children[place + 1];
    };
    const close = () => {
      const open = root.querySelector(".detail");
      if (!open) return;
      root.querySelector(".cell.opened")?.classList.remove("opened");
      open.remove();
      shownAt = null;
    };
    const openAt = (where) => {
      close();
      const cell = where && find(where);
      if (!cell || !cell.matches(".cell") || !cell.firstChild) return;
      cell.classList.add("opened");
      const inside = Detail.draw(book, askedAt(cell), () => on.open(null));
      cell.parentElement.after(element("div", { role: "row", class: "detail" }, element("div", { role: "gridcell" }, inside)));
      stretch();
      shownAt = where;
      stopAt(cell);
    };
    const askedAt = (cell) => {
      const row = cell.parentElement;
      return { ...trackOf.get(row), place: places[[...row.children].indexOf(cell) - 1], precisions: view.precisions };
    };

    // Keyboard and pointer --------------------------------------------------------------------
    const stopOf = (cell) => {
      if (cell?.matches(".name")) return cell.querySelector("a");
      if (cell?.matches(".head")) return cell.querySelector("button");
      return cell?.matches(".cell") && cell.firstChild ? cell : null;
    };
    const stopAt = (next) => {
      if (stop) stop.tabIndex = -1;
      stop = next;
      if (stop) stop.tabIndex = 0;
    };
    const STEPS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0], PageUp: [-10, 0], PageDown: [10, 0], Home: [0, -Infinity], End: [0, Infinity] };
    const move = (cell, [down, right]) => {
      const every = [root.querySelector(".heads"), ...rows];
      const at = every.indexOf(cell.parentElement);
      const column = [...cell.parentElement.children].indexOf(cell);
      if (Number.isFinite(right)) {
        const clamped = Math.abs(down) > 1 ? Math.min(every.length - 1, Math.max(0, at + down)) : at + down;
        return walk(every, clamped, column + right, Math.sign(down), right);
      }
      return right < 0 ? walk(every, at, 0, 0, 1) : walk(every, at, places.length, 0, -1);
    };
    // Over what is empty: a release that a case has no cells in.
    const walk = (every, row, column, down, right) => {
      for (let y = row, x = column; every[y] && x >= 0 && x <= places.length; y += down, x += right) {
        fill(every[y]);
        const found = stopOf(every[y].children[x]);
        if (found) return found;
        if (!down && !right) return null;
      }
      return null;
    };
    root.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && shownAt) {
        event.preventDefault();
        event.stopPropagation();
        const back = find(shownAt);
        on.open(null);
        back?.focus();
        return;
      }
      const cell = event.target.closest(".name, .cell, .head");
      if (!cell || event.ctrlKey || event.altKey || event.metaKey) return;
      if ((event.key === "Enter" || event.key === " ") && cell.matches(".cell")) {
        event.preventDefault();
        toggle(cell);
        return;
      }
      const step = STEPS[event.key];
      if (!step) return;
      event.preventDefault();
      const next = move(cell, step);
      if (!next) return;
      stopAt(next);
      next.focus({ preventScroll: true });
      next.closest("[role]").scrollIntoView({ block: "nearest", inline: "nearest" });
    });
    const toggle = (cell) => {
      on.open(cell.classList.contains("opened") ? null : whereIs(cell));
      // Below the last row that is seen it would open unseen; its cell stays in view all the same.
      for (const one of [".detail", ".cell.opened"]) root.querySelector(one)?.scrollIntoView({ block: "nearest", inline: "nearest" });
    };
    const cellOf = (event) => {
      const cell = event.target.closest(".cell");
      return cell?.firstChild ? cell : null;
    };
    const light = (event) => {
      const cell = cellOf(event);
      root.querySelector(".head.on")?.classList.remove("on");
      if (!cell) return;
      cell.title ||= Detail.sentence(book, askedAt(cell));
      cell.setAttribute("aria-label", cell.title.replaceAll("\n", "; "));
      const place = [...cell.parentElement.children].indexOf(cell);
      root.querySelector(".heads").children[place]?.classList.add("on");
    };
    root.addEventListener("mouseover", light);
    root.addEventListener("mouseleave", light);
    root.addEventListener("focusin", (event) => {
      light(event);
      const next = stopOf(event.target.closest(".name, .cell, .head"));
      if (next) stopAt(next);
    });
    root.addEventListener("click", (event) => {
      const cell = cellOf(event);
      if (cell) toggle(cell);
    });
    addEventListener("beforeprint", () => rows.forEach(fill));

    return { show, openAt, tracks: () => rows.map((row) => trackOf.get(row)) };
  };
  return { create };
})();
