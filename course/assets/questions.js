// Questions in a page are judged here, by the rules of stepprof_lab/site/questions.py. Answers stay in this browser.
"use strict";
(() => {
  const close = (given, wanted, tolerance) => Math.abs(given - wanted) <= tolerance * Math.abs(wanted) + 1e-9;

  const judged = (data, given) => {
    if (data.choices) return { right: data.choices[given].right, said: data.choices[given].why };
    if (close(given, data.answer, data.tolerance)) return { right: true, said: data.right };
    const mistake = data.mistakes.find((one) => close(given, one.value, data.tolerance));
    return { right: false, said: mistake ? mistake.why : data.otherwise };
  };

  const answered = (form) => {
    const chosen = form.querySelector("input[type=radio]:checked");
    if (chosen) return Number(chosen.value);
    const typed = form.querySelector("input[type=text]");
    const text = typed ? typed.value.trim().replace(",", ".") : "";
    return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text) ? Number(text) : null;
  };

  const say = (form, data, given) => {
    const reply = form.querySelector(".sp-reply");
    if (given === null) {
      reply.textContent = data.choices ? "Choose one first." : "A number is wanted here, such as 12.5.";
      reply.className = "sp-reply";
      return;
    }
    const { right, said } = judged(data, given);
    reply.className = `sp-reply ${right ? "is-right" : "is-wrong"}`;
    reply.innerHTML = `<strong>${right ? "Yes." : "Not yet."}</strong> ${said}`;
  };

  const kept = (key, value) => {
    try {
      if (value === undefined) return localStorage.getItem(key);
      localStorage.setItem(key, value);
    } catch { /* a browser may keep nothing for files */ }
    return null;
  };

  const restore = (form, value) => {
    const box = form.querySelector(`input[type=radio][value="${CSS.escape(value)}"]`);
    const typed = form.querySelector("input[type=text]");
    if (box) box.checked = true;
    else if (typed) typed.value = value;
  };

  for (const form of document.querySelectorAll("form.sp-question")) {
    const data = JSON.parse(form.querySelector("script").textContent);
    const key = `stepprof:${form.dataset.question}`;
    const before = kept(key);
    if (before !== null) {
      restore(form, before);
      say(form, data, answered(form));
    }
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const given = answered(form);
      say(form, data, given);
      if (given !== null) kept(key, String(given));
    });
  }
})();
