//! Fixtures of questions and answers: what earlier releases said is read, and said, byte for byte.

#![expect(clippy::unwrap_used, reason = "tests")]
use skerry_base::hex;
use skerry_base::{NodeId, codec};

use super::*;

#[test]
fn follow_v1_fixture() {
    let request = Request::Follow { bucket: BucketId([1; 16]) };
    assert_eq!(hex::text(&codec::encode(&request)), format!("0110{}", "01".repeat(16)));
}

/// Fixtures of version 1 of what was added last: they also pin how many variants come before.
#[test]
fn holdings_v1_fixtures() {
    let asked = Holdings { bucket: BucketId([1; 16]), life: None, from: Vector::new() };
    let request = Request::Holdings(asked);
    assert_eq!(hex::text(&codec::encode(&request)), format!("010d{}0000", "01".repeat(16)));
    let life = Origin { node: NodeId([2; 16]), incarnation: 3 };
    let held = Held { life, spans: vec![1, 0].into(), upto: Vector::new(), more: true };
    let response = Response::Holdings(Box::new(held));
    assert_eq!(hex::text(&codec::encode(&response)), format!("0111{}030201000001", "02".repeat(16)));
    assert_eq!(codec::decode::<Response>(&codec::encode(&response)).unwrap(), response);
}

#[test]
fn have_v1_fixtures() {
    let request = Request::Have(Have { domain: BucketId([1; 16]), chunks: vec![ChunkId([2; 32])] });
    let expected = format!("010e{}01{}", "01".repeat(16), "02".repeat(32));
    assert_eq!(hex::text(&codec::encode(&request)), expected);
    assert_eq!(codec::decode::<Request>(&codec::encode(&request)).unwrap(), request);
    assert_eq!(hex::text(&codec::encode(&Response::Have(vec![true, false]))), "0112020100");
}

#[test]
fn circuit_v1_fixtures() {
    let (from, to) = (SiteId([1; 16]), SiteId([2; 16]));
    for (act, bytes) in [(Act::Ask(3), "0003"), (Act::Carry(2), "0102"), (Act::Take(1), "0201")] {
        let request = Request::Circuit(Circuit { from, to, act });
        assert_eq!(
            hex::text(&codec::encode(&request)),
            format!("0111{}{}{bytes}", "01".repeat(16), "02".repeat(16))
        );
        assert_eq!(codec::decode::<Request>(&codec::encode(&request)).unwrap(), request);
    }
    let kind = skerry_base::ChunkKind::Leaf;
    let chunk = ChunkRef { id: ChunkId([3; 32]), kind, stored: 300, length: 299 };
    let through = Through { holder: to, domain: BucketId([1; 16]), chunk, most: 2 };
    let tail = format!("{}00ac02ab0202", "03".repeat(32));
    let expected = format!("0112{}{}{tail}", "02".repeat(16), "01".repeat(16));
    assert_eq!(hex::text(&codec::encode(&Request::Through(through))), expected);
    let way = Way { hops: 1, rtt_micros: 300 };
    let whys = [Why::Apart, Why::Off, Why::Metered, Why::Full, Why::Far, Why::Silent, Why::Unable];
    let refusals = whys.into_iter().enumerate().map(|(n, why)| (Err(why), format!("0114010{n}")));
    for (answer, bytes) in refusals.chain([(Ok(way), "01140001ac02".into())]) {
        let response = Response::Circuit(answer);
        assert_eq!(hex::text(&codec::encode(&response)), bytes);
        assert_eq!(codec::decode::<Response>(&codec::encode(&response)).unwrap(), response);
    }
}

#[test]
fn spare_v1_fixtures() {
    let asked = Spare { bucket: BucketId([1; 16]), copies: 300, versions: vec![1, 0].into() };
    let request = Request::Spare(asked);
    assert_eq!(hex::text(&codec::encode(&request)), format!("0113{}ac02020100", "01".repeat(16)));
    assert_eq!(codec::decode::<Request>(&codec::encode(&request)).unwrap(), request);
    let spared = Spared { holds: vec![1, 0].into(), keeps: vec![9].into() };
    let response = Response::Spared(Box::new(spared));
    assert_eq!(hex::text(&codec::encode(&response)), "01150201000109");
    assert_eq!(codec::decode::<Response>(&codec::encode(&response)).unwrap(), response);
}

