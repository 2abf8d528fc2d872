//! `warikomi receive --application`: programs of a user's own above a driver, good ones and bad ones. Whatever they do,
//! it is said, and nothing of them is left.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// Long enough for any machine; nothing is measured with it.
const PATIENCE: Duration = Duration::from_secs(60);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A program that is made from a source in C with these definitions.
fn compiled(directory: &TempDir, source: &str, definitions: &[&str]) -> PathBuf {
    let program = directory.path().join("application");
    let output = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O2", "-I"])
        .arg(root().join("include"))
        .args(definitions)
        .arg("-o")
        .arg(&program)
        .arg(root().join(source))
        .output()
        .expect("cc is installed by scripts/setup test");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

/// One that does what it must not.
fn bad(directory: &TempDir, way: &str) -> PathBuf {
    compiled(directory, "crates/cli/tests/bad_application.c", &["-D", &format!("WAY={way}")])
}

fn command(program: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warikomi"));
    command
        .args(["receive", "--target", "process", "--polls", "100", "--buffers", "1MB"])
        .args(["--json", "--application"])
        .arg(program)
        .args(more)
        .stdin(Stdio::null())
        .current_dir(program.parent().unwrap());
    command
}

fn run(program: &Path, more: &[&str]) -> Output {
    command(program, more).args(["--duration", "200ms"]).output().unwrap()
}

/// Processes that run this program.
fn running(program: &Path) -> Vec<PathBuf> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let runs =
        |process: &PathBuf| std::fs::read_link(process.join("exe")).is_ok_and(|of| of == program);
    processes.map(|process| process.path()).filter(runs).collect()
}

/// What was said about a run that must fail, which leaves nothing of the program behind.
fn failed(program: &Path, output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{text}");
    assert_eq!(running(program), Vec::<PathBuf>::new(), "{text}");
    text
}

fn result(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
}

#[test]
fn it_receives_by_itself_and_says_what_the_driver_accepted() {
    let directory = tempfile::tempdir().unwrap();
    let program = compiled(&directory, "examples/c/vi_application.c", &[]);
    for more in [
        &["--bursts", "3KB,20KB"][..],
        &["--polls", "50,140", "--whole-messages", "--bursts", "1KB,60KB", "--driver", "oc48"],
        &["--strategies", "interrupt,hybrid"],
    ] {
        let output = run(&program, more);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{more:?}: {said}");
        assert_eq!(running(&program), Vec::<PathBuf>::new());
        let result = result(&output);
        let rows = result["rows"].as_array().unwrap();
        assert!(rows.len() >= 2, "{result}");
        for row in rows {
            let count = |key: &str| row[key].as_u64().unwrap_or_else(|| panic!("{key}: {row}"));
            // Those of the warm-up are among what it says.
            assert!(count("application_messages") > count("delivered"), "{row}");
            assert!(count("application_bytes") > 0, "{row}");
            assert!(row.get("application_differs").is_none(), "{row}");
            let cpu = row["cpu_share"].as_f64().unwrap();
            assert!(cpu > 0.0 && cpu < 1.0, "{row}");
        }
    }
}

#[test]
fn a_second_process_of_its_own_computes_on_what_it_received() {
    let directory = tempfile::tempdir().unwrap();
    let program = compiled(&directory, "examples/c/vi_compute.c", &[]);
    let output = run(&program, &["--own-compute", "--polls", "1000", "--loads", "0.05,0.5"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(running(&program), Vec::<PathBuf>::new());
    let result = result(&output);
    for row in result["rows"].as_array().unwrap() {
        let cpu = row["cpu_share"].as_f64().unwrap();
        assert!(cpu > 0.0 && cpu < 1.0, "{row}");
        assert!(row.get("application_differs").is_none(), "{row}");
    }
    let program = compiled(&directory, "examples/c/vi_application.c", &[]);
    let said = failed(&program, &run(&program, &["--own-compute"]));
    assert!(said.contains("this one has started none"), "{said}");
}

#[test]
fn one_that_lies_about_what_it_received_has_figures_and_fails() {
    let directory = tempfile::tempdir().unwrap();
    let program = bad(&directory, "LIES");
    let output = run(&program, &["--bursts", "3KB"]);
    let said = failed(&program, &output);
    assert!(said.contains("the application says that it has received"), "{said}");
    let row = &result(&output)["rows"][0];
    let differs = row["application_differs"].as_str().unwrap();
    assert!(differs.contains("the driver has accepted"), "{row}");
    assert!(row["lost_share"].is_number() && row["cpu_share"].is_number(), "{row}");
}

/// So few, and so much that comes, that the driver looks at the ring of posted buffers again and again.
const FEW_BUFFERS: [&str; 6] = ["--bursts", "50KB", "--buffers", "500KB", "--loads", "0.5"];

#[test]
fn one_that_ends_crashes_or_writes_nonsense_is_named() {
    for (way, expected) in [
        ("CRASHES", &["the application process ended (signal: 6"][..]),
        ("ENDS", &["the application process ended (exit status: 3)"]),
        // It receives no more either, and a driver that needs no buffer any more does not look at the ring.
        ("CORRUPTS", &["ring", "has received nothing more since"]),
        ("CLOSES", &["closed its socket while it was needed"]),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let program = bad(&directory, way);
        let said = failed(&program, &run(&program, &FEW_BUFFERS));
        assert!(expected.iter().any(|words| said.contains(words)), "{way}: {said}");
    }
}

#[test]
fn one_that_hangs_or_never_gets_ready_is_waited_for_and_told_what_it_has_not_done() {
    for (way, expected) in [
        ("HANGS", "messages that the driver has accepted"),
        ("NEVER_ATTACHES", "it has not attached: wk_vi_connect()"),
        ("NEVER_POSTS", "posts no buffer to receive into"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let program = bad(&directory, way);
        let said = failed(&program, &run(&program, &["--bursts", "3KB"]));
        assert!(said.contains(expected), "{way}: {said}");
    }
}

#[test]
fn one_that_does_not_end_is_ended_and_its_children_too() {
    let directory = tempfile::tempdir().unwrap();
    let program = bad(&directory, "STAYS");
    let output = run(&program, &["--bursts", "3KB"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(running(&program), Vec::<PathBuf>::new());
}

#[test]
fn nothing_is_left_when_the_user_stops_it() {
    let directory = tempfile::tempdir().unwrap();
    let program = bad(&directory, "STAYS");
    let mut command = command(&program, &["--bursts", "3KB", "--duration", "60s"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    while running(&program).is_empty() {
        assert!(begun.elapsed() < PATIENCE, "it is not started");
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(300));
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    end_of(&mut child);
    assert_eq!(running(&program), Vec::<PathBuf>::new());
}

fn end_of(child: &mut Child) {
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(begun.elapsed() < PATIENCE, "it does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_cannot_be_is_refused_with_what_can() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("missing");
    for (more, expected) in [
        (&["--virtual"][..], "leave --virtual out"),
        (&["--path", "stack"], "leave --path out"),
        (&[], "cannot start the application program"),
    ] {
        let said = failed(&program, &run(&program, more));
        assert!(said.contains(expected), "{more:?}: {said}");
    }
    let mut kernel = Command::new(env!("CARGO_BIN_EXE_warikomi"));
    let output = kernel.args(["receive", "--application"]).arg(&program).output().unwrap();
    let said = failed(&program, &output);
    assert!(said.contains("--application") && said.contains("--target process"), "{said}");
}
