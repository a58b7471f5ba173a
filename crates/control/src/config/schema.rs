//! Tables as data: one row per column. Reading, checking and the generated pages all use these rows.

use narrows_proxy::rules::Activity;
use narrows_proxy::snapshot::JsonKey;

use super::diagnostic::{Problem, Problems};
use super::form::{Form, flag_of, integer_of, text_of};
use super::managed::{MANAGED_NAMES, ManagedName};
use super::nearest::nearest;
use super::tree::{Entry, Node, NodeValue, Position};
use crate::effect::Effect;

/// A section of the file that is a list of rows.
#[derive(Debug)]
pub struct ConfigTable<R: 'static> {
    /// Name of the section and of the admin table.
    pub name: &'static str,
    /// What a row describes.
    pub doc: &'static str,
    /// A row with default values.
    pub blank: fn() -> R,
    /// The columns, in the order of the admin table.
    pub columns: &'static [Column<R>],
}

/// A section as described by its rows, independent of the type they are read into.
pub trait Section: Sync {
    /// Name of the section and of the admin table.
    fn name(&self) -> &'static str;
    /// The name of the column that is called `name`, and whether true and false stand for 1 and 0.
    fn column_of(&self, name: &str) -> Option<(&'static str, bool)>;
    /// The values of columns that a row in the file does not name.
    fn absent(&self) -> Vec<(&'static str, Absent)>;
    /// The columns without effect in the admin table.
    fn without_effect(&self) -> Vec<(&'static str, Effect)>;
    /// Whether a row with these cells, one for each column, can be applied.
    fn accepts(&self, cells: Vec<Option<NodeValue>>) -> bool;
}

impl<R> Section for ConfigTable<R> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn column_of(&self, name: &str) -> Option<(&'static str, bool)> {
        let is_flag = |kind: &ColumnKind<R>| matches!(kind, ColumnKind::Flag(_) | ColumnKind::Activity(_));
        self.column(name).map(|column| (column.name, is_flag(&column.kind)))
    }

    fn absent(&self) -> Vec<(&'static str, Absent)> {
        self.columns.iter().map(|column| (column.name, column.absent)).collect()
    }

    fn without_effect(&self) -> Vec<(&'static str, Effect)> {
        let idle = self.columns.iter().filter(|column| column.effect != Effect::Acts);
        // For unused columns, only values in a file have no effect.
        let idle = idle.filter(|column| !matches!(column.kind, ColumnKind::Unused));
        idle.map(|column| (column.name, column.effect)).collect()
    }

    fn accepts(&self, cells: Vec<Option<NodeValue>>) -> bool {
        self.read_cells(cells).is_ok()
    }
}

/// One column.
#[derive(Debug)]
pub struct Column<R: 'static> {
    /// Its name in the file and in the admin table.
    pub name: &'static str,
    /// A second name that the file may use.
    pub alias: Option<&'static str>,
    /// What it holds and where the value is stored.
    pub kind: ColumnKind<R>,
    /// Its value if the file does not name it.
    pub absent: Absent,
    /// Whether it has an effect.
    pub effect: Effect,
    /// The keys that are read from a JSON column; `None`: it is not JSON, or contains other things.
    pub keys: Option<&'static [JsonKey]>,
    /// What it means.
    pub doc: &'static str,
}

/// What a column holds, and how it is stored in a row of type `R`.
#[derive(Debug)]
pub enum ColumnKind<R> {
    /// A whole number within both bounds.
    Integer {
        /// Smallest value.
        min: i64,
        /// Largest value.
        max: i64,
        /// Stores the value in a row.
        set: fn(&mut R, i64),
    },
    /// true, false, 1 or 0.
    Flag(fn(&mut R, bool)),
    /// true, false, 1, 0, or 2 for a dry run.
    Activity(fn(&mut R, Activity)),
    /// Text of the given form.
    Text(Form, fn(&mut R, String)),
    /// A list of sections that the file owns.
    Sections(fn(&mut R, Vec<&'static ManagedName>)),
    /// The value is accepted and has no effect.
    Unused,
}

/// The value of a column that the file does not name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absent {
    /// The column must be given.
    Required,
    /// NULL: a condition that is not checked, or an action that changes nothing.
    Null,
    /// This default value.
    Is(&'static str),
}

/// A row, with its position and those of its columns.
#[derive(Debug, Clone)]
pub struct Placed<R> {
    /// The row.
    pub row: R,
    at: Position,
    columns: Vec<(&'static str, Position)>,
}

impl<R> Placed<R> {
    /// The position of the column's value, or of the row if the column is not named.
    pub fn at(&self, column: &str) -> Position {
        self.columns.iter().find(|(name, _)| *name == column).map_or(self.at, |(_, at)| *at)
    }

    /// A part of the row, in the same place.
    pub fn part<'a, P>(&'a self, part: impl Fn(&'a R) -> P) -> Placed<P> {
        Placed { row: part(&self.row), at: self.at, columns: self.columns.clone() }
    }
}

impl<R> ConfigTable<R> {
    /// Reads the list `node`. A row with an error is reported and left out.
    pub fn read(&self, node: &Node, report: &mut Problems) -> Vec<Placed<R>> {
        let NodeValue::List(nodes) = &node.value else {
            report.add(node.at, self.wrong_shape("a list of groups", node));
            return Vec::new();
        };
        nodes.iter().filter_map(|node| self.read_row(node, report)).collect()
    }

    /// Reads the group `node` as one row. One with an error is reported, and is `None`.
    pub fn read_row(&self, node: &Node, report: &mut Problems) -> Option<Placed<R>> {
        let NodeValue::Group(entries) = &node.value else {
            report.add(node.at, self.wrong_shape("a group", node));
            return None;
        };
        let placed = self.read_entries(entries, node.at, report);
        let missing = |column: &&Column<R>| {
            column.absent == Absent::Required && !entries.iter().any(|entry| column.is_called(&entry.name))
        };
        let mut complete = true;
        for column in self.columns.iter().filter(missing) {
            report.add(node.at, Problem::Missing { section: self.name, name: column.name });
            complete = false;
        }
        placed.filter(|_| complete)
    }

    /// Reads a group that may be part of a larger one: names that are not columns are left to the caller. `None`: at
    /// least one value is wrong.
    pub fn read_known(&self, entries: &[Entry], at: Position, report: &mut Problems) -> Option<Placed<R>> {
        let mut placed = Placed { row: self.defaults(), at, columns: Vec::new() };
        let mut right = true;
        for entry in entries {
            let Some(column) = self.column(&entry.name) else { continue };
            // A name that is given twice has already been reported for every group; two names of one column are
            // reported here.
            let earlier = entries.iter().take_while(|other| other.at != entry.at);
            let other_name = |other: &Entry| !other.name.eq_ignore_ascii_case(&entry.name);
            if let Some(alias) = column.alias
                && earlier.filter(|other| column.is_called(&other.name)).any(other_name)
            {
                report.add(entry.at, Problem::BothNames { name: column.name, alias });
                right = false;
            }
            placed.columns.push((column.name, entry.node.at));
            for problem in column.put(&entry.node.value, &mut placed.row) {
                right &= problem.severity() == super::diagnostic::Severity::Warning;
                report.add(entry.node.at, problem);
            }
            for (name, what) in column.lacks_effect(&entry.node.value) {
                report.add(entry.node.at, Problem::NoEffect { name, what });
            }
        }
        right.then_some(placed)
    }

    fn read_entries(&self, entries: &[Entry], at: Position, report: &mut Problems) -> Option<Placed<R>> {
        for entry in entries.iter().filter(|entry| self.column(&entry.name).is_none()) {
            let nearest = nearest(&entry.name, self.names());
            let name = entry.name.clone();
            report.add(entry.at, Problem::UnknownColumn { section: self.name, name, nearest });
        }
        self.read_known(entries, at, report)
    }

    /// Reads the cells of a row of the admin table, in the order of the columns; `None` is NULL.
    ///
    /// # Errors
    /// The error of each wrong cell.
    pub fn read_cells(&self, cells: impl IntoIterator<Item = Option<NodeValue>>) -> Result<R, Vec<Problem>> {
        let mut row = self.defaults();
        let mut wrong = Vec::new();
        for (column, cell) in self.columns.iter().zip(cells) {
            let value = match (cell, column.absent, &column.kind) {
                (Some(value), ..) => value,
                (None, Absent::Is(_), ColumnKind::Text(..)) => NodeValue::Text(String::new()),
                (None, ..) => continue,
            };
            let is_error = |problem: &Problem| problem.severity() == super::diagnostic::Severity::Error;
            wrong.extend(column.put(&value, &mut row).into_iter().filter(is_error));
        }
        if wrong.is_empty() { Ok(row) } else { Err(wrong) }
    }

    /// The column with that name, case-insensitive.
    pub fn column(&self, name: &str) -> Option<&'static Column<R>> {
        self.columns.iter().find(|column| column.is_called(name))
    }

    /// Every name a column has.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<R> {
        self.columns.iter().flat_map(|column| std::iter::once(column.name).chain(column.alias))
    }

    fn defaults(&self) -> R {
        let mut row = (self.blank)();
        for column in self.columns {
            if let Absent::Is(text) = column.absent {
                column.put(&NodeValue::Text(text.to_owned()), &mut row);
            }
        }
        row
    }

    fn wrong_shape(&self, expected: &str, node: &Node) -> Problem {
        Problem::Value {
            name: self.name.to_owned(),
            expected: expected.to_owned(),
            found: node.value.describe(),
            nearest: None,
        }
    }
}

impl<R> Column<R> {
    fn is_called(&self, name: &str) -> bool {
        name.eq_ignore_ascii_case(self.name)
            || self.alias.is_some_and(|alias| name.eq_ignore_ascii_case(alias))
    }

