// The page of a folder of recordings: found by words, sorted, two compared, one deleted.
import { tables } from "./tables";

export function library(): void {
  tables();
  const table = document.querySelector<HTMLTableElement>("#runs");
  const body = table?.tBodies[0];
  if (!body) return;
  const found = document.getElementById("found");
  const said = document.getElementById("said");
  const compare = document.getElementById("compare") as HTMLButtonElement | null;
  const ticked: string[] = [];
  /** What each row is found by, made once: thousands are looked through at each key. */
  const words = new Map([...body.rows].map((row) => [row, `${row.dataset.id} ${row.textContent}`.toLowerCase()]));
  const count = () => {
    const shown = [...words.keys()].filter((row) => !row.hidden).length;
    if (found) found.textContent = shown === words.size ? `${shown} recordings` : `${shown} of ${words.size} recordings`;
  };
  document.getElementById("find")?.addEventListener("input", (event) => {
    const wanted = (event.target as HTMLInputElement).value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const [row, text] of words) row.hidden = !wanted.every((word) => text.includes(word));
    count();
  });
  const box = (id: string) => body.querySelector<HTMLInputElement>(`tr[data-id="${CSS.escape(id)}"] input`);
  body.addEventListener("change", (event) => {
    const input = event.target as HTMLInputElement;
    const id = input.closest("tr")?.dataset.id;
    if (id == null) return;
    const at = ticked.indexOf(id);
    if (at >= 0) ticked.splice(at, 1);
    if (input.checked) ticked.push(id);
    // A third takes the place of the first.
    while (ticked.length > 2) {
      const first = box(ticked.shift() ?? "");
      if (first) first.checked = false;
    }
    if (compare) compare.disabled = ticked.length !== 2;
  });
  compare?.addEventListener("click", () => {
    location.assign(`/compare?${ticked.map((id) => `run=${encodeURIComponent(id)}`).join("&")}`);
  });
  body.addEventListener("click", async (event) => {
    const button = (event.target as Element).closest<HTMLButtonElement>("button.delete");
    const row = button?.closest("tr");
    if (!button || !row) return;
    if (button.dataset.asked == null) {
      // Asked twice: it cannot be taken back.
      button.dataset.asked = "";
      button.textContent = "Really delete";
      setTimeout(() => { delete button.dataset.asked; button.textContent = "Delete"; }, 5000);
      return;
    }
    try {
      const answer = await fetch("/delete", {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ id: row.dataset.id }),
      });
      const text = await answer.text();
      if (said) said.textContent = answer.ok ? `Deleted: ${row.dataset.id}` : text;
      if (!answer.ok) return;
      const at = ticked.indexOf(row.dataset.id ?? "");
      if (at >= 0) ticked.splice(at, 1);
      if (compare) compare.disabled = ticked.length !== 2;
      // The focus goes on to the next row, and not to the page's beginning.
      (row.nextElementSibling ?? row.previousElementSibling)?.querySelector<HTMLElement>("a, button")?.focus();
      words.delete(row);
      row.remove();
      count();
    } catch (error) {
      if (said) said.textContent = `It was not deleted: ${String(error)}`;
    }
  });
}
