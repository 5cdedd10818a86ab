// Keeps the progress of a running plan up to date. Words from results become text, never markup.
"use strict";
(() => {
  const SIGNS = { running: "▶", interrupted: "‖", complete: "✓", ok: "✓", failed: "✕" };

  function link(run) {
    const element = document.createElement("a");
    element.href = `/runs/${encodeURIComponent(run.id)}`;
    element.textContent = run.name;
    return element;
  }

  function mark(word) {
    const element = document.createElement("span");
    element.className = `mark ${word}`;
    element.textContent = `${SIGNS[word] || "·"} ${word}`;
    return element;
  }

  function doing(run) {
    const steps = run.phase === "train" && run.of_steps ? ` ${run.steps} of ${run.of_steps} steps` : "";
    const speed = run.images_per_second ? `, ${run.images_per_second} images/s` : "";
    return `: ${run.interrupted ? "interrupted in " : ""}${run.phase}${steps}${speed}`;
  }

  function ended(run) {
    const item = document.createElement("li");
    item.append(mark(run.status), " ", link(run), `: ${run.said}`);
    return item;
  }

  function say(element, text) { // a screen reader repeats what is written anew, even if it is the same
    if (element.textContent !== text) element.textContent = text;
  }

  function show(section, state) {
    const part = (name) => section.querySelector(`[data-live="${name}"]`);
    section.className = `live ${state.state}`;
    part("state").className = `mark ${state.state}`;
    say(part("state"), `${SIGNS[state.state]} ${state.state}`);
    say(part("summary"), state.summary);
    say(part("left"), state.left ? `, about ${state.left} left` : "");
    const bar = section.querySelector("progress");
    bar.max = state.wanted || 1;
    bar.value = state.done;
    part("run").replaceChildren(...(state.run ? [link(state.run), doing(state.run)] : []));
    part("run").hidden = !state.run;
    part("ended").replaceChildren(...state.ended.map(ended));
    part("newer").hidden = state.done <= Number(section.dataset.done);
    part("lost").hidden = true;
  }

  function follow(section) {
    const events = new EventSource(section.dataset.events);
    const read = (event) => show(section, JSON.parse(event.data));
    events.addEventListener("progress", read);
    events.addEventListener("end", (event) => { // nothing will change any more
      read(event);
      events.close();
    });
    events.addEventListener("error", () => { // the browser tries again by itself
      section.querySelector('[data-live="lost"]').hidden = false;
    });
  }

  for (const section of document.querySelectorAll("[data-events]")) follow(section);
})();
