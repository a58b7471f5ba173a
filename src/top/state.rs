//! What is on the screen, and what keys do with it.

use std::collections::HashMap;
use std::time::Instant;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::view::{Action, Shown, VIEWS, View, compare};
use crate::init::visit::quoted;

/// The rows of a view, and when they were read.
#[derive(Debug, Clone)]
pub struct Sample {
    /// The view.
    pub view: usize,
    /// When it was read.
    pub at: Instant,
    /// Its rows.
    pub rows: Vec<Vec<String>>,
    /// The rows of `stats_mysql_global`.
    pub global: HashMap<String, u64>,
    /// Why clients cannot be served; empty if they can.
    pub obstacle: String,
}

/// What the keys of the next moment mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    /// They move in the table.
    Table,
    /// They are typed into the filter.
    Filter,
    /// They say whether a session is to be ended.
    Confirm(String),
    /// Any of them closes this text.
    Text(String, Vec<String>),
}

/// What the program does after a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wish {
    /// Nothing but draw.
    Nothing,
    /// Read the view again at once.
    Refresh,
    /// Run this statement, and show the answer under this title.
    Run(String, String),
    /// End.
    Quit,
}

/// The state of the screen.
pub struct State {
    /// The view, an index of [`VIEWS`].
    pub view: usize,
    /// The column that sorts it.
    pub sorted_by: usize,
    /// Whether the greatest value is first.
    pub descending: bool,
    /// Only rows with this text are shown.
    pub filter: String,
    /// The row that is selected, among those shown.
    pub selected: usize,
    /// Whether the screen stays as it is.
    pub paused: bool,
    /// What keys mean.
    pub mode: Mode,
    /// The last sample, and the one before it.
    pub samples: (Option<Sample>, Option<Sample>),
    /// The last failure to read.
    pub failure: Option<String>,
}

impl State {
    /// The first view, without rows yet.
    pub fn new() -> State {
        let mut state = State {
            view: 0,
            sorted_by: 0,
            descending: true,
            filter: String::new(),
            selected: 0,
            paused: false,
            mode: Mode::Table,
            samples: (None, None),
            failure: None,
        };
        state.shows(0);
        state
    }

