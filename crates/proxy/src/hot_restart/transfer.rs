//! The transfer of client connections from the keeper of a dead process to the process that continues with them.
//!
//! The first packet is a header; each further one has slots, their areas, and the sockets.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::Ordering::Relaxed;

use super::slot_table::{AREA, PENDING, SLOT, SlotTable, slot_table};
use super::socket_info::{byte_counts, cookie, local_port};
use super::{Cause, Loss, RestoredClient};
use crate::rt::DetachedSocket;

/// The contents of the first packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransferHeader {
    /// No connection has had this id or a higher one.
    pub next_id: u32,
    /// At most this many connections follow.
    pub connections: u32,
    /// Clients that cannot be continued: they were running a command, or have something tied to the dead process.
    pub lost: u32,
}

/// The result of receiving a packet.
#[derive(Debug)]
pub enum Received {
    /// The first packet.
    Header(TransferHeader),
    /// Connections.
    Clients(Vec<ReceivedClient>),
    /// There are no more connections, or the packet was written by another version.
    End,
}

/// A received connection.
#[derive(Debug)]
pub struct ReceivedClient {
    /// The socket.
    pub socket: DetachedSocket,
    /// What is known about the connection, or why it cannot be continued.
    pub restored: Result<RestoredClient, Loss>,
}

/// Sends the clients of the process that used `slot_table` through `way`. For the keeper only, once that process has
/// ended: every descriptor that is not sent is closed first, which releases the locks of the databases.
///
/// # Errors
/// If nobody receives them.
pub fn send_clients(slot_table: SlotTable, way: RawFd) -> io::Result<()> {
    let mut lost: u32 = 0;
    let mut left = Vec::new();
    for descriptor in 0..=slot_table.highest().saturating_add(UNSEEN) {
        match find(slot_table, descriptor) {
            Found::Client if descriptor != way => left.push(descriptor),
            Found::Lost => lost += 1,
            _ => {}
        }
    }
    let mut kept = left.clone();
    kept.push(way);
    kept.sort_unstable();
    close_all_but(&kept);
    let mut header = [MAGIC, &[HEADER]].concat();
    header.extend_from_slice(&slot_table.next_id().to_le_bytes());
    header.extend_from_slice(&u32::try_from(left.len()).unwrap_or(u32::MAX).to_le_bytes());
    header.extend_from_slice(&lost.to_le_bytes());
    send(way, &header, &[])?;
    for batch in left.chunks(AT_ONCE) {
        let mut text = Vec::with_capacity(LONGEST);
        text.extend_from_slice(MAGIC);
        text.push(CLIENTS);
        for descriptor in batch {
            put(slot_table, *descriptor, &mut text);
        }
        send(way, &text, batch)?;
        for descriptor in batch {
            // SAFETY: only this process has the descriptor, and it does not use it any more.
            drop(unsafe { OwnedFd::from_raw_fd(*descriptor) });
        }
    }
    Ok(())
}

/// What a descriptor leads to.
enum Found {
    /// A client's connection, which can perhaps be continued.
    Client,
    /// A client's connection that cannot be continued.
    Lost,
    Other,
}

fn find(slot_table: SlotTable, descriptor: RawFd) -> Found {
    let Ok(cookie) = cookie(descriptor) else { return Found::Other };
    let comes_from_client = || local_port(descriptor).is_some_and(|port| slot_table.has_port(port));
    match slot_table.slot(descriptor) {
        Some(slot) if slot.is_of(cookie) && slot.is_lost() => Found::Lost,
        Some(slot) if slot.is_of(cookie) => Found::Client,
        // The process was killed after it received the connection from another one, and before it had a slot for it.
        _ if pending(slot_table, cookie).is_some() => Found::Client,
        // The process was killed after it accepted the connection, and before it had a slot for it.
        _ if comes_from_client() && is_untouched(descriptor) => Found::Client,
        // The connection has no slot, for example because it uses TLS.
        _ if comes_from_client() => Found::Lost,
        _ => Found::Other,
    }
}

fn is_untouched(descriptor: RawFd) -> bool {
    byte_counts(descriptor).is_some_and(|counts| counts.read == 0 && counts.written == 0)
}

