//! A page of the documents, as the steps that a reader takes: what is run, written to a file, or compared.
//!
//! The first word after the three back-quotes is the language; what follows says what is done with the block:
//!
//! | block | what is done |
//! |---|---|
//! | `sh` | each line is run; a line that ends in `\` continues on the next |
//! | `sql admin` | its statements are run on the admin port |
//! | `sql NAME` | the account NAME, whose password is its name, runs them on port 6033 |
//! | `sql NAME fails` | the same, and one of them must fail |
//! | `toml` | `narrows check --strict` must find nothing |
//! | `toml FILE`, `text FILE` | the same for TOML; it is also written to FILE |
//! | `text output` | what the block before it has printed; `...` stands for anything, on a line of its own for any lines |
//! | `sql`, `text` | nothing |
//!
//! In a table, the column with the title [`ADMIN_COLUMN`] has statements in back-quotes, which are run on the admin port.

use std::fs;
use std::path::{Path, PathBuf};

/// A document and what its reader does.
pub struct Page {
    pub path: PathBuf,
    pub steps: Vec<Step>,
}

/// What a reader does.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// A line for the shell.
    Runs(String),
    /// A line that cannot be run in a test, and why.
    LeftOut(String, String),
    /// Statements of an account.
    Asks { account: String, statements: String, fails: bool },
    /// A configuration without mistakes.
    Checks(String),
    /// A file.
    Writes { file: String, text: String },
    /// What the step before it has printed.
    Shows(Vec<String>),
}

/// README.md, followed by the pages in docs/ and its folders.
pub fn pages(root: &Path) -> Vec<Page> {
    let mut paths = Vec::new();
    collect(&root.join("docs"), &mut paths);
    paths.sort();
    paths.insert(0, root.join("README.md"));
    paths.into_iter().map(|path| Page::read(&path)).collect()
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, paths);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            paths.push(path);
        }
    }
}

impl Page {
    fn read(path: &Path) -> Page {
        let text = fs::read_to_string(path).expect("a page");
        Page { path: path.to_owned(), steps: steps(&text, &path.display().to_string()) }
    }

    /// Whether it is in this folder of the documents, or is this page.
    pub fn is_of(&self, name: &str) -> bool {
        self.path.to_string_lossy().contains(&format!("/{name}"))
    }
}

/// The steps of a page. Every block must name its language, so that none is skipped by mistake.
pub fn steps(text: &str, page: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut block: Option<(&str, Vec<&str>)> = None;
    let mut columns = Columns::default();
    for line in text.lines() {
        match (line.strip_prefix("```"), &mut block) {
            (Some(information), None) => {
                let language = information.split(' ').next();
                let is_known = language.is_some_and(|name| ["sh", "sql", "text", "toml"].contains(&name));
                assert!(is_known, "{page}: a block of {information:?}");
                block = Some((information, Vec::new()));
            }
            (Some(_), Some((information, lines))) => {
                put_block(&mut steps, information, lines, page);
                block = None;
            }
            (None, None) => {
                assert!(!line.starts_with("    "), "{page}: a block without ```: {line}");
                steps.extend(columns.statements(line));
            }
            (None, Some((_, lines))) => lines.push(line),
        }
    }
    steps
}

fn put_block(steps: &mut Vec<Step>, information: &str, lines: &[&str], page: &str) {
    let whole = || lines.join("\n") + "\n";
    let reason = lines.iter().find_map(|line| LEFT_OUT.iter().find_map(|marker| line.strip_prefix(marker)));
    let words: Vec<&str> = information.split(' ').collect();
    if let Some(reason) = reason {
        let left_out = |line: &&str| Step::LeftOut((*line).to_owned(), reason.trim().to_owned());
        steps.extend(lines.iter().filter(|line| !is_comment(line)).map(left_out));
        return;
    }
    match words[..] {
        ["sh"] => steps.extend(commands(lines).map(Step::Runs)),
        ["sql" | "text"] => {}
        ["sql", account] => {
            steps.push(Step::Asks { account: account.to_owned(), statements: whole(), fails: false });
        }
        ["sql", account, "fails"] => {
            steps.push(Step::Asks { account: account.to_owned(), statements: whole(), fails: true });
        }
        ["toml"] => steps.push(Step::Checks(whole())),
        ["toml", file] => {
            steps.push(Step::Checks(whole()));
            steps.push(Step::Writes { file: file.to_owned(), text: whole() });
        }
        ["text", "output"] => steps.push(Step::Shows(lines.iter().map(|line| plain(line)).collect())),
        ["text", file] => steps.push(Step::Writes { file: file.to_owned(), text: whole() }),
        _ => panic!("{page}: a block of {information:?}"),
    }
}

/// The commands of a block, without comments and empty lines.
fn commands(lines: &[&str]) -> impl Iterator<Item = String> {
    let joined = lines.join("\n").replace("\\\n", "");
    let commands: Vec<String> = joined.lines().filter(|line| !is_comment(line)).map(str::to_owned).collect();
    commands.into_iter()
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with(['#']) || line.starts_with("-- ") || line.trim().is_empty()
}

/// A line of output, without the widths of columns.
pub fn plain(line: &str) -> String {
    let mut text = line.split_whitespace().collect::<Vec<_>>().join(" ");
    while text.contains("--") {
        text = text.replace("--", "-");
    }
    text
}

/// Where the column of statements is in the current table.
#[derive(Default)]
struct Columns {
    statements: Option<usize>,
}

impl Columns {
    fn statements(&mut self, line: &str) -> Vec<Step> {
        if !line.starts_with('|') {
            self.statements = None;
            return Vec::new();
        }
        let line = line.replace("\\|", "\u{0}");
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        if let Some(place) = cells.iter().position(|cell| *cell == ADMIN_COLUMN) {
            self.statements = Some(place);
            return Vec::new();
        }
        let cell = self.statements.and_then(|place| cells.get(place)).copied().unwrap_or_default();
        let codes = cell.split('`').skip(1).step_by(2);
        let ask = |code: &str| Step::Asks {
            account: "admin".to_owned(),
            statements: code.replace('\u{0}', "|") + "\n",
            fails: false,
        };
        codes.map(ask).collect()
    }
}

/// The title of the column whose statements are run.
pub const ADMIN_COLUMN: &str = "on the admin port of Narrows";

/// The markers of a block that cannot be run here; the reason follows.
const LEFT_OUT: [&str; 2] = ["# Tests leave this out:", "-- Tests leave this out:"];

#[test]
fn blocks_become_steps() {
    let asks = |account: &str, statements: &str, fails| Step::Asks {
        account: account.to_owned(),
        statements: statements.to_owned(),
        fails,
    };
    let page = "```sh\n# why\na \\\n  b\n```\n\n```sql app fails\nSELECT 1;\n```\n```text output\n| a   |  b |\n+---+\n```\n";
    let expected = [
        Step::Runs("a   b".to_owned()),
        asks("app", "SELECT 1;\n", true),
        Step::Shows(vec!["| a | b |".to_owned(), "+-+".to_owned()]),
    ];
    assert_eq!(steps(page, ""), expected);
    let page = format!("| there | {ADMIN_COLUMN} |\n|---|---|\n| `x` | `SHOW a \\| b` or `SHOW c` |\n");
    assert_eq!(steps(&page, ""), [asks("admin", "SHOW a | b\n", false), asks("admin", "SHOW c\n", false)]);
}