    /// The current view.
    pub fn current(&self) -> &'static View {
        VIEWS.get(self.view).unwrap_or(&VIEWS[0])
    }

    fn shows(&mut self, view: usize) {
        self.view = view;
        self.sorted_by = self.current().sorted_by;
        self.descending = true;
        self.selected = 0;
    }

    /// Takes a sample, unless the screen is paused or shows another view by now.
    pub fn take(&mut self, sample: Sample) {
        self.failure = None;
        if self.paused || sample.view != self.view {
            return;
        }
        self.samples = (Some(sample), self.samples.0.take());
    }

    /// The rows that are shown, in order.
    pub fn rows(&self) -> Vec<&Vec<String>> {
        let Some(sample) = self.samples.0.as_ref().filter(|sample| sample.view == self.view) else {
            return Vec::new();
        };
        let wanted = self.filter.to_lowercase();
        let fits = |row: &&Vec<String>| {
            wanted.is_empty() || row.iter().any(|cell| cell.to_lowercase().contains(&wanted))
        };
        let mut rows: Vec<&Vec<String>> = sample.rows.iter().filter(fits).collect();
        let growth = |row: &Vec<String>| {
            let now: f64 = row.get(self.sorted_by)?.parse().ok()?;
            let before: f64 = self.before(row)?.get(self.sorted_by)?.parse().ok()?;
            Some(now - before)
        };
        let column = self.current().columns.get(self.sorted_by);
        let by_growth =
            column.is_some_and(|column| matches!(column.kind, Shown::PerSecond | Shown::BytesPerSecond));
        rows.sort_by(|one, other| {
            let order = match by_growth {
                true => growth(one).unwrap_or(-1.0).total_cmp(&growth(other).unwrap_or(-1.0)),
                false => {
                    let cell = |row: &Vec<String>| row.get(self.sorted_by).cloned().unwrap_or_default();
                    compare(&cell(one), &cell(other))
                }
            };
            if self.descending { order.reverse() } else { order }
        });
        rows
    }

    /// The same row in the sample before.
    pub fn before(&self, row: &[String]) -> Option<&Vec<String>> {
        let identity = self.current().identity;
        if identity.is_empty() {
            return None;
        }
        let is_same =
            |other: &&Vec<String>| identity.iter().all(|index| other.get(*index) == row.get(*index));
        let before = self.samples.1.as_ref().filter(|before| before.view == self.view)?;
        before.rows.iter().find(is_same)
    }

    /// Seconds between the two samples.
    pub fn seconds(&self) -> f64 {
        match &self.samples {
            (Some(now), Some(before)) => now.at.saturating_duration_since(before.at).as_secs_f64(),
            _ => 0.0,
        }
    }

    /// A row of `stats_mysql_global`, and its growth per second.
    pub fn global(&self, name: &str) -> (u64, f64) {
        let value =
            |sample: &Option<Sample>| sample.as_ref().and_then(|sample| sample.global.get(name)).copied();
        let now = value(&self.samples.0).unwrap_or_default();
        let seconds = self.seconds();
        let grown = value(&self.samples.1).map_or(0, |before| now.saturating_sub(before));
        (now, if seconds > 0.0 { grown as f64 / seconds } else { 0.0 })
    }

    /// Acts on a key.
    pub fn press(&mut self, key: KeyEvent) -> Wish {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return Wish::Quit;
        }
        match std::mem::replace(&mut self.mode, Mode::Table) {
            Mode::Table => self.press_in_table(key.code),
            Mode::Filter => self.press_in_filter(key.code),
            Mode::Text(..) => Wish::Nothing,
            Mode::Confirm(id) => match key.code {
                KeyCode::Char('y') => Wish::Run(format!("Session {id}"), format!("KILL {id}")),
                _ => Wish::Nothing,
            },
        }
    }

    fn press_in_filter(&mut self, key: KeyCode) -> Wish {
        match key {
            KeyCode::Enter => return Wish::Nothing,
            KeyCode::Esc => {
                self.filter.clear();
                return Wish::Nothing;
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(letter) if self.filter.len() < LONGEST_FILTER => self.filter.push(letter),
            _ => {}
        }
        self.selected = 0;
        self.mode = Mode::Filter;
        Wish::Nothing
    }

    fn press_in_table(&mut self, key: KeyCode) -> Wish {
        let last = self.rows().len().saturating_sub(1);
        match key {
            KeyCode::Char('q') => return Wish::Quit,
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Char('/') => self.mode = Mode::Filter,
            KeyCode::Char('r') => self.descending = !self.descending,
            KeyCode::Char('?' | 'h') => self.mode = help(),
            KeyCode::Char('>') | KeyCode::Right => self.sorts_by(1),
            KeyCode::Char('<') | KeyCode::Left => self.sorts_by(self.current().columns.len() - 1),
            KeyCode::Down | KeyCode::Char('j') => self.selected = (self.selected + 1).min(last),
            KeyCode::Up => self.selected = self.selected.saturating_sub(1),
            KeyCode::PageDown => self.selected = (self.selected + PAGE).min(last),
            KeyCode::PageUp => self.selected = self.selected.saturating_sub(PAGE),
            KeyCode::Home => self.selected = 0,
            KeyCode::End => self.selected = last,
            KeyCode::Tab => return self.goes_to((self.view + 1) % VIEWS.len()),
            KeyCode::BackTab => return self.goes_to((self.view + VIEWS.len() - 1) % VIEWS.len()),
            KeyCode::Char('k' | 'e') | KeyCode::Enter => return self.acts(),
            KeyCode::Char(letter) => {
                if let Some(view) = VIEWS.iter().position(|view| view.key == letter) {
                    return self.goes_to(view);
                }
            }
            _ => {}
        }
        Wish::Nothing
    }

    fn goes_to(&mut self, view: usize) -> Wish {
        self.shows(view);
        self.paused = false;
        Wish::Refresh
    }

    /// Sorts by the column that many places further.
    fn sorts_by(&mut self, places: usize) {
        let columns = self.current().columns;
        self.sorted_by = (self.sorted_by + places) % columns.len();
        if columns.get(self.sorted_by).is_some_and(|column| column.kind == Shown::Hidden) {
            self.sorted_by = (self.sorted_by + places) % columns.len();
        }
    }

    /// Does with the selected row what the view is for.
    fn acts(&mut self) -> Wish {
        let rows = self.rows();
        let Some(row) = rows.get(self.selected) else { return Wish::Nothing };
        let cell = |index: usize| row.get(index).cloned().unwrap_or_default();
        match self.current().action {
            None => Wish::Nothing,
            Some(Action::Kill(id)) => {
                let id = cell(id);
                self.mode = Mode::Confirm(id);
                Wish::Nothing
            }
            Some(Action::Explain(statement, user, schema)) => {
                let mut question =
                    format!("EXPLAIN ROUTE {} AS {}", quoted(&cell(statement)), quoted(&cell(user)));
                if !cell(schema).is_empty() {
                    question += &format!(" SCHEMA {}", quoted(&cell(schema)));
                }
                Wish::Run("Route".to_owned(), question)
            }
        }
    }
}

