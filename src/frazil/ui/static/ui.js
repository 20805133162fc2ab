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

// A record, its way and its change are one: what points at one lights all of them.
const light = (event, isLit) => {
  const place = event.target instanceof Element && event.target.closest("[data-place]");
  if (!place) return;
  for (const one of document.querySelectorAll("[data-place]")) {
    one.classList.toggle("lit", isLit && one.dataset.place === place.dataset.place);
  }
};
document.addEventListener("pointerover", (event) => light(event, true));
document.addEventListener("pointerout", (event) => light(event, false));
document.addEventListener("focusin", (event) => light(event, true));
document.addEventListener("focusout", (event) => light(event, false));

// Arrow keys move the focus between the parts of the square.
const boxOf = (link) => link.querySelector(".cell").getBBox();
document.addEventListener("keydown", (event) => {
  const here = document.activeElement;
  const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
  if (!step || !here || !here.querySelector || !here.querySelector(".cell")) return;
  event.preventDefault();
  const from = boxOf(here);
  const ahead = [...here.ownerSVGElement.querySelectorAll("a")].filter((link) => {
    if (!link.querySelector(".cell") || link === here) return false;
    const to = boxOf(link);
    const isInLine = step[0] ? Math.abs(to.y - from.y) < 1 : Math.abs(to.x - from.x) < 1;
    return isInLine && (to.x - from.x) * step[0] + (to.y - from.y) * step[1] > 0;
  });
  const far = (link) => Math.abs(boxOf(link).x - from.x) + Math.abs(boxOf(link).y - from.y);
  ahead.sort((one, other) => far(one) - far(other));
  if (ahead.length) ahead[0].focus();
});
