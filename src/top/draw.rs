//! Draws the screen.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Row, Table, TableState, Wrap};

use super::state::{Mode, State};
use super::view::{Column, Shown, VIEWS, bytes, count, duration, shown};
use crate::one_line::printable;

/// Draws everything.
pub fn draw(frame: &mut Frame<'_>, state: &State, place: &str) {
    let [head, tabs, body, foot] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(summary(state, place)), head);
    frame.render_widget(Paragraph::new(views(state)), tabs);
    table(frame, state, body);
    frame.render_widget(Paragraph::new(last_line(state)), foot);
    if let Mode::Text(title, lines) = &state.mode {
        popup(frame, title, lines);
    }
}

fn summary(state: &State, place: &str) -> Vec<Line<'static>> {
    let now = |name: &str| state.global(name).0;
    let rate = |name: &str| count(state.global(name).1);
    let obstacle = state.samples.0.as_ref().map(|sample| sample.obstacle.as_str()).unwrap_or_default();
    let readiness = match obstacle {
        "" => Span::styled("ready", Style::new().fg(Color::Green)),
        reason => Span::styled(format!("NOT READY: {}", printable(reason)), Style::new().fg(Color::Red)),
    };
    let first = Line::from(vec![
        Span::styled("narrows ", Style::new().add_modifier(Modifier::BOLD)),
        Span::raw(format!("{}  up {}  ", printable(place), duration(now("ProxySQL_Uptime") as f64 * 1e6))),
        readiness,
    ]);
    let second = format!(
        "{} stmt/s  {} slow/s  {} clients, {} busy  {} backend  in {}/s  out {}/s  cache {}",
        rate("Questions"),
        rate("Slow_queries"),
        now("Client_Connections_connected"),
        now("Client_Connections_non_idle"),
        now("Server_Connections_connected"),
        bytes(state.global("Queries_frontends_bytes_recv").1),
        bytes(state.global("Queries_frontends_bytes_sent").1),
        bytes(now("Query_Cache_Memory_bytes") as f64),
    );
    let second = Line::from(second);
    vec![first, second]
}

fn views(state: &State) -> Line<'static> {
    let name = |(index, view): (usize, &super::view::View)| {
        let style = match index == state.view {
            true => Style::new().add_modifier(Modifier::REVERSED),
            false => Style::new(),
        };
        [Span::styled(format!(" {} {} ", view.key, view.title), style)]
    };
    let mut spans: Vec<Span<'static>> = VIEWS.iter().enumerate().flat_map(name).collect();
    if state.paused {
        spans.push(Span::styled("paused", Style::new().fg(Color::Yellow)));
    }
    Line::from(spans)
}

fn table(frame: &mut Frame<'_>, state: &State, area: Rect) {
    let view = state.current();
    let is_visible =
        |column: &Column| column.kind != Shown::Hidden && (area.width >= WIDE || !column.is_wide);
    let visible = || view.columns.iter().enumerate().filter(|(_, column)| is_visible(column));
    let is_left = |kind: Shown| kind == Shown::Text;
    let head = visible().map(|(index, column)| {
        let mark = match (index == state.sorted_by, state.descending) {
            (false, _) => "",
            (true, true) => "↓",
            (true, false) => "↑",
        };
        let text = Line::from(format!("{}{mark}", column.name));
        if is_left(column.kind) { text } else { text.alignment(Alignment::Right) }
    });
    let head = Row::new(head).style(Style::new().add_modifier(Modifier::UNDERLINED));
    let rows = state.rows();
    let (count, seconds) = (rows.len(), state.seconds());
    let selected = state.selected.min(count.saturating_sub(1));
    // Only what can be seen is prepared: there may be ten thousand rows.
    let height = usize::from(area.height.saturating_sub(1)).max(1);
    let first = (selected + 1).saturating_sub(height);
    let lines = rows.into_iter().skip(first).take(height).map(|row| {
        let before = state.before(row);
        let cells = visible().map(|(index, column)| {
            let value = row.get(index).map(String::as_str).unwrap_or_default();
            let former = before.and_then(|before| before.get(index)).map(String::as_str);
            let text = Line::from(printable(&shown(column.kind, value, former, seconds)).into_owned());
            if is_left(column.kind) { text } else { text.alignment(Alignment::Right) }
        });
        Row::new(cells.collect::<Vec<_>>()).style(style_of(row))
    });
    let widths = visible().map(|(_, column)| match column.width {
        0 => Constraint::Min(10),
        width => Constraint::Length(width),
    });
    let table = Table::new(lines.collect::<Vec<_>>(), widths.collect::<Vec<_>>())
        .header(head)
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut place = TableState::new().with_selected((count > 0).then_some(selected - first));
    frame.render_stateful_widget(table, area, &mut place);
}

