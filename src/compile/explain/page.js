(function () {
  document.querySelectorAll(".sl-explain:not([data-live])").forEach(function (root) {
    root.setAttribute("data-live", "");
    root.querySelectorAll(".sl-plan").forEach(function (plan) {
      var box = plan.querySelector(".sl-drawing");
      // a step of this plan, and all that belongs to it
      function show(step) {
        plan.querySelectorAll(".sl-on").forEach(function (e) { e.classList.remove("sl-on"); });
        plan.classList.toggle("sl-lit", step !== null);
        if (step === null) { return; }
        plan.querySelectorAll('[data-step="' + step + '"]').forEach(function (e) {
          e.classList.add("sl-on");
        });
      }
      function of(event, name) {
        var e = event.target.closest("[" + name + "]");
        return e ? e.getAttribute(name) : null;
      }
      // brings a part of the drawing to where it is seen, without moving the page
      function bring(selector) {
        var e = box ? box.querySelector(selector) : null;
        if (!e) { return; }
        var part = e.getBoundingClientRect();
        var seen = box.getBoundingClientRect();
        box.scrollTop += part.top + part.height / 2 - (seen.top + seen.height / 2);
        box.scrollLeft += part.left + part.width / 2 - (seen.left + seen.width / 2);
      }
      function go(event) {
        if (event.target.closest("svg, summary")) { return; }
        var node = of(event, "data-node");
        var step = of(event, "data-step");
        if (node !== null) { bring('g[data-node="' + node + '"]'); }
        else if (step !== null) { bring('g[data-step="' + step + '"]'); }
      }
      plan.addEventListener("pointerover", function (event) { show(of(event, "data-step")); });
      plan.addEventListener("pointerleave", function () { show(null); });
      plan.addEventListener("focusin", function (event) { show(of(event, "data-step")); });
      plan.addEventListener("focusout", function () { show(null); });
      plan.addEventListener("click", go);
      plan.addEventListener("keydown", function (event) { if (event.key === "Enter") { go(event); } });
      // a drawing that is larger than its box begins at the first step, when it is first seen
      function begin() { bring("g[data-step]"); if (box) { box.scrollTop = 0; } }
      var around = plan.closest("details");
      if (around) { around.addEventListener("toggle", begin, { once: true }); }
      begin();
    });
  });
}());
