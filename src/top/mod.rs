//! `narrows top`: what happens in a running Narrows, live in a terminal.

mod draw;
mod source;
mod state;
mod view;

use std::io::{IsTerminal, stdout};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use anyhow::{Context, ensure};
use narrows_control::monitor::plan::Address;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use crate::init::address;
use crate::init::visit::{Credentials, Visit};
use crate::instance::Instance;
use crate::password::Password;
use source::{AdminPort, News, Question};
use state::{Mode, State, Wish};

/// Where to look, and as whom.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct TopArgs {
    /// The admin port: a name or an address with a port (6032), or the path of a Unix socket
    #[arg(value_name = "HOST:PORT", value_parser = to_administrators, conflicts_with_all = ["config", "datadir"])]
    address: Option<Address>,
    #[command(flatten)]
    place: Instance,
    /// Account: a statistics user sees everything but routes; only administrators may end sessions
    #[arg(short = 'u', long, value_name = "NAME", default_value = "stats")]
    user: String,
    #[command(flatten)]
    password: Password,
    /// Seconds between two samples
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=3600))]
    interval: u64,
}

/// Shows it until the user has enough.
///
/// # Errors
/// No terminal, or no login.
pub fn run(args: TopArgs) -> anyhow::Result<()> {
    ensure!(stdout().is_terminal(), "there is no terminal to draw on");
    let password = args.password.read()?.unwrap_or_else(|| args.user.clone());
    let account = Credentials { username: args.user, password };
    let address = match args.address {
        Some(address) => address,
        None => crate::ping::configured(args.place, true)?,
    };
    // A wrong password is said before the screen is taken.
    narrows_proxy::rt::block_on(async { Visit::begin(&address, &account).await.map(drop) })??;
    let place = address.to_string();
    let source = AdminPort { address, account, interval: Duration::from_secs(args.interval) };
    let ((orders, received), (told, news)) = (mpsc::channel(), mpsc::channel());
    let reads = move || {
        let failed = source.run(&received, &told).err();
        failed.into_iter().for_each(|error| drop(told.send(News::Failure(error.to_string()))));
    };
    std::thread::Builder::new().name("source".to_owned()).spawn(reads).context("starting a thread")?;
    let mut terminal = ratatui::try_init().context("taking the screen")?;
    let outcome = follow(&mut terminal, &orders, &news, &place);
    ratatui::restore();
    outcome
}

/// Draws what is new, and acts on keys.
fn follow(
    terminal: &mut DefaultTerminal,
    orders: &Sender<Question>,
    news: &Receiver<News>,
    place: &str,
) -> anyhow::Result<()> {
    let mut state = State::new();
    let mut title = String::new();
    let mut is_drawn = false;
    loop {
        while let Ok(news) = news.try_recv() {
            is_drawn = false;
            match news {
                News::Sample(sample) => state.take(sample),
                News::Lines(lines) => state.mode = Mode::Text(std::mem::take(&mut title), lines),
                News::Failure(failure) => state.failure = Some(failure),
            }
        }
        if !is_drawn {
            terminal.draw(|frame| draw::draw(frame, &state, place))?;
            is_drawn = true;
        }
        if !event::poll(TURN)? {
            continue;
        }
        let event = event::read()?;
        // Also after another size of the terminal.
        is_drawn = false;
        let Event::Key(key) = event else { continue };
        if key.kind == KeyEventKind::Release {
            continue;
        }
        // If the thread has ended, its last failure is on the screen.
        match state.press(key) {
            Wish::Nothing => {}
            Wish::Refresh => drop(orders.send(Question::Show(state.view))),
            Wish::Run(what, statement) => {
                title = what;
                drop(orders.send(Question::Run(statement)));
            }
            Wish::Quit => return Ok(()),
        }
    }
}

fn to_administrators(text: &str) -> Result<Address, String> {
    address::parse_with(text, 6032)
}

/// How long an answer may wait for the screen, if no key is pressed.
const TURN: Duration = Duration::from_millis(200);

const AFTER_HELP: &str = "\
Without an address it shows the Narrows of the data folder, as `narrows ping` finds it. Without a password, the password is the name of
the user, as in a new Narrows. Keys: 1 to 7 or Tab for the views; ? for the others.";