    /// The settings in `value` that have no effect, each with a remark.
    pub fn lacks_effect(&self, value: &NodeValue) -> Vec<(String, String)> {
        let mut lacking: Vec<(String, String)> = Vec::new();
        if let Some(what) = self.effect.lacking()
            && self.differs(value)
        {
            lacking.push((self.name.to_owned(), what));
        }
        let json = self.keys.and_then(|keys| Some((keys, text_of(value)?)));
        if let Some((keys, text)) = json
            && let Ok(value) = serde_json::from_str::<serde_json::Value>(&text)
            && let Some(object) = value.as_object()
        {
            let is_unknown = |name: &&String| !keys.iter().any(|key| key.name == name.as_str());
            let what = || "has no effect: there is no such key".to_owned();
            let idle = object.keys().filter(is_unknown);
            lacking.extend(idle.map(|key| (format!("{} `{key}`", self.name), what())));
        }
        lacking
    }

    /// Whether a value differs from that of a row that does not name the column.
    fn differs(&self, value: &NodeValue) -> bool {
        let Absent::Is(default) = self.absent else { return true };
        let default = NodeValue::Text(default.to_owned());
        match self.kind {
            ColumnKind::Flag(_) => flag_of(value) != flag_of(&default),
            ColumnKind::Activity(_) => activity_of(value) != activity_of(&default),
            ColumnKind::Integer { .. } | ColumnKind::Unused => integer_of(value) != integer_of(&default),
            ColumnKind::Text(..) | ColumnKind::Sections(_) => text_of(value) != text_of(&default),
        }
    }

