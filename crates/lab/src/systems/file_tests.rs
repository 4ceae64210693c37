//! What a system file may say, and at which line it is refused.
#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;

const HEAD: &str = r#"version = 1
name = "toy"
kind = "s3"
endpoint = "http://{address}:9000"
[durability]
acknowledged = "node"
copies = 1
synced = true
[programs]
toy = ["{env:TOY|toy}"]
[settings]
colour = "red"
"#;

fn read(more: &str) -> Result<SystemFile, Refusal> {
    SystemFile::parse(Path::new("toy.toml"), &format!("{HEAD}{more}"), &|_| None)
}

fn refused(more: &str) -> (usize, String) {
    let refusal = read(more).unwrap_err();
    assert_eq!(refusal.path, "toy.toml");
    // Lines are told from the first one below the head.
    (refusal.line - HEAD.lines().count(), refusal.reason)
}

#[test]
fn a_whole_file_is_read() {
    let file = read(
        "[[step]]\nrun = [\"{toy}\", \"token\"]\ncapture = \"token\"\n[[step]]\nstart = \"server\"\n\
         run = [\"{toy}\", \"{token}\", \"{each}{address}\", \"{colour}\"]\n[[step]]\nready = { tcp = \"{address}:9000\" }\n",
    )
    .unwrap();
    assert_eq!((file.name.as_str(), file.kind, file.steps.len()), ("toy", Kind::S3, 3));
    assert_eq!(file.title, "toy");
}

#[test]
fn an_unknown_placeholder_is_named_with_its_line() {
    let (line, reason) = refused("[[step]]\nrun = [\n  \"{toy}\",\n  \"{adress}\",\n]\n");
    assert_eq!((line, reason.as_str()), (4, "nothing is called {adress}"));
}

#[test]
fn a_placeholder_inside_a_written_text_has_the_line_of_the_text() {
    let (line, reason) = refused(
        "[[step]]\nwrite = \"{data}/conf\"\ntext = '''\nfirst\n{each}second {address}\nthird {wrong}\n'''\n",
    );
    assert_eq!((line, reason.as_str()), (6, "nothing is called {wrong}"));
}

#[test]
fn an_unknown_field_is_refused() {
    let (line, reason) = refused("[[step]]\nran = [\"{toy}\"]\n");
    assert_eq!(line, 2, "{reason}");
    assert!(reason.contains("ran"), "{reason}");
}

#[test]
fn a_step_does_one_thing() {
    for step in [
        "say = \"nothing\"\n",
        "start = \"server\"\n",
        "run = [\"{toy}\"]\nwrite = \"x\"\ntext = \"\"\n",
        "write = \"x\"\n",
        "ready = {}\n",
        "ready = { tcp = \"a:1\", http = \"http://a\" }\n",
        "start = \"server\"\nrun = [\"{toy}\"]\ncapture = \"x\"\n",
        "run = [\"{toy}\"]\ncapture_json = \"/x\"\n",
    ] {
        let (line, reason) = refused(&format!("# before\n[[step]]\n{step}"));
        assert_eq!(line, 2, "{step}: {reason}");
    }
}

#[test]
fn a_variable_that_is_not_set_is_named_with_its_line() {
    let (line, reason) = refused("[environment]\nTOKEN = \"{env:SECRET}\"\n");
    assert_eq!(line, 2);
    assert!(reason.contains("SECRET is not set"), "{reason}");
}

#[test]
fn another_version_is_refused() {
    let text = HEAD.replace("version = 1", "\nversion = 2");
    let refusal = SystemFile::parse(Path::new("toy.toml"), &text, &|_| None).unwrap_err();
    assert_eq!(refusal.to_string(), "toy.toml:2: this release reads version 1");
}

#[test]
fn settings_are_changed_by_name_only() {
    let colour = |name: &str| BTreeMap::from([(name.to_owned(), "blue".to_owned())]);
    let file = read("").unwrap();
    assert_eq!(file.clone().with(&colour("colour")).unwrap().settings["colour"], "blue");
    let refusal = file.with(&colour("color")).unwrap_err();
    assert!(refusal.reason.contains("there are: colour"), "{}", refusal.reason);
}

#[test]
fn all_files_of_the_project_are_read() {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("systems");
    let mut seen = 0;
    for entry in std::fs::read_dir(place).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            let file = SystemFile::load(&path).unwrap();
            assert_eq!(path.file_stem().unwrap().to_str(), Some(file.name.as_str()));
            seen += 1;
        }
    }
    assert!(seen > 0);
}