fn help() -> Mode {
    let views = VIEWS.iter().map(|view| format!("{}, Tab       {}", view.key, view.title.to_lowercase()));
    let keys = [
        "< >          sort by another column, r in the other direction",
        "up, down     select a row; PageUp, PageDown, Home, End",
        "/            show only rows with a text; Esc shows all",
        "k, Enter     in Sessions and Pins: end the session",
        "e, Enter     in Digests: explain the route of the statement",
        "p, blank     pause",
        "q            quit",
    ];
    Mode::Text("Keys".to_owned(), views.chain(keys.map(str::to_owned)).collect())
}

/// Rows per page, for PageUp and PageDown.
const PAGE: usize = 15;

/// Bytes of a filter.
const LONGEST_FILTER: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    fn press(state: &mut State, keys: &str) -> Wish {
        let mut wish = Wish::Nothing;
        for letter in keys.chars() {
            let code = if letter == '\n' { KeyCode::Enter } else { KeyCode::Char(letter) };
            wish = state.press(KeyEvent::new(code, KeyModifiers::NONE));
        }
        wish
    }

    fn sample(view: usize, rows: &[&[&str]]) -> Sample {
        let rows = rows.iter().map(|row| row.iter().map(|cell| (*cell).to_owned()).collect()).collect();
        Sample { view, at: Instant::now(), rows, global: HashMap::new(), obstacle: String::new() }
    }

    #[test]
    fn rows_are_sorted_filtered_and_acted_on() {
        let mut state = State::new();
        assert_eq!(press(&mut state, "4"), Wish::Refresh);
        let row = |id: &'static str, time: &'static str, text: &'static str| -> Vec<&'static str> {
            vec![id, "app", "", "c:1", "0", "s:1", "Query", time, text]
        };
        let (one, two) = (row("9", "100", "SELECT 1"), row("10", "20", "UPDATE t"));
        state.take(sample(4, &[&one]));
        assert!(state.rows().is_empty(), "that is another view");
        state.take(sample(3, &[&one, &two]));
        let ids = |state: &State| state.rows().iter().map(|row| row[0].clone()).collect::<Vec<_>>();
        assert_eq!(ids(&state), ["9", "10"]);
        press(&mut state, "r");
        assert_eq!(ids(&state), ["10", "9"]);
        press(&mut state, "/update\n");
        assert_eq!(ids(&state), ["10"]);
        press(&mut state, "k");
        assert_eq!(state.mode, Mode::Confirm("10".to_owned()));
        assert_eq!(press(&mut state, "n"), Wish::Nothing);
        press(&mut state, "k");
        assert_eq!(press(&mut state, "y"), Wish::Run("Session 10".to_owned(), "KILL 10".to_owned()));
        assert_eq!(press(&mut state, "3"), Wish::Refresh);
        state.take(sample(2, &[&["0", "1", "1", "5", "5", "5", "1", "a'b", "x", "SELECT '?'"]]));
        press(&mut state, "/");
        state.press(KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE));
        let wish = press(&mut state, "e");
        assert_eq!(
            wish,
            Wish::Run("Route".to_owned(), "EXPLAIN ROUTE 'SELECT ''?''' AS 'a''b' SCHEMA 'x'".to_owned())
        );
        assert_eq!(press(&mut state, "q"), Wish::Quit);
    }
}
