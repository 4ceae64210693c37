//! A network of three sites, built for real: delays, cuts, counts, and that nothing is left behind.
//!
//! It has no harness: a process can enter a user namespace only while it has one thread. It also plays the lab for
//! the processes in the hosts, and for itself when a crash is rehearsed.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use skerry_lab::sys;
use skerry_lab::wan::{Host, Wan, WanError, clean};
use skerry_scenario::topology::Topology;

const TOPOLOGY: &str = r#"
version = 1
[[site]]
name = "a"
hosts = 2
[[site]]
name = "b"
[[site]]
name = "c"
[matrix]
rtt_ms = [[0, 20, 60], [20, 0, 80], [60, 80, 0]]
[site_lan]
rtt_ms = 1
rate_mbit = 1000
[access]
rtt_ms = 10
"#;
const WAIT: Duration = Duration::from_secs(5);
const STREAM_BYTES: usize = 3_000_000;
const WORST: &str =
    "loss = 0.005\njitter_ms = 1\nduplicate = 0.005\nreorder = 0.005\nhold_ms = 3\nrate_mbit = 200";
const CRASH: &str = "crash";

fn main() -> ExitCode {
    if let Some(code) = sys::enter_if_asked() {
        return code;
    }
    let is_refused = matches!(Wan::build(&topology()), Err(WanError::NotIsolated));
    assert!(is_refused || sys::is_isolated(), "a network in an open world");
    if let Err(reason) = sys::isolate() {
        println!("SKIPPED: {reason}");
        return ExitCode::SUCCESS;
    }
    if std::env::args().any(|argument| argument == CRASH) {
        crash();
    }
    let tests: [(&str, fn()); 6] = [
        ("delays add up and the counts agree", delays_and_counts),
        ("a cut cuts and a heal heals", cut_and_heal),
        ("processes live in their host and end with the network", processes),
        ("streams arrive whole over the worst of links", streams_arrive_whole),
        ("no packet finds a way out", no_way_out),
        ("a crash leaves nothing", after_a_crash),
    ];
    for (name, test) in tests {
        print!("test {name} ... ");
        test();
        println!("ok");
    }
    ExitCode::SUCCESS
}

fn topology() -> Topology {
    Topology::parse("three sites", TOPOLOGY).unwrap()
}

/// A socket within a host that waits at most [`WAIT`].
fn socket(wan: &Wan, host: &Host) -> UdpSocket {
    let socket = wan.inside(host, || UdpSocket::bind((host.address, 0))).unwrap().unwrap();
    socket.set_read_timeout(Some(WAIT)).unwrap();
    socket
}

/// Sends one datagram and waits for it; how long that took.
fn one_way(from: &UdpSocket, to: &UdpSocket) -> Duration {
    let began = Instant::now();
    from.send_to(&[1; 100], to.local_addr().unwrap()).unwrap();
    assert_eq!(to.recv(&mut [0; 200]).unwrap(), 100);
    began.elapsed()
}

fn delays_and_counts() {
    let wan = Wan::build(&topology()).unwrap();
    let names: Vec<_> = wan.hosts().iter().map(|host| host.name.as_str()).collect();
    assert_eq!(names, ["a-1", "a-2", "b-1", "c-1", "a-client-1", "b-client-1", "c-client-1"]);
    let of = |name: &str| socket(&wan, wan.host(name).unwrap());
    // A busy machine makes packets late, never early: the least of a few is asked.
    let ways = [("a-1", "b-1", 10), ("b-1", "c-1", 40), ("a-client-1", "a-2", 5), ("a-client-1", "c-1", 35)];
    for (from, to, expected_ms) in ways {
        let (from, to) = (of(from), of(to));
        let least = (0..5).map(|_| one_way(&from, &to)).min().unwrap();
        let expected = Duration::from_millis(expected_ms);
        assert!(
            least >= expected && least < expected + Duration::from_millis(3),
            "{expected:?} took {least:?}"
        );
    }
    let traffic = wan.traffic();
    let bytes: Vec<Vec<u64>> =
        traffic.pairs.iter().map(|row| row.iter().map(|flow| flow.bytes).collect()).collect();
    assert_eq!(bytes, [[640, 640, 640], [0, 0, 640], [0, 0, 0]]);
    assert_eq!(traffic.hosts["c-1"].received_packets, 10);
    for host in wan.hosts() {
        let (kernel, ours) = (wan.interface(host).unwrap(), traffic.hosts[&host.name]);
        assert_eq!(
            (kernel.sent_bytes, kernel.received_bytes),
            (ours.sent_bytes, ours.received_bytes),
            "{}",
            host.name
        );
    }
    let health = wan.health();
    assert_eq!((health.ring_drops, health.memory_drops, health.write_errors, health.strays), (0, 0, 0, 0));
    assert_eq!(health.smallest_delay_us, 500);
}

