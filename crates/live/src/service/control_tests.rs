use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

fn at(ms: u64) -> Time {
    Time::ZERO + Span::from_ms(ms)
}

struct Place {
    _directory: tempfile::TempDir,
    path: PathBuf,
    control: Control,
}

fn place() -> Place {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("below/control");
    let control = Control::bind(&path).unwrap();
    Place { _directory: directory, path, control }
}

impl Place {
    fn connect(&self) -> UnixStream {
        UnixStream::connect(&self.path).unwrap()
    }

    /// Looks as often as it may take, and answers everything with what was asked.
    fn serve(&mut self, now: Time) -> Vec<Result<Request, String>> {
        let mut all = Vec::new();
        for _ in 0..100 {
            for (client, asked) in self.control.look(now) {
                let answer = match &asked {
                    Ok(request) => Answer::done(&format!("{request:?}")),
                    Err(why) => Answer::refused(why),
                };
                self.control.answer(client, &answer, now);
                all.push(asked);
            }
        }
        all
    }
}

fn lines(stream: UnixStream) -> Vec<String> {
    BufReader::new(stream).lines().map_while(Result::ok).collect()
}

#[test]
fn requests_are_answered_in_order_and_a_client_that_has_asked_is_let_go() {
    let mut place = place();
    let mut client = place.connect();
    client.write_all(b"{\"cmd\":\"status\"}\n{\"cmd\":\"me").unwrap();
    assert_eq!(place.serve(at(0)), [Ok(Request::Status {})]);
    client.write_all(b"trics\"}\nnonsense\n").unwrap();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    let asked = place.serve(at(1));
    assert_eq!(asked[0], Ok(Request::Metrics {}));
    assert!(asked[1].is_err() && asked.len() == 2);
    let answers = lines(client);
    assert_eq!(answers.len(), 3);
    assert!(answers[0].contains("Status") && answers[2].contains("\"ok\":false"), "{answers:?}");
    assert!(place.control.clients.is_empty());
}

#[test]
fn the_next_request_waits_for_the_answer_to_the_last() {
    let mut place = place();
    let mut client = place.connect();
    client.write_all(b"{\"cmd\":\"rollback\"}\n{\"cmd\":\"status\"}\n").unwrap();
    let (id, asked) = place.control.look(at(0)).remove(0);
    assert_eq!(asked, Ok(Request::Rollback {}));
    // However long that takes.
    assert!(place.control.look(at(100_000)).is_empty());
    place.control.answer(id, &Answer::done(&()), at(100_000));
    assert_eq!(place.control.look(at(100_001)).remove(0).1, Ok(Request::Status {}));
}

#[test]
fn a_line_without_an_end_is_refused_and_costs_bounded_memory() {
    let mut place = place();
    let mut client = place.connect();
    client.set_nonblocking(true).unwrap();
    let mut refused = Vec::new();
    for _ in 0..1_000 {
        // It goes on until we hang up.
        let _ = client.write(&[b'x'; 4_096]);
        refused.extend(place.serve(at(0)));
        let held = place.control.clients.iter().map(|client| client.input.len()).sum::<usize>();
        assert!(held <= MOST_REQUEST_BYTES + PIECE_BYTES);
    }
    assert_eq!(refused.len(), 1);
    assert!(refused[0].as_ref().unwrap_err().contains("8192 bytes"));
    assert!(place.control.clients.is_empty());
    let mut half = place.connect();
    half.write_all(b"{\"cmd\":").unwrap();
    half.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(place.serve(at(0))[0].as_ref().unwrap_err().contains("no end"));
}

#[test]
fn clients_that_hang_are_hung_up_on_and_one_too_many_is_told() {
    let mut place = place();
    let hanging: Vec<_> = (0..MOST_CLIENTS).map(|_| place.connect()).collect();
    assert!(place.serve(at(0)).is_empty());
    let one_more = place.connect();
    place.serve(at(1));
    assert!(lines(one_more)[0].contains("try again later"));
    assert_eq!(place.control.clients.len(), MOST_CLIENTS);
    place.serve(at(30_001));
    assert!(place.control.clients.is_empty());
    drop(hanging);
    let mut client = place.connect();
    client.write_all(b"{\"cmd\":\"status\"}\n").unwrap();
    assert_eq!(place.serve(at(30_002)).len(), 1);
}

#[test]
fn a_request_that_drips_has_one_time_and_one_that_is_answered_has_another() {
    let mut place = place();
    let mut client = place.connect();
    for (number, byte) in b"{\"cmd\":\"status\"}\n".iter().enumerate() {
        client.write_all(&[*byte]).unwrap();
        // Whole after 17 s.
        assert_eq!(place.serve(at(1_000 * number as u64)).len(), usize::from(*byte == b'\n'));
    }
    for seconds in 17..60 {
        // A byte each second, and no end.
        let _ = client.write(b"x");
        assert!(place.serve(at(1_000 * seconds)).is_empty());
        assert_eq!(place.control.clients.len(), usize::from(seconds <= 47), "{seconds}");
    }
}

#[test]
fn a_client_that_never_reads_costs_bounded_memory() {
    let mut place = place();
    let mut client = place.connect();
    client.set_nonblocking(true).unwrap();
    let long = Answer::done(&"x".repeat(20_000));
    for _ in 0..200 {
        let _ = client.write(b"{\"cmd\":\"metrics\"}\n");
        for (id, _) in place.control.look(at(0)) {
            place.control.answer(id, &long, at(0));
        }
        let held = place.control.clients.iter().map(|client| client.output.len()).sum::<usize>();
        assert!(held <= MOST_UNREAD_BYTES + 21_000);
    }
    assert!(place.control.clients.is_empty());
}

#[test]
fn the_socket_is_for_this_user_alone_and_goes_with_the_service() {
    let place = place();
    let mode = std::fs::metadata(&place.path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let above = std::fs::metadata(place.path.parent().unwrap()).unwrap().permissions().mode();
    assert_eq!(above & 0o777, 0o700);
    let again = Control::bind(&place.path).unwrap_err();
    assert!(again.to_string().contains("live stop"), "{again}");
    let path = place.path.clone();
    drop(place.control);
    assert!(!path.exists());
}

#[test]
fn a_lock_that_is_a_link_and_a_directory_of_everyone_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let precious = directory.path().join("precious");
    symlink(&precious, directory.path().join("control.lock")).unwrap();
    let path = directory.path().join("control");
    let refused = Control::bind(&path).unwrap_err().to_string();
    assert!(refused.contains("control.lock") && refused.contains("symbolic link"), "{refused}");
    assert!(!precious.exists() && !path.exists());
    let open = directory.path().join("open");
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, PermissionsExt::from_mode(0o777)).unwrap();
    let refused = Control::bind(&open.join("control")).unwrap_err().to_string();
    assert!(refused.contains("every user may write"), "{refused}");
}

#[test]
fn a_dead_services_socket_is_taken_over_and_another_file_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("control");
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let control = Control::bind(&path).unwrap();
    assert!(UnixStream::connect(&path).is_ok());
    drop(control);
    std::fs::write(&path, "precious").unwrap();
    let refused = Control::bind(&path).unwrap_err();
    assert!(refused.to_string().contains("no socket"), "{refused}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
}
