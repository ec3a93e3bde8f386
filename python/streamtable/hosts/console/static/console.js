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
// A list that somebody opened stays open when the page renews itself.
let opened = [];
document.addEventListener("htmx:beforeSwap", () => {
  opened = [...document.querySelectorAll("details[open][id]")].map((each) => each.id);
});
document.addEventListener("htmx:afterSettle", () => {
  for (const id of opened) document.getElementById(id)?.setAttribute("open", "");
});
