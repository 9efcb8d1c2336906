"use strict";
// TOML as lock files are written in it, into objects without a prototype: no key is special.
const Toml = (() => {
  class Fault extends Error {}
  const DEEPEST = 100;
  const BLANK = /[ \t]*/y;
  const GAP = /(?:[ \t\r\n]+|#[^\n]*)*/y;
  const BARE = /[A-Za-z0-9_-]+/y;
  const SCALAR = /(true|false)|([+-]?(?:0x[0-9a-fA-F_]+|0o[0-7_]+|0b[01_]+))|(\d{4}-\d\d-\d\d(?:[Tt ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:[Zz]|[+-]\d\d:\d\d)?)?|\d\d:\d\d:\d\d(?:\.\d+)?)|([+-]?(?:inf|nan|\d[\d_]*(?:\.\d[\d_]*)?(?:[eE][+-]?\d[\d_]*)?))/y;
  const PLAIN = /"([^"\\\n]*)"|'([^'\n]*)'/y;
  const ESCAPES = { b: "\b", t: "\t", n: "\n", f: "\f", r: "\r", e: "\x1b", '"': '"', "\\": "\\" };

  const read = (text) => {
    let at = 0;
    const refuse = (what) => {
      throw new Fault(`${what} (line ${text.slice(0, at).split("\n").length})`);
    };
    const match = (pattern) => {
      pattern.lastIndex = at;
      const found = pattern.exec(text);
      if (found) at = pattern.lastIndex;
      return found;
    };
    const blank = () => match(BLANK);
    const gap = () => match(GAP);

    const unescaped = (body) => body.replace(/\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|x([0-9a-fA-F]{2})|(\r?\n)\s*|[ \t]+\r?\n\s*|([^]))/g, (all, four, eight, two, line, one) => {
      const code = four ?? eight ?? two;
      if (code) {
        const point = Number.parseInt(code, 16);
        return point > 0x10ffff ? refuse("a character does not exist") : String.fromCodePoint(point);
      }
      if (one === undefined) return "";
      return ESCAPES[one] ?? refuse(`an escape \\${one} is unknown`);
    });
    const long = (quote) => {
      let end = text.indexOf(quote, at + 3);
      while (quote === '"""' && end > 0 && /(?:^|[^\\])(?:\\\\)*\\$/.test(text.slice(Math.max(at + 3, end - 20), end))) end = text.indexOf(quote, end + 1);
      if (end < 0) refuse("a text has no end");
      while (text[end + 3] === quote[0]) end += 1; // the quotes of the text itself
      const body = text.slice(at + 3, end).replace(/^\r?\n/, "");
      at = end + 3;
      return quote === '"""' ? unescaped(body) : body;
    };
    const QUOTED = /"((?:[^"\\\n]|\\[^\n])*)"/y;
    const string = () => {
      for (const quote of ['"""', "'''"]) if (text.startsWith(quote, at)) return long(quote);
      const plain = match(PLAIN);
      if (plain) return plain[1] ?? plain[2];
      const quoted = match(QUOTED);
      return quoted ? unescaped(quoted[1]) : refuse("a text has no end");
    };
    const isQuote = () => text[at] === '"' || text[at] === "'";
    const key = () => {
      const parts = [];
      do {
        blank();
        if (isQuote()) parts.push(string());
        else parts.push((match(BARE) ?? refuse("a key is missing"))[0]);
        if (parts.length > DEEPEST) refuse("a key has too many parts");
        blank();
      } while (text[at] === "." && (at += 1));
      return parts;
    };
    const array = (depth) => {
      const items = [];
      at += 1;
      for (;;) {
        gap();
        if (text[at] === "]") { at += 1; return items; }
        items.push(value(depth));
        gap();
        if (text[at] === ",") at += 1;
        else if (text[at] !== "]") refuse("a list has no end");
      }
    };
    const inline = (depth) => {
      const table = Object.create(null);
      at += 1;
      for (;;) {
        gap();
        if (text[at] === "}") { at += 1; return table; }
        put(table, depth);
        gap();
        if (text[at] === ",") at += 1;
        else if (text[at] !== "}") refuse("a table has no end");
      }
    };
    const value = (depth) => {
      if (depth > DEEPEST) refuse("it is nested too deep");
      if (isQuote()) return string();
      if (text[at] === "[") return array(depth + 1);
      if (text[at] === "{") return inline(depth + 1);
      const found = match(SCALAR);
      if (!found) return refuse("a value is missing");
      const [all, truth, based, date] = found;
      if (truth) return truth === "true";
      if (date) return all;
      return Number((based ?? all).replaceAll("_", "").replace("inf", "Infinity").replace("nan", "NaN"));
    };
    const inside = (table, name) => {
      table[name] ??= Object.create(null);
      const held = Array.isArray(table[name]) ? table[name].at(-1) : table[name];
      return typeof held === "object" && held !== null ? held : refuse(`${name} is no table`);
    };
    const put = (table, depth) => {
      const parts = key();
      if (text[at] !== "=") refuse("there is no = behind a key");
      at += 1;
      blank();
      const held = parts.slice(0, -1).reduce(inside, table);
      const name = parts.at(-1);
      if (name in held) refuse(`${name} stands there twice`);
      held[name] = value(depth);
    };
    const head = (root) => {
      const many = text[at + 1] === "[";
      at += many ? 2 : 1;
      const parts = key();
      if (!text.startsWith(many ? "]]" : "]", at)) refuse("the name of a table has no end");
      at += many ? 2 : 1;
      const held = parts.slice(0, -1).reduce(inside, root);
      const name = parts.at(-1);
      if (!many) return inside(held, name);
      held[name] ??= [];
      if (!Array.isArray(held[name])) refuse(`${name} is no list of tables`);
      held[name].push(Object.create(null));
      return held[name].at(-1);
    };

    const root = Object.create(null);
    let table = root;
    for (gap(); at < text.length; gap()) {
      if (text[at] === "[") table = head(root);
      else put(table, 0);
      blank();
      if (at < text.length && !/[\r\n#]/.test(text[at])) refuse("there is more on a line than belongs there");
    }
    return root;
  };
  return { Fault, read };
})();
