// The documentation's pages: copy buttons, one language for all snippets, and results while a search is typed. They work
// without all of it.
(() => {
  for (const [number, pre] of document.querySelectorAll(".docs pre").entries()) {
    pre.id ||= `to-copy-${number}`;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy quiet small";
    button.textContent = "Copy";
    button.dataset.copy = pre.id; // for copy.js
    const box = document.createElement("div");
    box.className = "box";
    pre.replaceWith(box);
    box.append(pre, button);
  }

  const choose = (language) => {
    for (const input of document.querySelectorAll(`.langs input[value="${CSS.escape(language)}"]`)) input.checked = true;
  };
  try {
    choose(localStorage.getItem("language") ?? "bash");
  } catch {}
  document.addEventListener("change", (event) => {
    if (!event.target.matches(".langs input")) return;
    const before = event.target.getBoundingClientRect().top;
    choose(event.target.value);
    scrollBy(0, event.target.getBoundingClientRect().top - before);
    try {
      localStorage.setItem("language", event.target.value);
    } catch {}
  });

  const results = document.getElementById("results");
  const input = document.querySelector("article input[type=search]");
  if (!results || !input) return;
  let waiting, last;
  input.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(async () => {
      const address = `/docs/search?q=${encodeURIComponent(input.value)}`;
      last = address;
      const answer = await fetch(address, { headers: { Accept: "text/html" } }).catch(() => undefined);
      if (!answer?.ok) return;
      const found = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("results");
      if (found && last === address) {
        results.replaceChildren(...found.childNodes);
        history.replaceState(null, "", address);
      }
    }, 150);
  });
})();