fn put(slot_table: SlotTable, descriptor: RawFd, text: &mut Vec<u8>) {
    let of_socket = cookie(descriptor).ok();
    let slot = slot_table.slot(descriptor).filter(|slot| of_socket.is_some_and(|cookie| slot.is_of(cookie)));
    if let (None, Some(known)) = (slot, of_socket.and_then(|cookie| pending(slot_table, cookie))) {
        return text.extend_from_slice(known);
    }
    text.push(u8::from(slot.is_some()));
    let Some(slot) = slot else { return };
    // SAFETY: a slot is that many initialised bytes, and the process that changed them has ended.
    let bytes = unsafe { std::slice::from_raw_parts(std::ptr::from_ref(slot).cast::<u8>(), SLOT) };
    text.extend_from_slice(bytes);
    let area = slot_table.area(slot.area.load(Relaxed));
    text.push(u8::from(area.is_some()));
    if let Some(area) = area {
        let mut bytes = [0; AREA];
        area.get(&mut bytes);
        text.extend_from_slice(&bytes);
    }
}

/// What the packet that the dead process was working on says about the connection with this kernel id.
fn pending(slot_table: SlotTable, wanted: u64) -> Option<&'static [u8]> {
    let (kind, mut rest) = slot_table.pending().strip_prefix(MAGIC)?.split_first()?;
    if *kind != CLIENTS {
        return None;
    }
    loop {
        let length = match rest.split_first()? {
            (0, _) => 1,
            (_, slot) => 2 + SLOT + if *slot.get(SLOT)? == 0 { 0 } else { AREA },
        };
        let (client, following) = rest.split_at_checked(length)?;
        // The slot of a socket begins with the kernel's id of the socket.
        let cookie = client.get(1..9).and_then(<[u8]>::first_chunk).copied().map(u64::from_ne_bytes);
        if cookie == Some(wanted) {
            return Some(client);
        }
        rest = following;
    }
}

/// Records the contents of the next packet before it is received: its connections belong to this process as soon as the
/// packet is received, and this process may be killed before each of them has a slot.
fn note_next(slot_table: SlotTable, way: BorrowedFd<'_>) {
    slot_table.note_pending(|place| {
        // SAFETY: the kernel writes at most `place.len()` bytes to `place`.
        let count =
            unsafe { libc::recv(way.as_raw_fd(), place.as_mut_ptr().cast(), place.len(), libc::MSG_PEEK) };
        // The same error occurs when the packet is received, and is handled there.
        usize::try_from(count).unwrap_or(0)
    });
}

/// Receives the next packet. [`SlotTable::settle_pending`] must be called when all its connections have slots. `cause`
/// says how the dead process ended.
///
/// # Errors
/// The error of `recvmsg(2)`, or `InvalidData` for a malformed packet.
pub fn receive_clients(way: BorrowedFd<'_>, cause: Cause) -> io::Result<Received> {
    if let Some(slot_table) = slot_table() {
        note_next(slot_table, way);
    }
    let (text, sockets) = receive_packet(way)?;
    let Some((kind, text)) = text.strip_prefix(MAGIC).and_then(<[u8]>::split_first) else {
        return Ok(Received::End);
    };
    if *kind == HEADER {
        let number =
            |place: usize| text.get(place..place + 4)?.first_chunk().copied().map(u32::from_le_bytes);
        let header =
            || Some(TransferHeader { next_id: number(0)?, connections: number(4)?, lost: number(8)? });
        return header().map(Received::Header).ok_or_else(|| io::ErrorKind::InvalidData.into());
    }
    let mut rest = text;
    let client = |socket| client(&mut rest, socket, cause);
    sockets.into_iter().map(client).collect::<io::Result<_>>().map(Received::Clients)
}

/// Parses the entry at the beginning of `rest`, which is about `socket`.
fn client(rest: &mut &[u8], socket: OwnedFd, cause: Cause) -> io::Result<ReceivedClient> {
    let mut take = |count: usize| {
        let (part, following) = rest.split_at_checked(count).ok_or(io::ErrorKind::InvalidData)?;
        *rest = following;
        io::Result::Ok(part)
    };
    let descriptor = socket.as_raw_fd();
    let restored = match take(1)? {
        [0] => is_untouched(descriptor).then(RestoredClient::fresh).ok_or(Loss::Uncounted),
        _ => {
            let slot = take(SLOT)?;
            let area = if take(1)? == [0] { None } else { Some(take(AREA)?) };
            RestoredClient::of(slot, area, byte_counts(descriptor), cause)
        }
    };
    Ok(ReceivedClient { socket: DetachedSocket::adopt(socket)?, restored })
}

