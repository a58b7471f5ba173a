// Opens every page of the console in Chromium, at three widths, light and dark, and saves what it shows. A page must not be
// wider than the window, or bring errors into the browser's console, and axe-core must find no serious fault in it. The
// overview must show a change within two seconds, and every page must be answered in 300 ms. run.sh starts what is needed.
"use strict";

const { execFileSync, spawn } = require("node:child_process");
const fs = require("node:fs");
const path = require("node:path");

const tools = process.env.CONSOLE_TOOLS;
const { chromium } = require(path.join(tools, "playwright-core"));
const axe = fs.readFileSync(path.join(tools, "axe-core/axe.min.js"), "utf8");

const base = process.env.CONSOLE_URL;
const out = process.env.CONSOLE_OUT;
const narrows = Number(process.env.CONSOLE_PID);
const login = "Basic " + Buffer.from("admin:admin").toString("base64");

const WIDTHS = [[390, 844], [1280, 800], [2560, 1440]];
const PAGES = [
  "", "history?span=hour", "history", "history?span=week", "history?span=month", "servers", "topology", "digests", "sessions",
  "rules", "errors", "configuration", "route",
  "route?user=app&schema=shop&statement=" + encodeURIComponent("SELECT name FROM items WHERE id = 7 FOR UPDATE"),
];
const MOST_DELAY_MS = 2000;
const MOST_ANSWER_MS = 300;

const faults = [];

function fault(place, text) {
  faults.push(place + ": " + text);
  console.log("FAULT " + place + ": " + text);
}

async function open(browser, [width, height], colorScheme) {
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme,
    isMobile: width < 600,
    hasTouch: width < 600,
    extraHTTPHeaders: { Authorization: login },
  });
  const page = await context.newPage();
  page.on("console", (message) => {
    if (message.type() === "error") fault(page.url(), "the browser says: " + message.text());
  });
  page.on("pageerror", (error) => fault(page.url(), String(error)));
  return page;
}

async function inspect(page, place, width) {
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  if (wide > width) fault(place, `the page is ${wide} pixels wide in a window of ${width}`);
  await page.evaluate(axe);
  const found = await page.evaluate(() =>
    window.axe.run(document, { resultTypes: ["violations"], rules: { "target-size": { enabled: true } } }));
  for (const violation of found.violations) {
    const told = `${violation.id}: ${violation.help}; ${violation.nodes.length} times, first ${violation.nodes[0].html.slice(0, 200)}`;
    if (violation.impact === "serious" || violation.impact === "critical") fault(place, told);
    else console.log(`note ${place}: ${violation.impact}: ${told}`);
  }
}

function fileName(place, width, scheme) {
  const name = place.replace(/&?statement=.*/, "-answer").replace(/session=.*/, "").replace(/[^a-z]+/g, "-").replace(/-$/, "");
  return path.join(out, `${name || "overview"}-${width}-${scheme}.png`);
}

async function lookAt(page, place, width, scheme, slowest) {
  const since = Date.now();
  const response = await page.goto(base + place, { waitUntil: "domcontentloaded" });
  const took = Date.now() - since;
  slowest.set(place, Math.max(slowest.get(place) ?? 0, took));
  if (response.status() !== 200) fault(place, "status " + response.status());
  await inspect(page, place, width);
  await page.screenshot({ path: fileName(place, width, scheme), fullPage: true });
}

async function lookAtAll(browser) {
  const slowest = new Map();
  for (const size of WIDTHS) {
    for (const scheme of ["light", "dark"]) {
      const page = await open(browser, size, scheme);
      for (const place of PAGES) await lookAt(page, place, size[0], scheme, slowest);
      await page.goto(base + "sessions");
      const end = await page.locator('a[href^="/console/kill"]').first().getAttribute("href", { timeout: 5000 });
      await lookAt(page, end.replace("/console/", ""), size[0], scheme, slowest);
      await page.goto(base + "history");
      await page.locator("summary").first().click();
      await inspect(page, "history with its table", size[0]);
      await page.locator("summary").first().scrollIntoViewIfNeeded();
      await page.screenshot({ path: fileName("history-table", size[0], scheme) });
      await page.context().close();
    }
  }
  for (const [place, took] of slowest) console.log(`${String(took).padStart(6)} ms at most until shown: /console/${place}`);
}

