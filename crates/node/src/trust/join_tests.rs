//! One token lets one site in, once, in time, at the site that gave it out.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::net::memory::{MemoryNet, MemoryWorld};
use crate::net::{Net, Peer};
use crate::trust::founding::Founding;
use crate::trust::invite::Invited;
use crate::trust::{Identity, SeatOffer};

const HOUR: Duration = Duration::from_secs(3600);

struct Host {
    world: Arc<MemoryWorld>,
    net: Arc<MemoryNet>,
    trust: SiteTrust,
    book: InviteBook,
    dir: tempfile::TempDir,
    taken: Vec<&'static str>,
}

impl Host {
    fn new() -> Self {
        let world = MemoryWorld::new();
        let trust = Founding::new("north", WallTime(0)).unwrap().first;
        let dir = tempfile::tempdir().unwrap();
        let book = InviteBook::open(&dir.path().join("invites.json")).unwrap();
        let net = world.node(trust.identity.public());
        Self { world, net, trust, book, dir, taken: Vec::new() }
    }

    fn token(&self) -> JoinToken {
        self.token_for(None)
    }

    fn token_for(&self, seat: Option<SeatOffer>) -> JoinToken {
        let invited = Invited { name: "south", seat };
        self.book.invite(&self.trust, invited, vec!["a:1".into()], HOUR, WallTime(0)).unwrap().token
    }

    async fn serve(&self, now: u64) -> Result<SiteStatement, JoinError> {
        let (peer, stream) = self.net.accept().await.unwrap();
        let Peer::Stranger(key) = peer else { panic!("{peer:?}") };
        let admitted = receive(
            stream,
            key,
            &self.trust,
            (&self.book, &|name| self.taken.contains(&name)),
            WallTime(now),
        )
        .await?;
        let statement = admitted.statement.clone();
        assert_eq!(admitted.addresses, ["south.example:7700"]);
        admitted.welcome(vec![b"north".to_vec()]).await?;
        Ok(statement)
    }

    async fn ask(&self, token: &JoinToken, identity: Identity) -> Result<Welcome, JoinError> {
        let net = self.world.node(identity.public());
        let stream = net.join(self.net_key(), &token.addresses).await.unwrap();
        join(stream, token, identity, vec!["south.example:7700".into()]).await
    }

    fn net_key(&self) -> PublicKey {
        self.trust.identity.public()
    }

    async fn both(
        &self,
        token: &JoinToken,
        identity: Identity,
        now: u64,
    ) -> (Result<SiteStatement, JoinError>, Result<Welcome, JoinError>) {
        tokio::join!(self.serve(now), self.ask(token, identity))
    }
}

fn copy(identity: &Identity) -> Identity {
    Identity::from_pkcs8(identity.pkcs8()).unwrap()
}

#[tokio::test]
async fn a_site_joins_and_believes_what_it_was_told() {
    let host = Host::new();
    let (served, joined) = host.both(&host.token(), Identity::generate().unwrap(), 10).await;
    let welcome = joined.unwrap();
    assert_eq!(welcome.trust.statement, served.unwrap());
    assert_eq!(welcome.trust.statement.name, "south");
    assert_eq!(welcome.trust.credentials, host.trust.credentials);
    assert_eq!(welcome.roster, [b"north".to_vec()]);
    let dir = tempfile::tempdir().unwrap();
    welcome.trust.store(dir.path()).unwrap();
    assert_eq!(SiteTrust::load(dir.path()).unwrap().statement, welcome.trust.statement);
}

#[tokio::test]
async fn a_used_token_is_refused_but_the_same_node_may_ask_again() {
    let host = Host::new();
    let (token, south) = (host.token(), Identity::generate().unwrap());
    let first = host.both(&token, copy(&south), 10).await.1.unwrap().trust.statement;
    // Also after a restart of the inviter, and after the token expired.
    let host = Host { book: InviteBook::open(&host.dir.path().join("invites.json")).unwrap(), ..host };
    let again = host.both(&token, south, u64::MAX).await.1.unwrap().trust.statement;
    assert_eq!(first, again);
    let (served, joined) = host.both(&token, Identity::generate().unwrap(), 10).await;
    assert!(matches!(served, Err(JoinError::Invite(InviteError::Used))));
    assert!(joined.unwrap_err().to_string().contains("used already"));
}

/// Two machines of one name could not be told apart, and one of them be expelled for the other.
#[tokio::test]
async fn of_two_tokens_for_one_name_the_later_one_is_good() {
    let host = Host::new();
    let (lost, found) = (host.token(), host.token());
    let (served, joined) = host.both(&lost, Identity::generate().unwrap(), 10).await;
    assert!(matches!(served, Err(JoinError::Invite(InviteError::Unknown))));
    assert!(joined.unwrap_err().to_string().contains("took it back"));
    let south = Identity::generate().unwrap();
    host.both(&found, copy(&south), 10).await.1.unwrap();
    // One that was used is not taken back: its answer may have been lost.
    let invited = Invited { name: "south", seat: None };
    let third = host.book.invite(&host.trust, invited, Vec::new(), HOUR, WallTime(0)).unwrap();
    assert!(!third.took_back);
    host.both(&found, south, 10).await.1.unwrap();
    let fourth = host.book.invite(&host.trust, invited, Vec::new(), HOUR, WallTime(0)).unwrap();
    assert!(fourth.took_back);
}

