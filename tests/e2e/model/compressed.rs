//! Compression for clients that do not know it: after the login, what they send and receive is put into the packets of the
//! compressed protocol, and taken out of them.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use narrows_testkit::{Endpoint, Packet, TempFolder};

/// Where a client can connect once, to reach `target`.
pub fn endpoint(target: &Endpoint) -> Endpoint {
    let folder = TempFolder::new("compressed");
    let path = folder.file("sock");
    let listener = UnixListener::bind(&path).expect("a new folder");
    let target = target.clone();
    std::thread::spawn(move || {
        let Ok((client, _)) = listener.accept() else { return };
        drop(folder);
        // If either side is gone, the other one learns it from its closed connection.
        let _ = match target {
            Endpoint::Unix(path) => UnixStream::connect(path).and_then(|server| relay(client, server)),
            Endpoint::Tcp(address) => TcpStream::connect(address).and_then(|server| relay(client, server)),
        };
    });
    Endpoint::Unix(path)
}

/// A socket of either kind.
trait Socket: Read + Write + Send + Sized + 'static {
    fn twin(&self) -> io::Result<Self>;
    fn close(&self);
}

impl Socket for UnixStream {
    fn twin(&self) -> io::Result<UnixStream> {
        self.try_clone()
    }
    fn close(&self) {
        let _ = self.shutdown(Shutdown::Both);
    }
}

impl Socket for TcpStream {
    fn twin(&self) -> io::Result<TcpStream> {
        self.set_nodelay(true)?;
        self.try_clone()
    }
    fn close(&self) {
        let _ = self.shutdown(Shutdown::Both);
    }
}

fn relay(mut client: UnixStream, mut server: impl Socket) -> io::Result<()> {
    loop {
        let packet = Packet::read(&mut server)?;
        Packet::write(&mut client, &packet.payload, packet.sequence)?;
        match packet.first() {
            0 => break,
            0xFF => return Ok(()),
            // caching_sha2_password: the fast path succeeded.
            1 if packet.payload == [1, 3] => {}
            _ => {
                let packet = Packet::read(&mut client)?;
                Packet::write(&mut server, &packet.payload, packet.sequence)?;
            }
        }
    }
    // The compressed packets of both directions are numbered together, from 0 in each command.
    let number = Arc::new(AtomicU8::new(0));
    let (to_client, from_server, next) = (client.try_clone()?, server.twin()?, Arc::clone(&number));
    let down = std::thread::spawn(move || {
        let (mut to_client, mut from_server) = (to_client, from_server);
        let _ = unpack(&mut from_server, &mut to_client, &next);
        to_client.close();
        from_server.close();
    });
    let _ = pack(&mut client, &mut server, &number);
    server.close();
    client.close();
    let _ = down.join();
    Ok(())
}

/// Packets of the client, each in a compressed packet that is not compressed.
fn pack(client: &mut impl Read, server: &mut impl Write, number: &AtomicU8) -> io::Result<()> {
    loop {
        let mut header = [0; 4];
        client.read_exact(&mut header)?;
        let length = u32::from_le_bytes([header[0], header[1], header[2], 0]) as usize;
        let mut packet = header.to_vec();
        packet.resize(4 + length, 0);
        client.read_exact(&mut packet[4..])?;
        if header[3] == 0 {
            number.store(0, Ordering::SeqCst);
        }
        for part in packet.chunks(0xFF_FF00) {
            let mut frame = (part.len() as u32).to_le_bytes().to_vec();
            frame[3] = number.fetch_add(1, Ordering::SeqCst);
            frame.extend([0, 0, 0]);
            frame.extend(part);
            server.write_all(&frame)?;
        }
    }
}

fn unpack(server: &mut impl Read, client: &mut impl Write, number: &AtomicU8) -> io::Result<()> {
    loop {
        let mut header = [0; 7];
        server.read_exact(&mut header)?;
        let length = u32::from_le_bytes([header[0], header[1], header[2], 0]) as usize;
        let inflated = u32::from_le_bytes([header[4], header[5], header[6], 0]) as usize;
        let mut body = vec![0; length];
        server.read_exact(&mut body)?;
        number.store(header[3].wrapping_add(1), Ordering::SeqCst);
        if inflated > 0 {
            let mut plain = Vec::with_capacity(inflated);
            flate2::read::ZlibDecoder::new(&body[..]).read_to_end(&mut plain)?;
            body = plain;
        }
        client.write_all(&body)?;
    }
}