/// Servers that get no statements stand out.
fn style_of(row: &[String]) -> Style {
    match row.get(2).map(String::as_str) {
        Some("SHUNNED" | "SHUNNED_REPLICATION_LAG" | "OFFLINE_HARD") => Style::new().fg(Color::Red),
        Some("OFFLINE_SOFT") => Style::new().fg(Color::Yellow),
        _ => Style::new(),
    }
}

fn last_line(state: &State) -> Line<'static> {
    match (&state.mode, &state.failure) {
        (Mode::Confirm(id), _) => {
            let question = format!("End session {}? y ends it, any other key does not", printable(id));
            Line::styled(question, Style::new().fg(Color::Yellow))
        }
        (Mode::Filter, _) => Line::from(format!("/{}_", printable(&state.filter))),
        (_, Some(failure)) => Line::styled(printable(failure).into_owned(), Style::new().fg(Color::Red)),
        _ => {
            let filter = match state.filter.as_str() {
                "" => String::new(),
                filter => format!("  only rows with {:?}", printable(filter)),
            };
            Line::from(format!(
                "{} rows{filter}  ? keys  / filter  < > sort  p pause  q quit",
                state.rows().len()
            ))
        }
    }
}

fn popup(frame: &mut Frame<'_>, title: &str, lines: &[String]) {
    let area = frame.area();
    let width = area.width.saturating_sub(4).min(120);
    let height =
        (u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_add(2)).min(area.height.saturating_sub(2));
    let place = Rect::new((area.width - width) / 2, (area.height - height) / 2, width, height);
    let text: Vec<Line<'_>> = lines.iter().map(|line| Line::from(printable(line))).collect();
    let text =
        Paragraph::new(text).wrap(Wrap { trim: false }).block(Block::bordered().title(title.to_owned()));
    frame.render_widget(Clear, place);
    frame.render_widget(text, place);
}

/// The width from which on all columns have a place.
const WIDE: u16 = 120;

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::time::{Duration, Instant};

    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::state::Sample;
    use super::*;

    fn screen(state: &State, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a screen");
        terminal.draw(|frame| draw(frame, state, "127.0.0.1:6032")).expect("drawn");
        let buffer = terminal.backend().buffer().clone();
        let rows = buffer.content().chunks(width.into());
        rows.map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>() + "\n").collect()
    }

    fn sample(age: u64, queries: &str, questions: u64) -> Sample {
        let row = ["1", "10.0.0.2:3306", "SHUNNED", "3", "4", "70", "0", queries, "0", "0", "250"];
        Sample {
            view: 1,
            at: Instant::now().checked_sub(Duration::from_secs(age)).expect("a time"),
            rows: vec![row.map(str::to_owned).to_vec()],
            global: HashMap::from([("Questions".to_owned(), questions), ("ProxySQL_Uptime".to_owned(), 90)]),
            obstacle: "evil \u{1b}[31m text".to_owned(),
        }
    }

    #[test]
    fn it_fits_small_and_large_screens() {
        let mut state = State::new();
        state.view = 1;
        state.take(sample(10, "1000", 5_000));
        state.take(sample(0, "2000", 7_000));
        for (width, height) in [(80, 24), (200, 50), (20, 5), (1, 1)] {
            let text = screen(&state, width, height);
            assert!(!text.contains('\u{1b}'));
            if width >= 80 {
                assert!(text.contains("10.0.0.2:3306"), "{text}");
                // A thousand statements, and two thousand, in ten seconds.
                assert!(text.contains(" 100 ") && text.contains("200 stmt/s"), "{text}");
                assert!(text.contains("NOT READY: evil \\u{1b}[31m text"), "{text}");
                assert!(text.contains("250us") && text.contains("1 rows"), "{text}");
            }
        }
        for view in 0..VIEWS.len() {
            state.view = view;
            for mode in [
                Mode::Filter,
                Mode::Confirm("7".to_owned()),
                Mode::Text("Keys".to_owned(), vec!["x".to_owned(); 100]),
            ] {
                state.mode = mode;
                screen(&state, 80, 24);
                screen(&state, 3, 3);
            }
        }
    }
}
