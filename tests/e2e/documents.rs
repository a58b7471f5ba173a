//! The documents are correct: everything that README.md and docs/ tell a reader to type is run as printed, in a folder
//! that was empty before, in the order of the page, and what they show as output is compared. [`page`] says what the
//! blocks of a page may be.
//!
//! A command that runs until Ctrl-C says so in its comment; it keeps running until the end of the scene, and gets its
//! Ctrl-C then. A block that cannot be run here says so, with the reason, for all readers: `# Tests leave this out:
//! ...`.

use std::path::Path;

use page::{Page, Step};
use scene::Scene;

mod errors;
mod page;
mod scene;

fn pages() -> Vec<Page> {
    page::pages(Path::new(env!("CARGO_MANIFEST_DIR")))
}

#[test]
fn every_block_does_what_it_says() {
    let pages = pages();
    // The pages in docs/ assume the Narrows that README.md starts; these start their own.
    let is_alone = |page: &&Page| ALONE.iter().any(|name| page.is_of(name));
    let mut by_hand = Scene::new();
    let others = pages.iter().filter(|page| !is_alone(page) && !page.is_of(RECIPES));
    others.for_each(|page| by_hand.run(page));
    by_hand.end();
    for page in pages.iter().filter(is_alone) {
        let mut alone = Scene::new();
        alone.run(page);
        alone.end();
    }
}

#[test]
fn every_recipe_does_what_it_says() {
    let pages = pages();
    let mut kitchen = Scene::new();
    START_OF_RECIPES.iter().for_each(|line| kitchen.follow(line));
    let running = kitchen.running();
    for page in pages.iter().filter(|page| page.is_of(RECIPES) && !page.is_of(RECIPES_START)) {
        kitchen.follow(START_OF_RECIPE);
        kitchen.run(page);
        kitchen.stop_all_but(running);
    }
    kitchen.end();
}

#[test]
fn the_recipes_start_as_their_first_page_says() {
    let pages = pages();
    let start = pages.iter().find(|page| page.is_of(RECIPES_START)).expect("the first page");
    let lines: Vec<&str> = start
        .steps
        .iter()
        .filter_map(|step| match step {
            Step::Runs(line) => Some(line.as_str()),
            _ => None,
        })
        .collect();
    let wanted: Vec<&str> = START_OF_RECIPES.into_iter().chain([START_OF_RECIPE]).collect();
    assert_eq!(lines, wanted);
}

#[test]
fn no_block_is_left_out_without_a_reason() {
    let pages = pages();
    assert!(pages.iter().any(|page| page.steps.iter().any(|step| matches!(step, Step::Runs(_)))));
    for page in &pages {
        for step in &page.steps {
            if let Step::LeftOut(line, reason) = step {
                assert!(reason.len() > 10, "{}: {line}: why is it left out?", page.path.display());
            }
        }
    }
}

#[test]
fn readers_of_the_first_pages_find_no_block_that_is_not_run() {
    for page in pages().iter().filter(|page| FIRST_PAGES.iter().any(|name| page.is_of(name))) {
        let text = std::fs::read_to_string(&page.path).expect("a page");
        for block in text.split("```sql\n").skip(1) {
            let is_left_out = block.starts_with("-- Tests leave this out:");
            assert!(is_left_out, "{}: a block of SQL that nobody runs:\n{block}", page.path.display());
        }
        let shows_unseen = page.is_of(RECIPES) && text.contains("```text\n");
        assert!(!shows_unseen, "{}: a result that nobody compares", page.path.display());
    }
}

/// The pages that are followed on their own.
const ALONE: [&str; 3] = ["docs/getting-started.md", "docs/sandbox.md", "docs/migration/"];

/// The pages in which all SQL is run.
const FIRST_PAGES: [&str; 4] = ["README.md", "docs/getting-started.md", "docs/migration/", "docs/recipes/"];

/// The pages that are followed one after the other, each from the same configuration, with one sandbox.
const RECIPES: &str = "docs/recipes/";
const RECIPES_START: &str = "docs/recipes/README.md";
const START_OF_RECIPES: [&str; 2] = [
    "narrows sandbox --base-port 3306 --dir sandbox             # terminal 1; Ctrl-C stops it",
    "narrows sandbox config > narrows.toml                      # terminal 2",
];
const START_OF_RECIPE: &str = "narrows -f -c narrows.toml --initial                       # Ctrl-C stops it";
