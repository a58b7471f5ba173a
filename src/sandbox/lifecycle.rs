//! Starting, keeping and ending a sandbox.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use rustix::process::Signal;

use super::client::Client;
use super::cluster::{self, Wiring};
use super::data;
use super::program::{Lifetime, Program, spawn};
use super::record::{Flavour, Form, Record, Server};
use super::{Start, replication};

/// Starts a sandbox; returns when it is up (detached) or over (attached).
pub fn start(options: &Start) -> anyhow::Result<()> {
    let started = Instant::now();
    let program = Program::for_form(options.form(), options.server.as_deref())?;
    if program.flavour == Flavour::MySql {
        ensure!(
            program.version_numbers() >= vec![8, 0, 23],
            "MySQL {} is older than 8.0.23",
            program.version
        );
    }
    data::sweep_temporary_folders();
    let lifetime = if options.detach { Lifetime::Detached } else { Lifetime::Attached };
    let record = plan(&program, options)?;
    // From here on, returning early ends what has been started.
    let mut sandbox = Sandbox { record, children: Vec::new(), leave_running: false };
    match sandbox.record.form {
        Form::Replication => {
            sandbox.start_servers(&program, lifetime)?;
            sandbox.replicate(&program)?;
        }
        Form::Galera | Form::GroupReplication => sandbox.form_cluster(&program, lifetime)?,
    }
    report(&sandbox.record, options, started.elapsed())?;
    if options.detach {
        sandbox.leave_running = true;
        return Ok(());
    }
    sandbox.keep(options.until_eof)
}

/// Ends the servers of a sandbox that another process started.
pub fn stop(record: &Record) -> anyhow::Result<()> {
    end_servers(record)?;
    forget(record)
}

/// Decides folders, ports and command lines; nothing runs yet.
fn plan(program: &Program, options: &Start) -> anyhow::Result<Record> {
    let dir = match &options.dir {
        Some(dir) => {
            fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
            let dir = fs::canonicalize(dir)?;
            if Record::read(&dir).is_ok_and(|earlier| earlier.is_running()) {
                bail!("a sandbox is running in {}; end it with `narrows sandbox stop --dir`", dir.display());
            }
            dir
        }
        None => data::create_temporary_folder()?,
    };
    let ports = data::free_ports(options.base_port, options.replicas + 1)?;
    let form = options.form();
    let wiring = Wiring::of(form, options.replicas + 1)?;
    let mut servers = Vec::new();
    for (index, port) in ports.into_iter().enumerate() {
        let name = match (form, index) {
            (Form::Galera | Form::GroupReplication, _) => format!("node{}", index + 1),
            (Form::Replication, 0) => "primary".to_owned(),
            (Form::Replication, _) => format!("replica{index}"),
        };
        let folder = dir.join(&name);
        let mut server = Server {
            pid: 0,
            port,
            socket: folder.join("server.sock"),
            data: folder.join("data"),
            log: folder.join("error.log"),
            server_id: index as u32 + 1,
            command: Vec::new(),
            name,
        };
        let length = server.socket.as_os_str().len();
        ensure!(length <= SOCKET_PATH_MAX, "{} is too long for a Unix socket", server.socket.display());
        let mut more = wiring.as_ref().map(|wiring| wiring.options(index, server.port)).unwrap_or_default();
        more.extend_from_slice(&options.options);
        server.command = program.command_line(&server, form, &more);
        servers.push(server);
    }
    Ok(Record {
        temporary: options.dir.is_none(),
        dir,
        ready: false,
        flavour: program.flavour,
        form,
        version: program.version.clone(),
        servers,
        users: replication::users(),
    })
}

struct Sandbox {
    record: Record,
    children: Vec<Child>,
    leave_running: bool,
}

impl Sandbox {
    fn start_servers(&mut self, program: &Program, lifetime: Lifetime) -> anyhow::Result<()> {
        for server in &mut self.record.servers {
            data::create_data_folder(program, &server.data)?;
            let child = spawn(&server.command, lifetime)?;
            server.pid = child.id();
            self.children.push(child);
        }
        self.record.write()?;
        if !self.record.temporary {
            data::make_known(&self.record.dir)?;
        }
        Ok(())
    }

    /// Starts the nodes one after the other, each when the one before is a member.
    fn form_cluster(&mut self, program: &Program, lifetime: Lifetime) -> anyhow::Result<()> {
        let form = self.record.form;
        for index in 0..self.record.servers.len() {
            let server = &mut self.record.servers[index];
            cluster::create_data_folder(program, form, &server.data, index == 0)?;
            cluster::forget_former(form, server)?;
            let mut command = server.command.clone();
            command.extend(if index == 0 { cluster::beginning(form) } else { Vec::new() });
            let mut child = spawn(&command, lifetime)?;
            server.pid = child.id();
            let connected = connect(server, &mut child);
            self.children.push(child);
            self.record.write()?;
            let mut node = connected?;
            cluster::join(form, &mut node, index == 0)
                .with_context(|| data::last_lines(&self.record.servers[index].log))?;
            if index == 0 {
                replication::populate(program, &mut node)?;
            }
        }
        if !self.record.temporary {
            data::make_known(&self.record.dir)?;
        }
        self.record.ready = true;
        self.record.write()
    }