#[test]
fn replaced_v1_fixtures() {
    let (gone, bucket) = (SiteId([1; 16]), BucketId([2; 16]));
    let (ones, twos) = ("01".repeat(16), "02".repeat(16));
    let first = Replaced { gone, after: None, also: vec![bucket] };
    let next = Replaced { gone, after: Some(bucket), also: Vec::new() };
    for (asked, bytes) in [(first, format!("{ones}0001{twos}")), (next, format!("{ones}01{twos}00"))] {
        let request = Request::Replaced(Box::new(asked));
        assert_eq!(hex::text(&codec::encode(&request)), format!("0114{bytes}"));
        assert_eq!(codec::decode::<Request>(&codec::encode(&request)).unwrap(), request);
    }
    let origin = Origin { node: NodeId([3; 16]), incarnation: 4 };
    let member = KnownBucket { bucket, vector: Some(Vector::from_iter([(origin, 5)])) };
    let only_known = KnownBucket { bucket, vector: None };
    let known = KnownIn { heard: true, buckets: vec![member, only_known], more: true, life: 300, left: 2 };
    let bytes = format!("0102{twos}0101{}0405{twos}0001ac0202", "03".repeat(16));
    for (answer, bytes) in [(KnownIn::default(), "0000000000".to_owned()), (known, bytes)] {
        let response = Response::KnownIn(Box::new(answer));
        assert_eq!(hex::text(&codec::encode(&response)), format!("0116{bytes}"));
        assert_eq!(codec::decode::<Response>(&codec::encode(&response)).unwrap(), response);
    }
}

#[test]
fn below_v1_fixtures() {
    let (bucket, ones, twos) = (BucketId([1; 16]), "01".repeat(16), "02".repeat(16));
    let origin = Origin { node: NodeId([2; 16]), incarnation: 3 };
    let seen = Vector::from_iter([(origin, 300)]);
    let loose = space::Fingerprint { count: 1, sum: 5 };
    let changes = Question::Changes { seen: seen.clone(), loose, wait_ms: 300 };
    let held = Some((Vector::new(), loose));
    let range = Question::Range(space::Asked { after: Some("a".into()), to: None, held });
    for (question, bytes) in
        [(changes, format!("0001{twos}03ac020105ac02")), (range, "0101016100010001 05".replace(' ', ""))]
    {
        let request = Request::Below(Box::new(AskedBelow { bucket, prefix: "b/".into(), question }));
        assert_eq!(hex::text(&codec::encode(&request)), format!("0115{ones}02622f{bytes}"));
        assert_eq!(codec::decode::<Request>(&codec::encode(&request)).unwrap(), request);
    }
    let records = vec![Bytes::from_static(&[9])];
    let changes = ToldBelow::Changes {
        source: origin,
        far: false,
        records: records.clone(),
        upto: seen,
        more: true,
        loose,
    };
    let range = ToldBelow::Range { same: true, records, upto: Vector::new(), end: Some("z".into()) };
    for (told, bytes) in [
        (changes, format!("00{twos}0300010109 01{twos}03ac02010105").replace(' ', "")),
        (range, "0101010109 0001017a".replace(' ', "")),
    ] {
        let response = Response::Below(Box::new(told));
        assert_eq!(hex::text(&codec::encode(&response)), format!("0117{bytes}"));
        assert_eq!(codec::decode::<Response>(&codec::encode(&response)).unwrap(), response);
    }
}

#[test]
fn tail_v1_fixtures() {
    let chunk =
        ChunkRef { id: ChunkId([3; 32]), kind: skerry_base::ChunkKind::Leaf, stored: 300, length: 299 };
    for (way, bytes) in
        [(None, "00".to_owned()), (Some((SiteId([2; 16]), 2)), format!("01{}02", "02".repeat(16)))]
    {
        let tail = Tail { domain: BucketId([1; 16]), chunk, from: 200, way };
        let request = Request::Tail(Box::new(tail));
        let expected = format!("0118{}{}00ac02ab02c801{bytes}", "01".repeat(16), "03".repeat(32));
        assert_eq!(hex::text(&codec::encode(&request)), expected);
        assert_eq!(codec::decode::<Request>(&codec::encode(&request)).unwrap(), request);
    }
}

