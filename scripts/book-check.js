// book-check.js FOLDER: checks a built book. Every link between its pages leads somewhere, nothing is loaded from elsewhere,
// and readers who ask a question find the page that answers it. The book's own search engine and options are used.
'use strict';

const fs = require('fs');
const path = require('path');
const vm = require('vm');

const folder = process.argv[2];
const failures = [];

// Questions as readers type them, and the page that must be the first result.
const QUESTIONS = [
  ["how do I send one table's reads to a replica", 'docs/recipes/read-write-split.html'],
  ['what is error 9001', 'docs/errors.html'],
  ['how do I rotate the TLS certificate', 'docs/recipes/tls.html'],
  ['what is error 1045', 'docs/errors.html'],
  ['how do I cache the results of a statement', 'docs/recipes/query-cache.html'],
  ['client address behind a load balancer', 'docs/recipes/proxy-protocol.html'],
  ['shard by schema', 'docs/recipes/sharding.html'],
  ['migrate from MaxScale', 'docs/migration/maxscale.html'],
  ['backup of the configuration', 'docs/operations.html'],
];

function files(at) {
  return fs.readdirSync(at, { withFileTypes: true }).flatMap((entry) => {
    const name = path.join(at, entry.name);
    return entry.isDirectory() ? files(name) : [name];
  });
}

function checkLinks() {
  const pages = files(folder).filter((name) => name.endsWith('.html'));
  const ids = new Map();
  const idsOf = (name) => {
    if (!ids.has(name)) {
      const html = fs.readFileSync(name, 'utf8');
      ids.set(name, new Set([...html.matchAll(/\sid="([^"]*)"/g)].map((found) => found[1])));
    }
    return ids.get(name);
  };
  let links = 0;
  for (const page of pages) {
    // The page of a missing address, and the one to print, repeat others.
    if (['404.html', 'print.html', 'toc.html'].includes(path.relative(folder, page))) continue;
    const html = fs.readFileSync(page, 'utf8');
    for (const [, attribute, link] of html.matchAll(/\s(href|src)="([^"]*)"/g)) {
      if (/^(https?:)?\/\//.test(link)) {
        if (attribute === 'src') failures.push(`${page}: loads ${link}`);
        continue;
      }
      if (link === '' || /^(mailto|data|javascript):/.test(link)) continue;
      links += 1;
      const [file, anchor] = decodeURI(link).split('#');
      const target = file === '' ? page : path.join(path.dirname(page), file);
      if (!fs.existsSync(target)) failures.push(`${page}: ${link} leads nowhere`);
      else if (anchor && target.endsWith('.html') && !idsOf(target).has(anchor)) failures.push(`${page}: ${link}: no such heading`);
    }
  }
  if (pages.length < 40 || links < 500) failures.push(`${pages.length} pages, ${links} links: is the book complete?`);
  return `${pages.length} pages, ${links} links`;
}

// Loads what the pages load: the engine, and the index with its options.
function searcher() {
  const found = (pattern) => files(folder).find((name) => pattern.test(path.basename(name)));
  const page = vm.createContext({});
  page.window = page;
  page.self = page;
  page.search = {};
  for (const pattern of [/^elasticlunr.*\.js$/, /^searchindex.*\.js$/]) {
    vm.runInContext(fs.readFileSync(found(pattern), 'utf8'), page);
  }
  const data = page.window.search;
  const index = page.elasticlunr.Index.load(data.index);
  return (question) => index.search(question, data.search_options).map((result) => data.doc_urls[parseInt(result.ref, 10)]);
}

const counted = checkLinks();
const search = searcher();
for (const [question, wanted] of QUESTIONS) {
  const results = search(question);
  const first = (results[0] || 'nothing').split('#')[0];
  console.log(`book: ${question}? ${results.slice(0, 3).join(', ') || 'nothing'}`);
  if (first !== wanted) failures.push(`${question}? The first result is ${first}, not ${wanted}`);
}
failures.forEach((failure) => console.error(`book: ${failure}`));
console.log(`book: ${counted}, ${QUESTIONS.length} questions, ${failures.length} failures`);
process.exitCode = failures.length === 0 ? 0 : 1;