    /// Stores `value` in `row`, unless it is wrong; returns remarks on it.
    fn put(&self, value: &NodeValue, row: &mut R) -> Vec<Problem> {
        let wrong = |expected: String| {
            let name = self.name.to_owned();
            vec![Problem::Value { name, expected, found: value.describe(), nearest: None }]
        };
        match &self.kind {
            ColumnKind::Unused => Vec::new(),
            ColumnKind::Sections(set) => match managed(self.name, value) {
                Ok(sections) => {
                    set(row, sections);
                    Vec::new()
                }
                Err(problem) => vec![problem],
            },
            ColumnKind::Flag(set) => match flag_of(value) {
                Some(flag) => {
                    set(row, flag);
                    Vec::new()
                }
                None => wrong(self.kind.describe()),
            },
            ColumnKind::Activity(set) => match activity_of(value) {
                Some(activity) => {
                    set(row, activity);
                    Vec::new()
                }
                None => wrong(self.kind.describe()),
            },
            ColumnKind::Integer { min, max, set } => match integer_of(value) {
                Some(integer) if (*min..=*max).contains(&integer) => {
                    set(row, integer);
                    Vec::new()
                }
                _ => wrong(self.kind.describe()),
            },
            ColumnKind::Text(form, set) => match form.read(self.name, value) {
                Ok((text, remarks)) => {
                    set(row, text);
                    remarks
                }
                Err(problem) => vec![problem],
            },
        }
    }
}

impl<R> ColumnKind<R> {
    /// What a value must be, for error messages.
    pub fn describe(&self) -> String {
        match self {
            ColumnKind::Integer { min: i64::MIN, max: i64::MAX, .. } => "an integer".to_owned(),
            ColumnKind::Integer { min, max, .. } => format!("an integer from {min} to {max}"),
            ColumnKind::Flag(_) => "true or false".to_owned(),
            ColumnKind::Activity(_) => "true, false, or 2 for a dry run".to_owned(),
            ColumnKind::Text(form, _) => form.describe(),
            ColumnKind::Sections(_) => {
                let names: Vec<&str> = MANAGED_NAMES.iter().map(|managed| managed.name).collect();
                format!("a list of some of {}", names.join(", "))
            }
            ColumnKind::Unused => "anything; it has no effect".to_owned(),
        }
    }
}

/// The sections that a list names, each once.
fn managed(name: &'static str, value: &NodeValue) -> Result<Vec<&'static ManagedName>, Problem> {
    let wrong = |found: &NodeValue| {
        let names = MANAGED_NAMES.iter().flat_map(|managed| [managed.name, managed.section]);
        let nearest = text_of(found).and_then(|text| nearest(&text, names));
        let expected = ColumnKind::<()>::Sections(|(), _| {}).describe();
        Problem::Value { name: name.to_owned(), expected, found: found.describe(), nearest }
    };
    let NodeValue::List(nodes) = value else { return Err(wrong(value)) };
    let mut sections: Vec<&'static ManagedName> = Vec::new();
    for node in nodes {
        let NodeValue::Text(text) = &node.value else { return Err(wrong(&node.value)) };
        let managed = ManagedName::find(text).ok_or_else(|| wrong(&node.value))?;
        if !sections.contains(&managed) {
            sections.push(managed);
        }
    }
    Ok(sections)
}

/// What a rule does: a flag, or 2.
fn activity_of(value: &NodeValue) -> Option<Activity> {
    let number = flag_of(value).map(i64::from).or_else(|| integer_of(value));
    number.and_then(Activity::of_number)
}