fn cut_and_heal() {
    let wan = Wan::build(&topology()).unwrap();
    let of = |name: &str| socket(&wan, wan.host(name).unwrap());
    let (a, b, c, near) = (of("a-1"), of("b-1"), of("c-1"), of("a-2"));
    let lost = |from: usize, to: usize| wan.traffic().pairs[from][to].lost_packets;
    // What is under way when the cut is answered never arrives, though the other direction works.
    a.send_to(&[2; 7], b.local_addr().unwrap()).unwrap();
    wan.sever(&[(0, 1)], true);
    one_way(&b, &a);
    assert_eq!(lost(0, 1), 1);
    wan.sever(&[(0, 1)], false);
    one_way(&a, &b);
    let around = [(0, 1), (1, 0), (0, 2), (2, 0)];
    wan.sever(&around, true);
    a.send_to(&[3; 7], b.local_addr().unwrap()).unwrap();
    b.send_to(&[3; 7], a.local_addr().unwrap()).unwrap();
    one_way(&a, &near);
    one_way(&b, &c);
    assert_eq!((lost(0, 1), lost(1, 0)), (2, 1));
    wan.sever(&around, false);
    one_way(&a, &b);
    one_way(&b, &a);
}

fn processes() {
    let wan = Wan::build(&topology()).unwrap();
    let host = wan.host("b-1").unwrap();
    let addresses = wan.command(host, Path::new("/bin/cat")).arg("/proc/net/fib_trie").output().unwrap();
    let text = String::from_utf8_lossy(&addresses.stdout).into_owned();
    assert!(
        text.contains(&host.address.to_string()),
        "{text} {}",
        String::from_utf8_lossy(&addresses.stderr)
    );
    let environment = wan.command(host, Path::new("/usr/bin/env")).output().unwrap().stdout;
    assert!(String::from_utf8_lossy(&environment).contains(wan.run_id()));
    // A shell whose child outlives it: only the mark finds the child.
    let mut shell = wan.command(host, Path::new("/bin/sh"));
    let script = "setsid sleep 300 >/dev/null 2>&1 & echo $!";
    let line = shell.args(["-c", script]).stdout(Stdio::piped()).output().unwrap().stdout;
    let orphan: u32 = String::from_utf8_lossy(&line).trim().parse().unwrap();
    let mut child = wan.command(host, Path::new("/bin/sleep")).arg("300").spawn().unwrap();
    let missing = wan.command(host, Path::new("/no/such/program")).stderr(Stdio::piped()).output().unwrap();
    assert!(String::from_utf8_lossy(&missing.stderr).contains("b-1: can not start /no/such/program"));
    await_true("the orphan runs", || sys::start_time(orphan).is_some());
    drop(wan);
    assert!(!child.wait().unwrap().success());
    assert_eq!(sys::start_time(orphan), None, "the orphan lives");
}