// How long answers take, without the browser.
async function timeAnswers() {
  for (const place of PAGES) {
    const times = [];
    let length = 0;
    for (let count = 0; count < 5; count++) {
      const since = performance.now();
      length = (await (await fetch(base + place, { headers: { Authorization: login } })).text()).length;
      times.push(performance.now() - since);
    }
    const [least, median, most] = [0, 2, 4].map((at) => Math.round(times.sort((one, other) => one - other)[at]));
    const told = `${median} ms (${least} to ${most}), ${Math.round(length / 1024)} KiB: /console/${place}`;
    console.log(told);
    if (median > MOST_ANSWER_MS) fault(place, "the answer takes " + median + " ms");
  }
}

const clientsShown = () => {
  const heads = [...document.querySelectorAll("dt")];
  return heads.find((head) => head.textContent === "Clients").nextElementSibling.textContent;
};

async function within(page, what, condition, argument) {
  const since = Date.now();
  try {
    await page.waitForFunction(condition, argument, { timeout: 10_000, polling: 50 });
  } catch {
    fault("overview", what + " is not shown after 10 s");
    return;
  }
  const took = Date.now() - since;
  console.log(`${String(took).padStart(6)} ms until the overview shows ${what}`);
  if (took > MOST_DELAY_MS) fault("overview", `${what} is shown after ${took} ms`);
}

async function watchOverview(browser) {
  const page = await open(browser, WIDTHS[1], "light");
  await page.goto(base);
  await page.waitForTimeout(3000);
  const drain = (method) => fetch(new URL("/drain", base), { method, headers: { Authorization: login } });
  const says = (text) => document.querySelector(".state").textContent.includes(text);
  await drain("POST");
  await within(page, "draining", says, "Not ready: draining");
  await drain("DELETE");
  await within(page, "that it is ready", says, "Ready: clients");
  const before = await page.evaluate(clientsShown);
  const client = process.env.CONSOLE_CLIENT.split(" ");
  const clients = Array.from({ length: 5 }, () =>
    spawn(client[0], [...client.slice(1), "-e", "SELECT SLEEP(12)"], { stdio: "ignore" }));
  await within(page, "more clients", ([find, before]) => {
    const heads = [...document.querySelectorAll("dt")];
    return Number(heads.find((head) => head.textContent === find).nextElementSibling.textContent) >= before + 5;
  }, ["Clients", Number(before)]);
  clients.forEach((one) => one.kill());
  await page.context().close();
}

// A process and those that it has started: Narrows has a supervisor.
function family(pid) {
  const children = fs.readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ").filter(Boolean);
  return [pid, ...children.flatMap((child) => family(child))];
}

// The time of processors that Narrows has used, in seconds.
function used() {
  const ticks = Number(execFileSync("getconf", ["CLK_TCK"]));
  const fields = (pid) => fs.readFileSync(`/proc/${pid}/stat`, "utf8").replace(/.*\) /, "").split(" ");
  const times = family(narrows).map(fields).map((of) => Number(of[11]) + Number(of[12]));
  return times.reduce((sum, time) => sum + time, 0) / ticks;
}

async function share(seconds) {
  const before = used();
  await new Promise((done) => setTimeout(done, seconds * 1000));
  return (used() - before) / seconds * 100;
}

async function measure(browser) {
  const seconds = Number(process.env.CONSOLE_IDLE_SECONDS ?? 30);
  const without = await share(seconds);
  const page = await open(browser, WIDTHS[1], "light");
  await page.goto(base);
  const watched = await share(seconds);
  await page.context().close();
  const told = [watched - without, watched, without].map((value) => value.toFixed(2));
  console.log(`An open overview costs ${told[0]} % of a core (${told[1]} with it, ${told[2]} without).`);
}

async function browse(what) {
  const options = { executablePath: process.env.CHROMIUM, args: ["--no-sandbox", "--disable-dev-shm-usage"] };
  const browser = await chromium.launch(options);
  try {
    if (what === "measure") await measure(browser);
    else {
      await lookAtAll(browser);
      await watchOverview(browser);
    }
  } finally {
    await browser.close();
  }
}

async function main() {
  if (process.argv[2] === "time") await timeAnswers();
  else await browse(process.argv[2]);
  if (faults.length > 0) {
    console.error(`${faults.length} faults`);
    process.exitCode = 1;
  }
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
