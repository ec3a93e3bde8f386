// What HTML and htmx do not do by themselves: a box of the graph opens beside it, and a choice is sent at once.
document.addEventListener("click", (event) => {
  const box = event.target.closest("a[data-pane]");
  if (!box || event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
  event.preventDefault();
  htmx.ajax("GET", box.dataset.pane, { target: "#pane", swap: "innerHTML" });
});
document.addEventListener("change", (event) => {
  if (event.target.matches("[data-submit]")) event.target.form.submit();
});
// When a page renews itself, lists that somebody opened stay open, what was scrolled stays where it is, and a selection is left alone.
const scrolled = () => [...document.querySelectorAll("#live .wide, #live .scroll")];
let kept = { open: [], at: [] };
document.addEventListener("htmx:beforeSwap", (event) => {
  if (event.detail.target.id !== "live") return;
  const selection = document.getSelection();
  if (!selection.isCollapsed && event.detail.target.contains(selection.anchorNode)) event.detail.shouldSwap = false;
  kept.open = [...document.querySelectorAll("#live details[open][id]")].map((each) => each.id);
  kept.at = scrolled().map((each) => [each.scrollLeft, each.scrollTop]);
});
document.addEventListener("htmx:afterSwap", () => {
  for (const id of kept.open) document.getElementById(id)?.setAttribute("open", "");
  scrolled().forEach((each, n) => each.scrollTo(...(kept.at[n] ?? [0, 0])));
  kept = { open: [], at: [] };
});
