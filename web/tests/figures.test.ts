// Figures are said as the text report says them: figures.json is written by crates/report/tests/pages/html.rs.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { type Unit, moment, shown } from "../src/figures.js";

const cases = JSON.parse(readFileSync("tests/figures.json", "utf8")) as [Unit, number, string][];

test("a figure is said as the text report says it", () => {
  assert.ok(cases.length > 50);
  for (const [unit, value, text] of cases) assert.equal(shown(unit, value), text, `${unit} ${value}`);
});

test("a moment is as fine as the length of time needs", () => {
  assert.equal(moment(1.234, 5), "1.23 s");
  assert.equal(moment(62.5, 100), "62.5 s");
  assert.equal(moment(125, 600), "2:05 min");
  assert.equal(moment(7384, 86_400), "2:03:04");
});
