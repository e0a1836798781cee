"use strict";
(() => {
  const bar = document.getElementById("filter");
  const cards = [...document.querySelectorAll("details.card")];
  const words = bar.querySelector("input[type=search]"), probe = bar.querySelector("select") || { value: "" };
  const boxes = [...bar.querySelectorAll("input[type=checkbox]")], count = bar.querySelector("output");
  const texts = cards.map(card => card.textContent.toLowerCase());
  const areas = [...new Set(cards.map(card => card.closest("section")))];
  const update = () => {
    const wanted = words.value.trim().toLowerCase(), levels = boxes.filter(box => box.checked).map(box => box.value);
    const active = wanted !== "" || probe.value !== "" || levels.length < boxes.length;
    cards.forEach((card, at) => {
      card.hidden = !(texts[at].includes(wanted) && levels.includes(card.dataset.severity) &&
        (probe.value === "" || card.dataset.probes.split(" ").includes(probe.value)));
    });
    for (const area of areas) {
      const shown = area.querySelectorAll("details.card:not([hidden])").length;
      area.hidden = shown === 0 && !area.contains(bar);
      area.classList.toggle("filtered", active);
      for (const fold of area.querySelectorAll("details.folded"))
        if (active && fold.querySelector("details.card:not([hidden])")) fold.open = true;
    }
    count.textContent = `${cards.filter(card => !card.hidden).length} of ${cards.length} findings`;
  };
  bar.addEventListener("input", update);
  bar.hidden = false;
  update();
})();