    fn replicate(&mut self, program: &Program) -> anyhow::Result<()> {
        let flavour = program.flavour;
        let mut clients = Vec::new();
        for (server, child) in self.record.servers.iter().zip(&mut self.children) {
            clients.push(connect(server, child)?);
        }
        let (primary, replicas) = clients.split_first_mut().context("a sandbox without a primary")?;
        replication::populate(program, primary)?;
        for replica in replicas.iter_mut() {
            replication::follow(flavour, replica, &self.record.servers[0])?;
        }
        let position = replication::position(flavour, primary)?;
        for replica in replicas {
            replication::wait_for(flavour, replica, &position)?;
        }
        self.record.ready = true;
        self.record.write()
    }

    /// Stays until a signal, the end of standard input (if requested) or `narrows sandbox stop`.
    fn keep(mut self, until_eof: bool) -> anyhow::Result<()> {
        let (eof, input_ended) = tokio::sync::oneshot::channel();
        if until_eof {
            thread::spawn(move || {
                let _ = std::io::stdin().read_to_end(&mut Vec::new());
                let _ = eof.send(());
            });
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
            let mut hangup = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup())?;
            let watch = async {
                while self.record.path().exists() {
                    self.report_deaths();
                    tokio::time::sleep(WATCH_INTERVAL).await;
                }
            };
            tokio::select! {
                result = tokio::signal::ctrl_c() => result?,
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
                Ok(()) = input_ended => {}
                () = watch => {}
            }
            anyhow::Ok(())
        })
    }

    /// Reports and reaps servers that have ended: one may be ended on purpose, and the others keep running.
    fn report_deaths(&mut self) {
        self.children.retain_mut(|child| match child.try_wait() {
            Ok(Some(status)) => {
                let name = self.record.servers.iter().find(|server| server.pid == child.id());
                eprintln!("{} has ended: {status}", name.map_or("a server", |server| &server.name));
                false
            }
            _ => true,
        });
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        if self.leave_running {
            return;
        }
        // A server that a test restarted is in the record on disk, not in ours.
        let record = Record::read(&self.record.dir).ok();
        let record = record.as_ref().unwrap_or(&self.record);
        let ended = end_servers(record);
        for child in &mut self.children {
            let _ = child.wait();
        }
        if let Err(error) = ended.and_then(|()| forget(record)) {
            eprintln!("narrows sandbox: {}", crate::reason::of(&error));
        }
    }
}

fn connect(server: &Server, child: &mut Child) -> anyhow::Result<Client> {
    let deadline = Instant::now() + START_TIMEOUT;
    loop {
        match Client::connect(&server.socket) {
            Ok(client) => return Ok(client),
            Err(error) if Instant::now() > deadline => {
                let log = data::last_lines(&server.log);
                return Err(error).with_context(|| format!("{} does not answer:\n{log}", server.name));
            }
            Err(_) => {}
        }
        if let Some(status) = child.try_wait()? {
            bail!("{} did not start ({status}):\n{}", server.name, data::last_lines(&server.log));
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// Ends the servers: throw-away ones are killed, those whose data is kept are shut down cleanly.
fn end_servers(record: &Record) -> anyhow::Result<()> {
    let signal = if record.temporary { Signal::KILL } else { Signal::TERM };
    for server in &record.servers {
        server.signal(signal)?;
    }
    let deadline = Instant::now() + STOP_TIMEOUT;
    while record.is_running() && Instant::now() < deadline {
        thread::sleep(POLL_INTERVAL);
    }
    for server in &record.servers {
        server.signal(Signal::KILL)?;
    }
    while record.is_running() {
        thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}

/// Removes the record of a sandbox, which also makes an attached process end.
fn forget(record: &Record) -> anyhow::Result<()> {
    let (path, removed) = if record.temporary {
        (record.dir.clone(), fs::remove_dir_all(&record.dir))
    } else {
        data::forget(&record.dir);
        (record.path(), fs::remove_file(record.path()))
    };
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

fn report(record: &Record, options: &Start, took: Duration) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    if options.json {
        writeln!(out, "{}", serde_json::to_string(record)?)?;
        return Ok(out.flush()?);
    }
    let family = match record.flavour {
        Flavour::MariaDb => "MariaDB",
        Flavour::MySql => "MySQL",
    };
    writeln!(
        out,
        "{family} {} in {}, up in {:.1} s\n",
        record.version,
        record.dir.display(),
        took.as_secs_f64()
    )?;
    writeln!(out, "{:<10} {:<16} {:>8}  socket", "server", "address", "pid")?;
    for server in &record.servers {
        let address = format!("127.0.0.1:{}", server.port);
        writeln!(out, "{:<10} {address:<16} {:>8}  {}", server.name, server.pid, server.socket.display())?;
    }
    writeln!(out, "\n{:<10} {:<10} for", "user", "password")?;
    for user in &record.users {
        writeln!(out, "{:<10} {:<10} {}", user.name, user.password, user.purpose)?;
    }
    writeln!(out, "{:<10} {:<10} everything, over the socket only", "root", "")?;
    writeln!(out, "\n{}", farewell(record, options))?;
    Ok(out.flush()?)
}

fn farewell(record: &Record, options: &Start) -> String {
    let dir = |dir: &Path| if record.temporary { String::new() } else { format!(" --dir {}", dir.display()) };
    let place: PathBuf = record.dir.clone();
    if options.detach {
        format!("Running in the background; end it with: narrows sandbox stop{}", dir(&place))
    } else {
        "Ctrl-C ends it.".to_owned()
    }
}

/// `sun_path` has 108 bytes, one of them for the terminating zero, and MySQL appends `.lock` to the name.
const SOCKET_PATH_MAX: usize = 102;
/// The time limit of a start, for MySQL on a busy machine; it usually takes one to three seconds.
const START_TIMEOUT: Duration = Duration::from_secs(120);
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
const WATCH_INTERVAL: Duration = Duration::from_millis(100);
