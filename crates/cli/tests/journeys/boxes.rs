//! From the demo to real boxes: init, server, invite, join, keys and buckets, TLS from the site's own authority.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::island::{free_port, json, run, signal, skerry, told, wait_for};

/// A server on a directory, ended with the value.
pub(crate) struct Box {
    pub(crate) process: Child,
}

impl Box {
    pub(crate) fn start(directory: &Path) -> Self {
        Self::started(skerry(&["server", directory.to_str().unwrap()]), directory)
    }

    /// By this command.
    fn started(mut command: Command, directory: &Path) -> Self {
        let mut this = Self { process: command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap() };
        wait_for("the server", || {
            assert_eq!(this.process.try_wait().unwrap(), None, "the server ended");
            (told(&run(&["status", "--dir", directory.to_str()?])).0 == 0).then_some(())
        });
        this
    }

    pub(crate) fn stop(mut self) {
        signal(self.process.id(), "TERM");
        assert!(wait_for("the server to end", || self.process.try_wait().unwrap()).success());
    }
}

impl Drop for Box {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub(crate) fn configure(directory: &Path, port: u16, more: &str) {
    std::fs::create_dir_all(directory).unwrap();
    let text =
        format!("[s3]\nlisten = \"127.0.0.1:{port}\"\n[peer]\nlisten = \"127.0.0.1:{}\"\n{more}", port + 100);
    std::fs::write(directory.join("skerry.toml"), text).unwrap();
}

/// Adds ports to a configuration that `join` wrote.
fn listen(directory: &Path, port: u16) {
    let file = directory.join("skerry.toml");
    let written = std::fs::read_to_string(&file).unwrap();
    let (before, peer) = written.split_once("[peer]\n").unwrap();
    let peer = format!("[peer]\nlisten = \"127.0.0.1:{}\"\n{peer}", port + 100);
    std::fs::write(&file, format!("{before}{peer}[s3]\nlisten = \"127.0.0.1:{port}\"\n")).unwrap();
}

fn ask(directory: &Path, arguments: &[&str]) -> Value {
    json(&[arguments, &["--json", "--dir", directory.to_str().unwrap()]].concat(), 0)
}

pub(crate) fn init(directory: &Path, root: &Path, more: &[&str]) -> (i32, String, String) {
    let line =
        ["init", "--name", "lisbon", "--dir", directory.to_str().unwrap(), "--root", root.to_str().unwrap()];
    told(&run(&[&line, more].concat()))
}

#[test]
fn two_boxes_become_a_federation() {
    let directory = tempfile::tempdir().unwrap();
    let (lisbon, porto, root) =
        (directory.path().join("lisbon"), directory.path().join("porto"), directory.path().join("root"));
    let port = free_port();
    configure(&lisbon, port, "");
    let (code, _, err) = init(&lisbon, &root, &[]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(init(&lisbon, &root, &[]).0, 5, "a site is never overwritten");

    let first = Box::start(&lisbon);
    let key = ask(&lisbon, &["key", "create", "backup"]);
    assert!(key["secret"].as_str().is_some_and(|secret| secret.len() == 40), "{key}");
    let dir = lisbon.to_str().unwrap();
    let (code, out, err) = told(&run(&["bucket", "create", "photos", "--copies", "99", "--dir", dir]));
    assert!(code == 2 && err.contains("1 to 16, not 99"), "{out}{err}");
    // It was not made half: the same name is free still.
    assert_eq!(ask(&lisbon, &["bucket", "create", "photos"])["name"], "photos");
    assert_eq!(ask(&lisbon, &["bucket", "create", "safe", "--copies", "2"])["copies"], 2);
    assert_eq!(ask(&lisbon, &["status"])["sites"][0]["status"]["single_copy_buckets"], 1);
    let (_, _, notes) = told(&run(&["status", "--dir", dir]));
    assert!(
        notes.contains("1 bucket with copies = 1") && notes.contains("not counted in AT RISK"),
        "{notes}"
    );
    let token = ask(&lisbon, &["invite", "porto"])["token"].as_str().unwrap().to_owned();
    let place = ["--dir", porto.to_str().unwrap(), "--advertise", "porto.example:7700"];
    let join = |token: &str| told(&run(&[&["join", token], &place[..]].concat()));
    assert_eq!(join("skerry1.nonsense").0, 2, "a damaged token");
    let (code, out, err) = join(&token);
    assert!(code == 0 && out.contains("skerry server"), "{out}{err}");
    assert_eq!(join(&token).0, 5, "the directory holds a site");

    listen(&porto, port + 1);
    let second = Box::start(&porto);
    // It knows at its start only what is written in its directory.
    let said = ask(&porto, &["site", "show", "porto"]);
    assert_eq!(said["addresses"], serde_json::json!(["porto.example:7700"]), "{said}");
    wait_for("the bucket and the key at porto", || {
        let buckets = ask(&porto, &["bucket", "list"]).to_string();
        let keys = ask(&porto, &["key", "list"]).to_string();
        (buckets.contains("photos") && keys.contains(key["id"].as_str()?)).then_some(())
    });
    let set = ask(&lisbon, &["bucket", "set", "photos", "--versioning", "enabled", "--copies", "1"]);
    assert_eq!((&set["versioning"], &set["copies"]), (&"enabled".into(), &1.into()));
    let disabled = ask(&lisbon, &["key", "disable", key["id"].as_str().unwrap(), "--yes"]);
    assert_eq!(disabled["enabled"], false);
    wait_for("porto to hear of it", || {
        let keys = ask(&porto, &["key", "list"]);
        let found = keys["keys"].as_array()?.iter().find(|row| row["id"] == key["id"])?.clone();
        (found["enabled"] == false).then_some(())
    });
    first.stop();
    assert_eq!(ask(&porto, &["bucket", "info", "photos"])["versioning"], "enabled", "alone");
    second.stop();
}

#[test]
fn an_endpoint_with_a_certificate_of_the_own_authority() {
    let directory = tempfile::tempdir().unwrap();
    let (site, root) = (directory.path().join("site"), directory.path().join("root"));
    let port = free_port();
    let (code, _, err) = init(&site, &root, &["--tls", "box.example", "--advertise", "box.example:7700"]);
    assert_eq!(code, 0, "{err}");
    assert!(!err.contains("Nobody can be invited"), "{err}");
    let written = std::fs::read_to_string(site.join("skerry.toml")).unwrap();
    assert!(written.contains("advertise = [\"box.example:7700\"]"), "{written}");
    let tls = written.split_once("[tls]").unwrap().1;
    configure(&site, port, &format!("[tls]{tls}"));
    let server = Box::start(&site);
    assert_eq!(ask(&site, &["status"])["sites"][0]["endpoint"], format!("https://127.0.0.1:{port}"));

    let token = std::fs::read_to_string(site.join("admin.token")).unwrap();
    let (ca, endpoint) = (site.join("tls/ca.pem"), format!("https://localhost:{port}"));
    let far = |token: &str, more: &[&str]| {
        let line = [&["bucket", "list", "--endpoint", &endpoint][..], more].concat();
        told(&skerry(&line).env("SKERRY_TOKEN", token).output().unwrap())
    };
    let ca = ["--ca", ca.to_str().unwrap()];
    assert_eq!(far(token.trim(), &ca).0, 0, "with the authority and the token");
    assert_eq!(far(token.trim(), &[]).0, 2, "without the authority");
    assert_eq!(far("wrong", &ca).0, 5, "with a wrong token");
    server.stop();
}

/// A site by its own directory: what is lost with a full disk, how it is called after a rename, and how it ends.
#[test]
fn a_box_that_was_renamed_and_is_in_a_hurry_to_end() {
    let directory = tempfile::tempdir().unwrap();
    let (site, root) = (directory.path().join("site"), directory.path().join("root"));
    let port = free_port();
    configure(&site, port, "[limits]\ndrain = \"3600s\"\nheader_timeout = \"3600s\"\n");
    assert_eq!(init(&site, &root, &[]).0, 0);
    let dir = site.to_str().unwrap();
    let mut shell = Command::new("sh");
    let line = "ulimit -Sn 128; exec \"$0\" server \"$1\"";
    shell.args(["-c", line, env!("CARGO_BIN_EXE_skerry"), dir]).stdin(Stdio::null());
    let mut server = Box::started(shell, &site);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.process.id())).unwrap();
    let files: Vec<&str> =
        limits.lines().find(|line| line.starts_with("Max open files")).unwrap().split_whitespace().collect();
    assert_eq!(files[3], files[4], "{limits}");

