"use strict";
// What is looked at, in the part of the address behind the #; an anchor of the page stays one.
const Address = (() => {
  const read = () => {
    const text = location.hash.slice(1);
    const found = new URLSearchParams(text.includes("=") ? text : "");
    const at = found.getAll("at");
    return {
      q: found.get("q") ?? "",
      open: new Set(found.getAll("open")),
      ways: found.get("ways") === "1",
      more: found.get("more") === "1",
      at: at.length === 4 ? { case: at[0], workaround: at[1], device: at[2], column: at[3] } : null,
    };
  };
  const written = (state) => {
    const parts = new URLSearchParams();
    if (state.q) parts.set("q", state.q);
    for (const line of state.open) parts.append("open", line);
    if (state.ways) parts.set("ways", "1");
    if (state.more) parts.set("more", "1");
    if (state.at) for (const key of ["case", "workaround", "device", "column"]) parts.append("at", state.at[key]);
    return parts.toString();
  };
  // A step can be gone back to; what is only typed on the way replaces the last one.
  const write = (state, step) => {
    const text = written(state);
    if (text === location.hash.slice(1)) return;
    const address = text ? `#${text}` : "#q=";
    if (step) location.hash = address;
    else location.replace(address);
  };
  const isAnchor = () => location.hash.length > 1 && !location.hash.includes("=");
  return { read, write, isAnchor };
})();
