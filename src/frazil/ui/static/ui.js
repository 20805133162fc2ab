// What moves on every page. Everything works without it.

const isTyping = (target) => target instanceof Element && target.matches("input, textarea, select, [contenteditable]");

document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !isTyping(event.target) && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    document.getElementById("find").focus();
  }
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target.form) {
    event.preventDefault();
    event.target.form.requestSubmit();
  }
});

// A page of a run at work is loaded again, while somebody can see it.
const seconds = Number(document.body.dataset.live);
if (seconds > 0) {
  setInterval(() => {
    if (document.visibilityState === "visible" && !isTyping(document.activeElement)) location.reload();
  }, seconds * 1000);
}

// A slow form shows that it works, and can be cancelled: the server notices that nobody waits any more.
for (const form of document.querySelectorAll("form[data-slow]")) {
  const cancel = form.querySelector("[data-cancel]");
  const show = (isBusy) => {
    form.classList.toggle("busy", isBusy);
    cancel.hidden = !isBusy;
  };
  form.addEventListener("submit", () => setTimeout(() => show(true), 400));
  cancel.addEventListener("click", (event) => {
    event.preventDefault();
    window.stop();
    show(false);
  });
  window.addEventListener("pageshow", () => show(false));
}