    // A secret that is shown once, on a full disk.
    let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
    for (line, hint) in
        [(&["key", "create"][..], "skerry key disable SK"), (&["invite", "porto"], "say the same again")]
    {
        for more in [&[][..], &["--json"]] {
            let line = [line, &["--dir", dir], more].concat();
            let (code, _, err) = told(&skerry(&line).stdout(full()).output().unwrap());
            assert!(code == 1 && err.contains(hint), "{line:?}: {code}: {err}");
        }
    }
    assert_eq!(ask(&site, &["invite", "porto"])["took_back"], true);
    assert_eq!(ask(&site, &["invite", "braga"])["took_back"], false);

    ask(&site, &["site", "rename", "lisbon", "lisboa"]);
    for named in ["lisboa", "lisbon"] {
        let (code, _, err) = told(&run(&["link", "budget", named, "--dir", dir]));
        let (status, ..) = told(&run(&["status", "--site", named, "--dir", dir]));
        match named {
            "lisboa" => assert_eq!((code, status), (0, 0), "{err}"),
            _ => {
                assert_eq!((code, status), (0, 0), "{err}: the name that it was made with is its directory's")
            }
        }
    }
    let (code, _, err) = told(&run(&["link", "budget", "porto", "--dir", dir]));
    assert!(code == 5 && err.contains("has no site porto; there is lisboa"), "{code}: {err}");

    // A request that does not end holds a stop up, and the same signal once more ends that.
    let mut client = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    std::io::Write::write_all(&mut client, b"PUT /photos/k HTTP/1.1\r\nHost: x\r\nContent-Le").unwrap();
    signal(server.process.id(), "INT");
    signal(server.process.id(), "TERM");
    let is_closed = || std::net::TcpStream::connect(("127.0.0.1", port)).is_err().then_some(());
    wait_for("the port to be closed", is_closed);
    assert_eq!(
        server.process.try_wait().unwrap(),
        None,
        "Ctrl-C and SIGTERM are once: a demo's sites hear both"
    );
    signal(server.process.id(), "INT");
    let ended = wait_for("the server to end", || server.process.try_wait().unwrap());
    assert_eq!(ended.code(), Some(1), "requests were cut off");
}
