//! How the sockets between sites are set: what waits in them, and who finds their speed.
//!
//! Why here: bytes that have left for the socket are in nobody's order any more, so as few as keep the line busy may lie
//! there. Invariant: an option that the kernel refuses leaves a connection that works.

use std::time::Duration;

use skerry_base::limits::BACKLOG_BYTES;
use skerry_federation::subflows;
use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};

/// Unanswered bytes end a connection after this time: twice what connecting anew may take. TCP repeats after pauses that double, so that a cut
/// which the connection outlives is felt for up to twice its length; dialling anew finds its end within seconds.
const DEAD: Duration = Duration::from_secs(10);
/// Unsent bytes that the kernel takes: little, so that a record does not wait behind a whole payload.
const UNSENT: u32 = 32 << 10;
/// Sealed bytes that TLS holds before it takes more.
const SEALED: usize = 16 << 10;

/// What may be chosen of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tuning {
    /// Congestion control by the kernel's name for it; the machine's own if there is none, or if the kernel has no such.
    pub congestion: Option<String>,
    /// Bytes that the kernel takes before it has sent those it has.
    pub unsent: u32,
    /// Sealed bytes that TLS holds before it takes more.
    pub sealed: usize,
    /// Bytes that came over all links and nobody has read: beyond them links wait.
    pub backlog: usize,
    /// What is under way for each connection to a peer that there is to be ([`skerry_federation::subflows`]).
    pub share: u64,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            congestion: None,
            unsent: UNSENT,
            sealed: SEALED,
            backlog: BACKLOG_BYTES,
            share: subflows::SHARE,
        }
    }
}

impl Tuning {
    /// What of it this kernel gives, and what not, in words for who runs the machine. The listener's congestion control is that
    /// of what it accepts.
    pub(super) fn offered(self, listener: &TcpListener) -> (Self, Option<String>) {
        #[cfg(target_os = "linux")]
        if let Some(name) = &self.congestion
            && let Err(error) = SockRef::from(listener).set_tcp_congestion(name.as_bytes())
        {
            tracing::info!(%name, %error, "the kernel does not offer this congestion control for links; its own is used");
            let lack = refused(name, &own(listener));
            return (Self { congestion: None, ..self }, Some(lack));
        }
        (self, None)
    }

    /// Sets the options of a socket between sites. A kernel that lacks one only notices dead paths later.
    pub(super) fn tune(&self, socket: &TcpStream) {
        let socket = SockRef::from(socket);
        let results = [
            socket.set_tcp_nodelay(true),
            // Links ask by themselves, sooner than it did, and seldom where a site pays for it.
            socket.set_keepalive(false),
            #[cfg(target_os = "linux")]
            socket.set_tcp_user_timeout(Some(DEAD)),
            #[cfg(target_os = "linux")]
            socket.set_tcp_notsent_lowat(self.unsent),
            #[cfg(target_os = "linux")]
            self.congestion.as_ref().map_or(Ok(()), |name| socket.set_tcp_congestion(name.as_bytes())),
        ];
        for error in results.into_iter().filter_map(Result::err) {
            tracing::debug!(%error, "a socket option was refused");
        }
    }
}

/// What the kernel uses by itself.
#[cfg(target_os = "linux")]
fn own(listener: &TcpListener) -> String {
    let name = SockRef::from(listener).tcp_congestion().unwrap_or_default();
    String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned()
}

#[cfg(target_os = "linux")]
fn refused(name: &str, own: &str) -> String {
    let costs = match name {
        "bbr" => ", which is many times slower where packets get lost",
        _ => "",
    };
    format!(
        "links run by `{own}`{costs}: the kernel does not offer `{name}` to this process (peer.congestion)"
    )
}

#[cfg(test)]
#[cfg(target_os = "linux")]
#[expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]
mod tests {
    use super::*;

    async fn sockets(tuning: &Tuning) -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (offered, _) = tuning.clone().offered(&listener);
        let dialled = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (accepted, _) = listener.accept().await.unwrap();
        offered.tune(&dialled);
        offered.tune(&accepted);
        (dialled, accepted)
    }

    fn congestion(socket: &TcpStream) -> String {
        let name = SockRef::from(socket).tcp_congestion().unwrap();
        String::from_utf8(name).unwrap().trim_end_matches('\0').to_owned()
    }

    #[tokio::test]
    async fn both_ends_run_by_what_is_asked_for() {
        let tuning = Tuning { congestion: Some("reno".into()), unsent: 12_345, ..Tuning::default() };
        let (dialled, accepted) = sockets(&tuning).await;
        for socket in [&dialled, &accepted] {
            assert_eq!(congestion(socket), "reno");
            assert_eq!(SockRef::from(socket).tcp_notsent_lowat().unwrap(), 12_345);
        }
    }

    #[tokio::test]
    async fn what_the_kernel_has_not_is_left_to_the_kernel() {
        let (own, _) = sockets(&Tuning::default()).await;
        let tuning = Tuning { congestion: Some("no-such".into()), ..Tuning::default() };
        let (dialled, accepted) = sockets(&tuning).await;
        assert_eq!(congestion(&dialled), congestion(&own));
        assert_eq!(congestion(&accepted), congestion(&own));

        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (_, lack) = tuning.offered(&listener);
        let lack = lack.unwrap();
        assert!(lack.contains("`no-such`") && lack.contains(&format!("`{}`", congestion(&own))), "{lack}");
        assert_eq!(Tuning::default().offered(&listener).1, None, "nothing was asked for");
    }
}
