"use strict";
// What the table shows, as rows for programs and spreadsheets.
const Rows = (() => {
  const COLUMNS = ["case", "workaround", "release", "precision", "device", "outcome", "verdict", "error or reason", "exercised", "measured", "stale", "simulated", "repeats"];

  // A row per cell, as in cells.csv: of the rows, columns and precisions that are looked at.
  const cells = (book, tracks, scope) => tracks.flatMap(({ entry, track }) => track.cells.flatMap((stack, column) => {
    if (stack < 0 || !scope.columns[column]) return [];
    return book.precisions.flatMap((precision, at) => {
      if (!scope.precisions[at]) return [];
      const told = book.told[book.stacks[stack][at]];
      const place = [entry.name, track.workaround, Book.standing(book, entry, column), precision, track.device];
      const measured = Book.numbers(book, track, precision, column);
      return [[...place, told.outcome, told.verdict, told.text, told.exercised, measured, told.stale, entry.simulated, told.repeats]];
    });
  }));

  // No spreadsheet takes a message for a formula.
  const field = (value) => {
    const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const csv = (rows) => [COLUMNS, ...rows].map((row) => `${row.map(field).join(",")}\n`).join("");
  const json = (rows, query) => JSON.stringify({ query, columns: COLUMNS, rows });

  return { cells, csv, json };
})();
