"use strict";
// All that pages do by themselves. Each behaviour is asked for by a data attribute in a template.
// Answers of the server are made from templates that escape every value.

const quiet = { headers: { "X-Desk-Poll": "1" } }; // not a person's doing: the idle clock runs on

async function put(target, response) {
  const next = response.headers.get("X-Desk-Next");
  if (next) { location.assign(next); return; }
  const open = [...target.querySelectorAll("details")].map((each) => each.open);
  target.innerHTML = await response.text();
  [...target.querySelectorAll("details")].forEach((each, place) => { each.open = Boolean(open[place]); });
}

function lost(target) {
  target.textContent = "The desk does not answer. Start it again with: ppodc desk. Nothing is lost.";
}

// A chosen file goes out as it is, as the body of a PUT.
for (const input of document.querySelectorAll("input[data-put]")) {
  input.addEventListener("change", () => {
    const file = input.files[0], bar = document.getElementById(input.dataset.bar);
    const said = document.getElementById(input.dataset.said);
    if (!file) return;
    const request = new XMLHttpRequest();
    request.open("PUT", `${input.dataset.put}?name=${encodeURIComponent(file.name)}`);
    request.upload.onprogress = (event) => { bar.hidden = false; bar.max = event.total; bar.value = event.loaded; };
    request.onload = () => {
      bar.hidden = true;
      const next = request.getResponseHeader("X-Desk-Next");
      if (next) location.assign(next); else said.textContent = request.responseText;
    };
    request.onerror = () => { bar.hidden = true; lost(said); };
    request.send(file);
  });
}

// A part of the page that is asked for again and again.
for (const part of document.querySelectorAll("[data-poll]")) {
  const look = async () => {
    if (document.visibilityState !== "visible") return;
    try {
      const response = await fetch(part.dataset.poll, quiet);
      if (response.ok) await put(part, response); else lost(part);
    } catch { lost(part); }
  };
  setInterval(look, Number(part.dataset.every || 2) * 1000);
}

// A button that works once enough, or exactly this, was typed.
for (const button of document.querySelectorAll("button[data-after]")) {
  const fields = button.form.querySelectorAll("[data-length], [data-exactly], input[required]");
  const look = () => {
    button.disabled = ![...fields].every((field) => {
      if (field.type === "checkbox") return field.checked;
      if (field.dataset.exactly !== undefined) return field.value === field.dataset.exactly;
      if (field.dataset.length !== undefined) return field.value.trim().length === Number(field.dataset.length);
      return field.value.trim() !== "";
    });
  };
  button.form.addEventListener("input", look);
  look();
}

// A form whose other half follows while somebody types.
for (const form of document.querySelectorAll("form[data-live]")) {
  const target = document.getElementById(form.dataset.into);
  let waiting = 0, newest = 0;
  form.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(async () => {
      const mine = ++newest, body = new URLSearchParams(new FormData(form));
      try {
        const response = await fetch(form.dataset.live, { method: "POST", body });
        const text = await response.text();
        if (mine === newest) target.innerHTML = text;
      } catch { lost(target); }
    }, 250);
  });
}

// Choices that take effect at once.
for (const select of document.querySelectorAll("select[data-at-once]")) {
  select.addEventListener("change", () => select.form.requestSubmit());
}

// Rows of a table by what they hold.
for (const input of document.querySelectorAll("input[data-filter]")) {
  const rows = [...document.querySelectorAll(`#${input.dataset.filter} tbody tr`)];
  input.addEventListener("input", () => {
    const wanted = input.value.toLowerCase();
    for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
  });
}

// Text to take along.
for (const button of document.querySelectorAll("button[data-copy]")) {
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent.trim());
    button.textContent = "Copied";
  });
}
