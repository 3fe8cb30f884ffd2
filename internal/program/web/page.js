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

// A page of something that runs follows it: the server says that it has changed, and the page asks for itself again.
// A page that nobody sees does not: a browser has few connections to a server.
for (const place of document.querySelectorAll("[data-follow]")) {
  const id = place.id;
  let events = null, asking = false, again = false;
  const ask = async () => {
    const answer = await fetch(location.href);
    if (!answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById(id);
    if (!fresh) return;
    const atEnd = document.documentElement.scrollHeight - scrollY - innerHeight < 80;
    place.replaceChildren(...fresh.childNodes);
    if (atEnd) scrollTo(0, document.documentElement.scrollHeight);
  };
  const changed = async () => {
    again = true;
    if (asking) return;
    asking = true;
    while (again) {
      again = false;
      await ask().catch(() => {});
    }
    asking = false;
  };
  const follow = () => {
    if (document.hidden && events) {
      events.close();
      events = null;
    } else if (!document.hidden && !events) {
      if (place.dataset.hidden) changed();
      events = new EventSource(place.dataset.follow);
      events.onmessage = changed;
    }
    place.dataset.hidden = document.hidden ? "1" : "";
  };
  document.addEventListener("visibilitychange", follow);
  follow();
}
