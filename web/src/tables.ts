// Tables that sort by a click on a column's title, and copy as text; commands that copy.

export function tables(within: ParentNode = document): void {
  for (const table of within.querySelectorAll<HTMLTableElement>("table.sortable")) sortable(table);
  for (const command of within.querySelectorAll<HTMLElement>(".command")) {
    command.append(copyButton("Copy the command", () => command.querySelector("code")?.textContent ?? ""));
  }
  // What is wider than a phone can be moved by the keyboard too.
  for (const scroll of within.querySelectorAll<HTMLElement>(".scroll")) {
    scroll.tabIndex = 0;
    scroll.setAttribute("role", "group");
    scroll.setAttribute("aria-label", scroll.querySelector("caption")?.firstChild?.textContent ?? "Table");
  }
}

/** Lets a click on a column's title sort a table, and a button copy it. */
export function sortable(table: HTMLTableElement): void {
  const titles = [...table.querySelectorAll<HTMLTableCellElement>("thead th")];
  titles.forEach((title, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...title.childNodes);
    title.append(button);
    button.addEventListener("click", () => {
      const down = title.getAttribute("aria-sort") === "ascending";
      titles.forEach((other) => other.removeAttribute("aria-sort"));
      title.setAttribute("aria-sort", down ? "descending" : "ascending");
      const body = table.tBodies[0];
      if (!body) return;
      const rows = [...body.rows].sort((a, b) => compared(a.cells[column], b.cells[column]));
      body.append(...(down ? rows.reverse() : rows));
    });
  });
  table.caption?.append(" ", copyButton("Copy the table", () => asText(table)));
}

function compared(a: HTMLTableCellElement | undefined, b: HTMLTableCellElement | undefined): number {
  const [x, y] = [a?.dataset.value, b?.dataset.value];
  if (x != null && y != null) return Number(x) - Number(y);
  if (x != null || y != null) return x != null ? -1 : 1;
  return (a?.textContent ?? "").localeCompare(b?.textContent ?? "");
}

/** Columns apart by tabs: what a spreadsheet takes. */
export function asText(table: HTMLTableElement): string {
  return [...table.rows].map((row) => [...row.cells].map((cell) => cell.textContent?.trim() ?? "").join("\t")).join("\n");
}

function copyButton(label: string, text: () => string): HTMLButtonElement {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "Copy";
  button.setAttribute("aria-label", label);
  button.addEventListener("click", async () => {
    const done = await copied(text());
    button.textContent = done ? "Copied" : "Not allowed";
    const status = document.getElementById("status");
    if (status) status.textContent = done ? "Copied" : "The browser does not allow it";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  return button;
}

async function copied(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // A page that was opened as a file may have no clipboard of its own.
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}