#[test]
fn standing_v1_fixtures() {
    use skerry_federation::departure::Standing;
    let request = Request::Standing { bucket: BucketId([1; 16]) };
    assert_eq!(hex::text(&codec::encode(&request)), format!("010f{}", "01".repeat(16)));
    let stays = Standing::Stays { vector: Vector::new(), loose: Vec::new() };
    for (standing, bytes) in
        [(stays, "000000"), (Standing::Leaves, "01"), (Standing::Joins, "02"), (Standing::Absent, "03")]
    {
        let response = Response::Standing(Box::new(standing));
        assert_eq!(hex::text(&codec::encode(&response)), format!("0113{bytes}"));
        assert_eq!(codec::decode::<Response>(&codec::encode(&response)).unwrap(), response);
    }
}

#[test]
fn kept_v1_fixture() {
    let (bucket, which, part) = (BucketId([1; 16]), Which::Current, Part::Nothing);
    let request = Request::Kept(Box::new(Read { bucket, key: "k".into(), which, part }));
    assert_eq!(hex::text(&codec::encode(&request)), format!("011c{}016b0000", "01".repeat(16)));
    assert_eq!(codec::decode::<Request>(&codec::encode(&request)).unwrap(), request);
}

#[test]
fn remains_v1_fixtures() {
    use skerry_federation::alone::{Held, Remains};
    let request = Request::Remains { bucket: BucketId([1; 16]) };
    assert_eq!(hex::text(&codec::encode(&request)), format!("0119{}", "01".repeat(16)));
    assert_eq!(codec::decode::<Request>(&codec::encode(&request)).unwrap(), request);
    let joins = Remains::Joins(Held::default());
    for (remains, bytes) in
        [(Remains::Nothing, "00"), (Remains::Records, "01"), (joins, "020000"), (Remains::Whole, "03")]
    {
        let response = Response::Remains(Box::new(remains));
        assert_eq!(hex::text(&codec::encode(&response)), format!("011a{bytes}"));
        assert_eq!(codec::decode::<Response>(&codec::encode(&response)).unwrap(), response);
    }
}

/// What releases before say and hear of a forwarded write stands within what is said of one that replaces something.
#[test]
fn replace_v1_fixtures() {
    let object = skerry_model::Object { size: 300, etag: "e".into(), ..skerry_model::Object::default() };
    let put = Forward {
        bucket: BucketId([1; 16]),
        key: "k".into(),
        object: Box::new(object),
        condition: Condition { absent: true, matches: None },
        writer: "w".into(),
        length: Some(300),
    };
    let fields = format!("{}016bac0201650000000000000000000000000000000000000100017701ac02", "01".repeat(16));
    let before = Request::Forward(Box::new(put.clone()));
    let replace = Request::Replace(Box::new(Replace { put, heads: vec![vec![9].into()] }));
    for (request, bytes) in [(before, format!("010b{fields}")), (replace, format!("011b{fields}010109"))] {
        assert_eq!(hex::text(&codec::encode(&request)), bytes);
        assert_eq!(codec::decode::<Request>(&codec::encode(&request)).unwrap(), request);
    }
}

/// Likewise of a version that is to be kept at more sites than its record says.
#[test]
fn hold_for_v1_fixtures() {
    let hold = Hold { bucket: BucketId([1; 16]), record: vec![2].into(), payload: vec![vec![3, 4].into()] };
    let fields = format!("{}010201020304", "01".repeat(16));
    for (copies, bytes) in [(0, format!("0108{fields}")), (300, format!("011f{fields}ac02"))] {
        let request = Request::hold_for(hold.clone(), copies);
        assert_eq!(hex::text(&codec::encode(&request)), bytes);
        assert_eq!(codec::decode::<Request>(&codec::encode(&request)).unwrap(), request);
        assert_eq!(request.held(), Some((&hold, copies)));
    }
}

