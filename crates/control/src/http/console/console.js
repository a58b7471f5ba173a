// Asks for the page again at its interval, and shows what has changed. The pages work without this file.
"use strict";

(() => {
  const main = document.getElementById("main");
  const button = document.getElementById("pause");
  const status = document.getElementById("status");
  const interval = Number(main.dataset.refresh) * 1000;
  // On a narrow screen the list of pages is moved sideways.
  document.querySelector("header [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  if (!(interval > 0)) return;

  const TIME_LIMIT_MS = 9000;
  let isPaused = false;
  let last = main.innerHTML;
  let hasFailed = false;

  // Only what differs is written, because every change is read aloud.
  const tell = (text) => {
    if (status.textContent !== text) status.textContent = text;
  };

  button.hidden = false;
  button.addEventListener("click", () => {
    isPaused = !isPaused;
    button.setAttribute("aria-pressed", String(isPaused));
    tell(isPaused ? "Updates are paused." : "");
  });

  const isField = (element) => element.matches("input, textarea, select");

  const isEdited = () =>
    [...main.querySelectorAll("input, textarea")].some((field) => field.value !== field.defaultValue);

  const isSelected = () => {
    const selection = document.getSelection();
    return selection !== null && !selection.isCollapsed && main.contains(selection.anchorNode);
  };

  const isHeldUp = () => {
    const active = document.activeElement;
    return isPaused || document.hidden || (main.contains(active) && isField(active)) || isEdited() || isSelected();
  };

  // Where an element is: by what names it, or by its place among the elements of its kind.
  const placeOf = (element) => {
    const name = element.id ? "#" + CSS.escape(element.id) : "";
    if (name) return { selector: name, index: 0 };
    for (const attribute of ["href", "aria-label"]) {
      const value = element.getAttribute(attribute);
      if (value !== null) {
        const selector = element.localName + "[" + attribute + '="' + CSS.escape(value) + '"]';
        return { selector, index: [...main.querySelectorAll(selector)].indexOf(element) };
      }
    }
    return { selector: element.localName, index: [...main.querySelectorAll(element.localName)].indexOf(element) };
  };

  const elementAt = (place) => main.querySelectorAll(place.selector)[place.index] ?? null;

  const replace = (fresh) => {
    const active = document.activeElement;
    const focus = active !== main && main.contains(active) ? placeOf(active) : null;
    const regions = [...main.querySelectorAll(".scroll")]
      .filter((region) => region.scrollLeft !== 0 || region.scrollTop !== 0)
      .map((region) => ({ place: placeOf(region), left: region.scrollLeft, top: region.scrollTop }));
    const open = [...main.querySelectorAll("details[open]")].map(placeOf);
    const [x, y] = [window.scrollX, window.scrollY];

    const [old, now] = [[...main.children], [...document.adoptNode(fresh).children]];
    if (old.length === now.length) {
      now.forEach((part, place) => part.isEqualNode(old[place]) || old[place].replaceWith(part));
    } else {
      main.replaceChildren(...now);
    }

    for (const place of open) elementAt(place)?.setAttribute("open", "");
    for (const { place, left, top } of regions) elementAt(place)?.scrollTo(left, top);
    if (focus !== null) (elementAt(focus) ?? main).focus({ preventScroll: true });
    window.scrollTo(x, y);
  };

  const refresh = async () => {
    // Not `location.href`, which may have the password.
    const response = await fetch(location.origin + location.pathname + location.search, {
      credentials: "same-origin",
      cache: "no-store",
      redirect: "error",
      signal: AbortSignal.timeout(TIME_LIMIT_MS),
    });
    if (!response.ok) throw new Error("status " + response.status);
    const parsed = new DOMParser().parseFromString(await response.text(), "text/html");
    const fresh = parsed.getElementById("main");
    if (fresh === null) throw new Error("not a page of the console");
    // A field may have been entered, or updates paused, in the meantime.
    if (isHeldUp() || fresh.innerHTML === last) return;
    last = fresh.innerHTML;
    replace(fresh);
  };

  const step = async () => {
    if (!isHeldUp()) {
      try {
        await refresh();
        if (hasFailed) tell(isPaused ? "Updates are paused." : "Updates have resumed.");
        hasFailed = false;
      } catch (error) {
        hasFailed = true;
        tell("The page cannot be updated (" + error.message + "); it shows older figures.");
      }
    }
    setTimeout(step, interval);
  };

  setTimeout(step, interval);
})();
