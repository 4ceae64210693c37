//! Small probes that run within hosts: datagrams that are echoed, streams that are swallowed. No other program.
//!
//! Invariants: every wait has a bound; a probe counts what its own sockets took, never what the emulator says.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::wan::{Host, Wan, WanError, raise_priority};

const PORT: u16 = 7;
/// Nobody waits longer for one packet or one read.
const WAIT: Duration = Duration::from_secs(3);
/// How often a thread that waits looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(100);
const BLOCK: usize = 256 << 10;

/// Round trips of single datagrams, sorted; those that did not come back are missing.
pub(super) fn round_trips(
    wan: &Wan,
    pair: (&Host, &Host),
    count: u32,
    every: Duration,
) -> Result<Vec<Duration>, WanError> {
    let server = wan.inside(pair.1, || UdpSocket::bind((pair.1.address, PORT)))??;
    let client = wan.inside(pair.0, || UdpSocket::bind((pair.0.address, 0)))??;
    client.connect((pair.1.address, PORT))?;
    let stop = AtomicBool::new(false);
    let measured = std::thread::scope(|scope| {
        scope.spawn(|| echo(&server, &stop));
        let receiver = scope.spawn(|| receive(&client, count, every));
        let sent = send(&client, count, every);
        let received = receiver.join().map_err(|_| io::Error::other("a probe panicked"));
        stop.store(true, Ordering::Relaxed);
        let (sent, received) = (sent?, received??);
        let spans = received.into_iter().filter_map(|(number, at)| Some(at - *sent.get(number as usize)?));
        Ok::<Vec<Duration>, io::Error>(spans.collect())
    });
    let mut spans = measured?;
    spans.sort();
    Ok(spans)
}

fn send(client: &UdpSocket, count: u32, every: Duration) -> io::Result<Vec<Instant>> {
    raise_priority();
    let mut sent = Vec::new();
    for number in 0..count {
        sent.push(Instant::now());
        client.send(&number.to_be_bytes())?;
        std::thread::sleep(every);
    }
    Ok(sent)
}

fn receive(client: &UdpSocket, count: u32, every: Duration) -> io::Result<Vec<(u32, Instant)>> {
    raise_priority();
    client.set_read_timeout(Some(WAIT + every))?;
    let mut received = Vec::new();
    let mut number = [0; 4];
    while received.len() < count as usize {
        match client.recv(&mut number) {
            Ok(_) => received.push((u32::from_be_bytes(number), Instant::now())),
            Err(error) if is_timeout(&error) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(received)
}

fn echo(server: &UdpSocket, stop: &AtomicBool) {
    raise_priority();
    let mut datagram = [0; 2048];
    while server.set_read_timeout(Some(LOOK)).is_ok() && !stop.load(Ordering::Relaxed) {
        if let Ok((length, from)) = server.recv_from(&mut datagram) {
            // An answer that can not be sent is one that is missing.
            let _ = server.send_to(datagram.get(..length).unwrap_or_default(), from);
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Bytes per second that streams carry between pairs of hosts, all at once, once they are up to speed.
pub(super) fn throughput(
    wan: &Wan,
    pairs: &[(&Host, &Host)],
    warm: Duration,
    measure: Duration,
) -> Result<Vec<f64>, WanError> {
    let mut streams = Vec::new();
    for (from, to) in pairs {
        let listener = wan.inside(to, || TcpListener::bind((to.address, PORT)))??;
        let address = SocketAddr::from((to.address, PORT));
        let sender = wan.inside(from, || TcpStream::connect_timeout(&address, WAIT))??;
        // The machine's own default may be one that models the path; the plain one fills it.
        let _ = socket2::SockRef::from(&sender).set_tcp_congestion(b"cubic");
        let (receiver, _) = listener.accept()?;
        streams.push((sender, receiver, AtomicU64::new(0)));
    }
    let stop = AtomicBool::new(false);
    let rates = std::thread::scope(|scope| {
        for (sender, receiver, taken) in &streams {
            scope.spawn(|| pour(sender, &stop));
            scope.spawn(|| swallow(receiver, taken, &stop));
        }
        std::thread::sleep(warm);
        let (begin, before) = (Instant::now(), counts(&streams));
        std::thread::sleep(measure);
        let (after, seconds) = (counts(&streams), begin.elapsed().as_secs_f64());
        stop.store(true, Ordering::Relaxed);
        before.iter().zip(after).map(|(before, after)| (after - before) as f64 / seconds).collect()
    });
    Ok(rates)
}

fn counts(streams: &[(TcpStream, TcpStream, AtomicU64)]) -> Vec<u64> {
    streams.iter().map(|(.., taken)| taken.load(Ordering::Relaxed)).collect()
}

fn pour(mut sender: &TcpStream, stop: &AtomicBool) {
    let block = vec![7; BLOCK];
    let ready = sender.set_write_timeout(Some(LOOK));
    while ready.is_ok() && !stop.load(Ordering::Relaxed) {
        match sender.write(&block) {
            Ok(_) => {}
            Err(error) if is_timeout(&error) => {}
            Err(_) => return,
        }
    }
}

fn swallow(mut receiver: &TcpStream, taken: &AtomicU64, stop: &AtomicBool) {
    let mut block = vec![0; BLOCK];
    let ready = receiver.set_read_timeout(Some(LOOK));
    while ready.is_ok() && !stop.load(Ordering::Relaxed) {
        match receiver.read(&mut block) {
            Ok(0) => return,
            Ok(length) => {
                taken.fetch_add(length as u64, Ordering::Relaxed);
            }
            Err(error) if is_timeout(&error) => {}
            Err(_) => return,
        }
    }
}

/// Sends so many datagrams of one size from a host to another, slowly enough for every queue.
pub(super) fn datagrams(wan: &Wan, pair: (&Host, &Host), count: u32, bytes: usize) -> Result<(), WanError> {
    let socket = wan.inside(pair.0, || UdpSocket::bind((pair.0.address, 0)))??;
    let datagram = vec![1; bytes];
    for _ in 0..count {
        socket.send_to(&datagram, (pair.1.address, PORT))?;
    }
    Ok(())
}

/// A socket that takes what [`datagrams`] sends, so that nobody answers with an error.
pub(super) fn sink(wan: &Wan, host: &Host) -> Result<UdpSocket, WanError> {
    Ok(wan.inside(host, || UdpSocket::bind((host.address, PORT)))??)
}