/// Likewise of the end of an upload.
#[test]
fn completion_v1_fixtures() {
    let complete = Complete {
        parts: vec![ClaimedPart { number: 300, etag: "e".into(), checksums: Vec::new() }],
        checksum: None,
        composite: None,
        size: Some(300),
        condition: Condition { absent: true, matches: None },
    };
    let fields = "01ac020165000000 01ac020100".replace(' ', "");
    let call = |act| {
        Request::Upload(UploadCall {
            bucket: BucketId([1; 16]),
            key: "k".into(),
            upload: "u".into(),
            writer: "w".into(),
            act,
        })
    };
    let before = call(UploadAct::Complete(Box::new(complete.clone())));
    let replace = call(UploadAct::Replace(Box::new(Completion { complete, heads: vec![vec![9].into()] })));
    let to = format!("0106{}016b01750177", "01".repeat(16));
    for (request, bytes) in [(before, format!("{to}03{fields}")), (replace, format!("{to}05{fields}010109"))]
    {
        assert_eq!(hex::text(&codec::encode(&request)), bytes);
        assert_eq!(codec::decode::<Request>(&codec::encode(&request)).unwrap(), request);
    }
}

#[test]
fn clones_v1_fixtures() {
    use skerry_federation::clones::{Found, Linked, Word};
    let (node, by) = (NodeId([1; 16]), NodeId([2; 16]));
    assert_eq!(hex::text(&codec::encode(&Request::Lives)), "0116");
    let request = Request::IsLive { node, life: 300 };
    assert_eq!(hex::text(&codec::encode(&request)), format!("0117{}ac02", "01".repeat(16)));
    assert_eq!(codec::decode::<Request>(&codec::encode(&request)).unwrap(), request);
    let word = Word {
        linked: vec![(node, Linked { life: 300, for_ms: 5 })],
        found: vec![(node, Found { by, kept: 300, refused: 7 })],
        turned_away: vec![(node, 9)],
    };
    let (ones, twos) = ("01".repeat(16), "02".repeat(16));
    let response = Response::Lives(Box::new(word));
    let expected = format!("011801{ones}ac020501{ones}{twos}ac020701{ones}09");
    assert_eq!(hex::text(&codec::encode(&response)), expected);
    assert_eq!(codec::decode::<Response>(&codec::encode(&response)).unwrap(), response);
    assert_eq!(hex::text(&codec::encode(&Response::IsLive(true))), "011901");
}

#[test]
fn seen_v1_fixtures() {
    let request = Request::Seen { bucket: BucketId([1; 16]), digest: [2; 32] };
    assert_eq!(hex::text(&codec::encode(&request)), format!("011d{}{}", "01".repeat(16), "02".repeat(32)));
    assert_eq!(codec::decode::<Request>(&codec::encode(&request)).unwrap(), request);
    assert_eq!(hex::text(&codec::encode(&Response::Same)), "011b");
    assert_eq!(codec::decode::<Response>(&codec::encode(&Response::Same)).unwrap(), Response::Same);
}

#[test]
fn credential_keys_v1_fixtures() {
    let request = Request::CredentialKeys(vec![CredentialKeyId([1; 16])]);
    assert_eq!(hex::text(&codec::encode(&request)), format!("011e01{}", "01".repeat(16)));
    assert_eq!(codec::decode::<Request>(&codec::encode(&request)).unwrap(), request);
    let response = Response::CredentialKeys(vec![SealingKey::from_bytes([2; 32])]);
    assert_eq!(hex::text(&codec::encode(&response)), format!("011c01{}", "02".repeat(32)));
    assert_eq!(codec::decode::<Response>(&codec::encode(&response)).unwrap(), response);
    assert_eq!(format!("{response:?}"), "CredentialKeys([SealingKey(…)])", "nothing of it is logged");
}

#[test]
fn give_v1_fixtures() {
    let request = Request::Give { token: 300 };
    assert_eq!(hex::text(&codec::encode(&request)), "011aac02");
    assert_eq!(codec::decode::<Request>(&codec::encode(&request)).unwrap(), request);
    let read = Read { bucket: BucketId([1; 16]), key: "k".into(), which: Which::Current, part: Part::Whole };
    let sought = Sought { token: 300, read, most: 1 << 20 };
    assert_eq!(hex::text(&codec::encode(&sought)), format!("01ac02{}016b0001808040", "01".repeat(16)));
    assert_eq!(codec::decode::<Sought>(&codec::encode(&sought)).unwrap(), sought);
}