#[tokio::test]
async fn a_name_that_went_to_another_site_meanwhile_is_refused_and_the_token_not_used_up() {
    let mut host = Host::new();
    let (token, south) = (host.token(), Identity::generate().unwrap());
    host.taken = vec!["south"];
    let (served, joined) = host.both(&token, copy(&south), 10).await;
    assert!(matches!(served, Err(JoinError::Invite(InviteError::Taken(_)))));
    assert!(joined.unwrap_err().to_string().contains("there is a site named south already"));
    host.taken.clear();
    host.both(&token, Identity::generate().unwrap(), 10).await.1.unwrap();
}

#[tokio::test]
async fn an_expired_token_is_refused() {
    let host = Host::new();
    let (served, joined) = host.both(&host.token(), Identity::generate().unwrap(), 3_600_000).await;
    assert!(matches!(served, Err(JoinError::Invite(InviteError::Expired))));
    assert!(joined.unwrap_err().to_string().contains("expired"));
}

#[tokio::test]
async fn a_foreign_or_guessed_token_is_refused() {
    let (host, other) = (Host::new(), Host::new());
    let foreign = JoinToken { inviter: host.net_key(), ..other.token() };
    let (served, joined) = host.both(&foreign, Identity::generate().unwrap(), 10).await;
    assert!(matches!(served, Err(JoinError::Invite(InviteError::Unknown))));
    assert!(joined.unwrap_err().to_string().contains("not given out by this site"));
}

#[tokio::test]
async fn a_proof_made_for_another_inviter_or_another_name_is_refused() {
    let host = Host::new();
    let token = host.token();
    let elsewhere = JoinToken { inviter: Identity::generate().unwrap().public(), ..token.clone() };
    let (served, joined) = host.both(&elsewhere, Identity::generate().unwrap(), 10).await;
    assert!(matches!(served, Err(JoinError::Proof)));
    assert!(joined.unwrap_err().to_string().contains("proof"));
    // The name of the token rules: another name makes an answer that the joiner does not believe.
    let renamed = JoinToken { site: "west".into(), ..token };
    let joined = host.both(&renamed, Identity::generate().unwrap(), 10).await.1;
    assert!(matches!(joined, Err(JoinError::Untrusted(Untrusted::Site))));
}

#[tokio::test]
async fn a_joiner_believes_no_admission_of_another_root() {
    let host = Host::new();
    let token = JoinToken { root: Identity::generate().unwrap().public(), ..host.token() };
    let joined = host.both(&token, Identity::generate().unwrap(), 10).await.1;
    assert!(matches!(joined, Err(JoinError::Untrusted(Untrusted::Admin))));
}

#[tokio::test]
async fn garbage_and_oversize_requests_are_refused_and_answered() {
    let host = Host::new();
    let stranger = host.world.node(Identity::generate().unwrap().public());
    let mut stream = stranger.join(host.net_key(), &[]).await.unwrap();
    frame::write(&mut stream, b"\x01garbage").await.unwrap();
    assert!(matches!(host.serve(1).await, Err(JoinError::Decode(_))));
    assert!(frame::read(&mut stream).await.unwrap().is_some());
    let mut stream = stranger.join(host.net_key(), &[]).await.unwrap();
    let long = vec![0; REQUEST_BYTES + 1];
    let (_, served) = tokio::join!(frame::write(&mut stream, &long), host.serve(1));
    assert!(matches!(served, Err(JoinError::Frame(FrameError::TooLong { .. }))));
}

#[tokio::test]
async fn only_a_site_with_an_admin_key_invites() {
    let mut host = Host::new();
    host.trust.admin = None;
    let refused =
        host.book.invite(&host.trust, Invited { name: "x", seat: None }, Vec::new(), HOUR, WallTime(0));
    assert!(matches!(refused, Err(InviteError::NoAdmin)));
}

#[tokio::test]
async fn a_seat_is_given_once_and_to_the_node_that_joined() {
    let host = Host::new();
    let seat = skerry_federation::site_view::Seat::new(1).unwrap();
    let offer = SeatOffer { site: host.trust.statement.site, seat, turn: 0 };
    let (token, south) = (host.token_for(Some(offer)), Identity::generate().unwrap());
    let invited = Invited { name: "west", seat: Some(offer) };
    let second = host.book.invite(&host.trust, invited, Vec::new(), HOUR, WallTime(1));
    assert!(second.unwrap_err().to_string().contains("let it expire first"));
    for _ in 0..2 {
        let net = host.world.node(south.public());
        let stream = net.join(host.net_key(), &token.addresses).await.unwrap();
        let served = async {
            let (Peer::Stranger(key), stream) = host.net.accept().await.unwrap() else {
                panic!("no stranger")
            };
            let admitted =
                receive(stream, key, &host.trust, (&host.book, &|_| false), WallTime(10)).await.unwrap();
            let (node, seat) = (admitted.statement.clone(), admitted.seat.clone().unwrap());
            admitted.welcome(Vec::new()).await.unwrap();
            (node, seat)
        };
        let ((node, seat), joined) = tokio::join!(served, join(stream, &token, copy(&south), Vec::new()));
        joined.unwrap();
        let said = seat.verify(&host.trust.root, node.site, &south.public()).unwrap();
        assert_eq!((said.site, said.turn), (host.trust.statement.site, 0), "also when it asks again");
    }
}