/// Pieces of super-packets carry checksums that nobody verifies here: so the bytes themselves are compared.
fn streams_arrive_whole() {
    let links = ["", "rate_mbit = 90", "rate_mbit = 20\nqueue_ms = 20", WORST];
    let mut text = String::from("version = 1\n[site_lan]\nrate_mbit = 1000\n[[site]]\nname = \"middle\"\n");
    for (number, link) in links.iter().enumerate() {
        text += &format!("[[site]]\nname = \"s{number}\"\n[[pair]]\nfrom = \"middle\"\nto = \"s{number}\"\n");
        text += &format!("rtt_ms = 5\n{link}\n");
    }
    let wan = Wan::build(&Topology::parse("worst", &text).unwrap()).unwrap();
    let middle = wan.host("middle-1").unwrap();
    for number in 0..links.len() {
        let far = wan.host(&format!("s{number}-1")).unwrap();
        let sent: Vec<u8> =
            (0..STREAM_BYTES).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for (from, to) in [(middle, far), (far, middle)] {
            let listener = wan.inside(to, || TcpListener::bind((to.address, 0))).unwrap().unwrap();
            let address = listener.local_addr().unwrap();
            let mut sender = wan.inside(from, || TcpStream::connect(address)).unwrap().unwrap();
            let (mut receiver, _) = listener.accept().unwrap();
            receiver.set_read_timeout(Some(WAIT)).unwrap();
            let mut received = Vec::new();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    sender.write_all(&sent).unwrap();
                    sender.shutdown(Shutdown::Write).unwrap();
                });
                receiver.read_to_end(&mut received).unwrap();
            });
            assert!(received == sent, "{} bytes from {} to {} differ", received.len(), from.name, to.name);
        }
    }
    let traffic = wan.traffic();
    assert!(traffic.pairs[0][4].lost_packets > 0, "the worst link lost nothing");
}

fn no_way_out() {
    let wan = Wan::build(&topology()).unwrap();
    let socket = socket(&wan, wan.host("a-1").unwrap());
    for address in ["192.0.2.1:9", "10.64.200.1:9", "10.64.0.77:9"] {
        socket.send_to(&[1; 10], address).unwrap();
    }
    await_true("strays are counted", || wan.health().strays == 3);
    assert_eq!(wan.traffic().between_sites(), 0);
    // The lab itself, and what it would start outside of all hosts, reaches nobody either.
    let outside = UdpSocket::bind("0.0.0.0:0").unwrap();
    assert!(outside.send_to(&[1], (wan.hosts()[0].address, 9)).is_err());
    assert!(outside.send_to(&[1], "192.0.2.1:9").is_err());
}

/// Builds a network, starts a process in it, says its number, and dies without a word.
fn crash() -> ! {
    let wan = Wan::build(&topology()).unwrap();
    let file = std::env::temp_dir().join(format!("skerry-lab-crash-{}", wan.run_id()));
    std::fs::write(&file, "left behind").unwrap();
    wan.own(&file).unwrap();
    let child = wan.command(&wan.hosts()[0], Path::new("/bin/sleep")).arg("300").spawn().unwrap();
    await_true("the child has become the program", || {
        std::fs::read(format!("/proc/{}/cmdline", child.id())).unwrap_or_default().starts_with(b"/bin/sleep")
    });
    println!("{} {} {}", child.id(), wan.run_id(), file.display());
    std::process::abort();
}

fn after_a_crash() {
    let mut lab = Command::new(std::env::current_exe().unwrap());
    let mut lab: Child = lab.arg(CRASH).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(lab.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(!lab.wait().unwrap().success());
    let words: Vec<&str> = line.trim().splitn(3, ' ').collect();
    let [child, run, file] = words.as_slice() else { return assert!(words.len() == 3, "{line:?}") };
    let child: u32 = child.parse().unwrap();
    // Its guard cleans by itself; `clean` must find nothing after it, or finish what it has not done yet.
    await_true("the guard ends the process", || sys::start_time(child).is_none());
    await_true("the guard removes the files", || !Path::new(file).exists());
    let cleaned = clean();
    assert!(cleaned.failures.is_empty(), "{:?}", cleaned.failures);
    for base in ["/run/skerry-lab", &format!("{}/skerry-lab-0", std::env::temp_dir().display())] {
        assert!(!Path::new(base).join(run).exists());
    }
}

fn await_true(what: &str, mut condition: impl FnMut() -> bool) {
    let until = Instant::now() + WAIT;
    while !condition() {
        assert!(Instant::now() < until, "{what}: not within {WAIT:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