fn send(way: RawFd, text: &[u8], sockets: &[RawFd]) -> io::Result<()> {
    let mut control = Control::new();
    let mut part = libc::iovec { iov_base: text.as_ptr().cast_mut().cast(), iov_len: text.len() };
    let mut message = control.message(&mut part);
    if sockets.is_empty() {
        message.msg_control = std::ptr::null_mut();
        message.msg_controllen = 0;
    } else {
        let bytes = std::mem::size_of_val(sockets) as u32;
        // SAFETY: the buffer has room for AT_ONCE descriptors, and there are at most that many.
        unsafe {
            message.msg_controllen = libc::CMSG_SPACE(bytes) as _;
            let header = libc::CMSG_FIRSTHDR(&message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(bytes) as _;
            let data = libc::CMSG_DATA(header).cast::<RawFd>();
            std::ptr::copy_nonoverlapping(sockets.as_ptr(), data, sockets.len());
        }
    }
    // SAFETY: the message refers to memory that lives until the call returns.
    let sent = unsafe { libc::sendmsg(way, &message, libc::MSG_NOSIGNAL) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn receive_packet(way: BorrowedFd<'_>) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    let mut text = vec![0; LONGEST];
    let mut control = Control::new();
    let mut part = libc::iovec { iov_base: text.as_mut_ptr().cast(), iov_len: text.len() };
    let mut message = control.message(&mut part);
    let count = loop {
        // SAFETY: the message refers to memory that lives until the call returns.
        let count = unsafe { libc::recvmsg(way.as_raw_fd(), &mut message, libc::MSG_CMSG_CLOEXEC) };
        match usize::try_from(count) {
            Ok(count) => break count,
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error),
            },
        }
    };
    let mut sockets = Vec::new();
    // SAFETY: the kernel has written the headers, and the descriptors in them are new ones of this process.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(&message);
        while !header.is_null() {
            if (*header).cmsg_level == libc::SOL_SOCKET && (*header).cmsg_type == libc::SCM_RIGHTS {
                let bytes = (*header).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
                let data = libc::CMSG_DATA(header).cast::<RawFd>();
                for index in 0..bytes / size_of::<RawFd>() {
                    sockets.push(OwnedFd::from_raw_fd(data.add(index).read_unaligned()));
                }
            }
            header = libc::CMSG_NXTHDR(&message, header);
        }
    }
    text.truncate(count);
    Ok((text, sockets))
}

/// Memory for descriptors that are sent with a packet.
#[repr(align(16))]
struct Control([u8; CONTROL]);

impl Control {
    fn new() -> Control {
        Control([0; CONTROL])
    }

    fn message(&mut self, part: &mut libc::iovec) -> libc::msghdr {
        // SAFETY: all zeroes are an empty message.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = part;
        message.msg_iovlen = 1;
        message.msg_control = self.0.as_mut_ptr().cast();
        message.msg_controllen = CONTROL as _;
        message
    }
}

/// Closes all descriptors except these, which are sorted.
fn close_all_but(kept: &[RawFd]) {
    let mut from: u32 = 0;
    for descriptor in kept {
        let descriptor = u32::try_from(*descriptor).unwrap_or_default();
        if descriptor > from {
            close_range(from, descriptor - 1);
        }
        from = descriptor + 1;
    }
    close_range(from, u32::MAX);
}

fn close_range(first: u32, last: u32) {
    // SAFETY: only this process has them, and it uses none of them any more. On kernels before 5.9, which do not have the
    // call, there are no keepers.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
}

/// The version that has written a packet: the layout of slots differs between versions.
const MAGIC: &[u8] = concat!("narrows ", env!("CARGO_PKG_VERSION"), "\n").as_bytes();

/// The type of a packet.
const HEADER: u8 = 0;
const CLIENTS: u8 = 1;

/// Connections in one packet: below the kernel's limit of 253 descriptors, and few enough for the default send buffer.
const AT_ONCE: usize = 32;

/// The longest packet.
const LONGEST: usize = MAGIC.len() + 1 + AT_ONCE * (2 + SLOT + AREA);

const _: () = assert!(LONGEST <= PENDING);

/// The size of control data for that many descriptors.
const CONTROL: usize = 16 + AT_ONCE * size_of::<RawFd>() + 16;

/// How many descriptors above the highest recorded one are examined: the last connections accepted may be there.
const UNSEEN: i32 = 256;
