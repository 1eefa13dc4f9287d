/* The controls of time in the toolbar: buttons, slider, keys and the address. `show(step)` shows the state after round
 * `step`, from 0 to `steps`. The page opens on the last step, unless the address has another one: #step=3. Returns the
 * function that goes to a step. */
function clock(steps, show) {
  const at = id => document.getElementById(id);
  let step = 0, timer = null;

  function go(to) {
    step = Math.max(0, Math.min(steps, to));
    document.body.dataset.step = step;
    at("time").value = step;
    at("now").textContent = step == 0 ? "before the start" : step == steps ? `round ${step} of ${steps}, the end` : `round ${step} of ${steps}`;
    at("first").disabled = at("back").disabled = step == 0;
    at("last").disabled = at("next").disabled = step == steps;
    show(step);
  }

  function stop() {
    clearInterval(timer);
    timer = null;
    at("play").textContent = "play";
  }

  function play() {
    if (timer) return stop();
    if (step == steps) go(0);
    at("play").textContent = "pause";
    timer = setInterval(() => { go(step + 1); if (step == steps) stop(); }, 900);
  }

  function goToAddress() {
    const given = /step=(\w+)/.exec(location.hash);
    go(!given || given[1] == "end" ? steps : +given[1] || 0);
  }

  const moves = { first: () => go(0), back: () => go(step - 1), next: () => go(step + 1), last: () => go(steps) };
  for (const name in moves) at(name).addEventListener("click", () => { stop(); moves[name](); });
  at("play").addEventListener("click", play);
  at("time").addEventListener("input", () => { stop(); go(+at("time").value); });
  addEventListener("keydown", event => {
    const keys = { ArrowLeft: "back", ArrowRight: "next", Home: "first", End: "last" }, target = event.target;
    if (target.tagName == "SELECT" || target.type == "range" || target.type == "number" || event.ctrlKey || event.altKey || event.metaKey) return;
    if (keys[event.key]) { stop(); moves[keys[event.key]](); event.preventDefault(); }
    else if (event.key == " " && !target.closest("#bar")) { play(); event.preventDefault(); }
  });
  addEventListener("hashchange", goToAddress);
  document.body.dataset.steps = at("time").max = steps;
  goToAddress();
  return go;
}

/* The controls of a window that shows `size` of `count` things: a list of windows, and the buttons before and after it,
 * whose ids are the list's id with "-back" and "-on". `label(first, end)` names a window in the list, and `show(first,
 * end)` shows the things `first` to `end` - 1. With `key`, Page Up and Page Down move it; "Shift": together with this
 * key. Returns the function that moves the window to thing number `thing`. */
function slidingWindow(id, count, size, key, label, show) {
  const list = document.getElementById(id), back = document.getElementById(id + "-back"), on = document.getElementById(id + "-on");
  const windows = Math.max(1, Math.ceil(count / size)), boundsOf = number => [number * size, Math.min(count, (number + 1) * size)];
  let current = -1;

  function move(number) {
    if (number == current) return;
    current = number;
    list.value = current;
    back.disabled = current == 0;
    on.disabled = current == windows - 1;
    show(...boundsOf(current));
  }

  for (let number = 0; number < windows; number++) list.add(new Option(label(...boundsOf(number)), number));
  list.parentElement.hidden = windows == 1;
  list.addEventListener("change", () => move(+list.value));
  back.addEventListener("click", () => move(Math.max(0, current - 1)));
  on.addEventListener("click", () => move(Math.min(windows - 1, current + 1)));
  addEventListener("keydown", event => {
    const button = { PageUp: back, PageDown: on }[event.key];
    if (!button || windows == 1 || event.shiftKey != (key == "Shift") || event.target.tagName == "SELECT") return;
    button.click();
    event.preventDefault();
  });
  return thing => move(Math.floor(thing / size));
}
