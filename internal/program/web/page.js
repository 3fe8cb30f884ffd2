"use strict";
// Pages are whole without this script. It searches while somebody types: a form with data-live asks the server for its
// page, and shows the part of that with this id.
for (const form of document.querySelectorAll("form[data-live]")) {
  const id = form.dataset.live;
  let timer = 0, asked = 0;
  const ask = async () => {
    const mine = ++asked;
    const address = form.getAttribute("action") + "?" + new URLSearchParams(new FormData(form));
    const answer = await fetch(address);
    if (!answer.ok) return;
    const text = await answer.text();
    if (mine !== asked) return; // somebody typed on
    const fresh = new DOMParser().parseFromString(text, "text/html").getElementById(id);
    const old = document.getElementById(id);
    if (!fresh || !old) return;
    // The line that is read out stays the same element, so that screen readers notice its new text.
    const said = old.querySelector("[role=status]"), says = fresh.querySelector("[role=status]");
    if (said && says) {
      said.textContent = says.textContent;
      says.replaceWith(said);
    }
    old.replaceChildren(...fresh.childNodes);
    history.replaceState(null, "", address);
  };
  form.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => ask().catch(() => {}), 120);
  });
}
