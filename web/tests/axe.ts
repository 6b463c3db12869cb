// What looks at a page for those who use it by ear, by keyboard or with little sight: axe, of Deque.
import { AxeBuilder } from "@axe-core/playwright";
import type { Page } from "playwright-core";

/** By all its rules, or by one. Our pages have no frames, so it runs in the page itself and hands over only what it finds: that takes five sixths of the time. */
export function axe(page: Page, rule?: string): AxeBuilder {
  const of_rule = rule ? { runOnly: { type: "rule" as const, values: [rule] } } : {};
  return new AxeBuilder({ page }).options({ resultTypes: ["violations"], ...of_rule }).setLegacyMode();
}
