//! Files, directories and sockets of this user alone.
//!
//! In a directory where everyone may write, as `/tmp` is, what has the right name may be of another user: a link to a
//! file of ours, a directory in which files are exchanged under our hands, a pipe that never ends. What is opened
//! here is no link, is what it should be, and belongs to this user or to root.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Error, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::Path;

use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, getsockopt, listen, socket, sockopt,
};
use nix::sys::stat::{Mode, fchmod};
use nix::unistd::geteuid;
use rustix::fs::OFlags;
use rustix::io::Errno;

/// A mode in which every user may write.
const WRITABLE_BY_ALL: u32 = 0o002;
/// A mode in which a file is renamed and removed by its owner alone.
const STICKY: u32 = 0o1000;

/// Opens a regular file of this user, and no link to one.
///
/// The options must not cut the file short: what is wrong with it is found when it is open.
pub fn open_own(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    // A pipe would keep us waiting for its other end.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = options.custom_flags(flags.bits() as i32).open(path).map_err(|error| {
        let is_link = error.raw_os_error() == Some(Errno::LOOP.raw_os_error());
        if is_link { Error::other("it is a symbolic link") } else { error }
    })?;
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(Error::other("it is no regular file"));
    }
    check_owner(&about)?;
    Ok(file)
}

/// Checks that a directory was made by this user or root, and that others can exchange nothing in it.
pub fn check_directory(path: &Path) -> io::Result<()> {
    // Who made a link can let it lead elsewhere.
    check_owner(&fs::symlink_metadata(path)?)?;
    let about = fs::metadata(path)?;
    if !about.is_dir() {
        return Err(Error::other("it is no directory"));
    }
    check_owner(&about)?;
    if about.mode() & (WRITABLE_BY_ALL | STICKY) == WRITABLE_BY_ALL {
        return Err(Error::other("every user may write in it"));
    }
    Ok(())
}

/// Whether every user may write in this directory.
pub fn is_open_to_all(directory: &Path) -> bool {
    fs::metadata(directory).is_ok_and(|about| about.mode() & WRITABLE_BY_ALL != 0)
}

/// A text, of which no more than this is read; more is an error.
pub fn read_text(file: File, most_bytes: u64) -> io::Result<String> {
    let mut text = String::new();
    file.take(most_bytes.saturating_add(1)).read_to_string(&mut text)?;
    if text.len() as u64 > most_bytes {
        return Err(Error::other(format!("it has more than {most_bytes} bytes")));
    }
    Ok(text)
}

/// Listens at a file that only this user may open. Accepting does not wait.
pub fn listen_at(path: &Path) -> io::Result<UnixListener> {
    let socket = socket_at(path, SockType::Stream)?;
    listen(&socket, Backlog::MAXCONN)?;
    Ok(socket.into())
}

/// A socket for datagrams at a file that only this user may open. Neither sending nor receiving waits.
pub fn datagram_at(path: &Path) -> io::Result<UnixDatagram> {
    socket_at(path, SockType::Datagram).map(UnixDatagram::from)
}

/// A socket whose file only this user may open, not even for a moment anyone else: on Linux the file gets the mode
/// that the socket had before.
fn socket_at(path: &Path, kind: SockType) -> io::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(AddressFamily::Unix, kind, flags, None)?;
    fchmod(&socket, Mode::S_IRUSR | Mode::S_IWUSR)?;
    bind(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
    Ok(socket)
}

/// Whether the process at the other end is of this user, or root's.
pub fn is_peer_trusted(stream: &UnixStream) -> bool {
    getsockopt(stream, sockopt::PeerCredentials).is_ok_and(|peer| is_trusted(peer.uid()))
}

fn check_owner(about: &Metadata) -> io::Result<()> {
    match about.uid() {
        owner if is_trusted(owner) => Ok(()),
        owner => Err(Error::other(format!("it belongs to another user, number {owner}"))),
    }
}

fn is_trusted(user: u32) -> bool {
    user == 0 || user == geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::{FdFlags, fcntl_getfd};
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    /// A user that is neither root nor this one.
    fn another() -> u32 {
        geteuid().as_raw() + 1
    }

    fn read_options() -> OpenOptions {
        File::options().read(true).clone()
    }

    /// What is wrong with a file, if anything is.
    fn wrong(path: &Path) -> Option<String> {
        open_own(path, &mut read_options()).err().map(|error| error.to_string())
    }

    #[test]
    fn only_this_user_and_root_are_trusted() {
        assert!(is_trusted(0) && is_trusted(geteuid().as_raw()) && !is_trusted(another()));
    }

    #[test]
    #[cfg_attr(miri, ignore = "there is no mkfifo under Miri")]
    fn links_pipes_and_directories_are_no_files_of_ours() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name| directory.path().join(name);
        fs::write(path("file"), "precious").unwrap();
        symlink(path("file"), path("link")).unwrap();
        nix::unistd::mkfifo(&path("pipe"), Mode::S_IRWXU).unwrap();
        assert_eq!(wrong(&path("file")), None);
        assert_eq!(wrong(&path("link")).unwrap(), "it is a symbolic link");
        assert_eq!(wrong(&path("pipe")).unwrap(), "it is no regular file");
        assert_eq!(wrong(directory.path()).unwrap(), "it is no regular file");
        assert!(open_own(&path("link"), read_options().append(true)).is_err());
        symlink(path("nowhere"), path("broken")).unwrap();
        assert!(open_own(&path("broken"), read_options().append(true).create(true)).is_err());
        assert!(!path("nowhere").exists());
    }

    #[test]
    fn what_another_user_has_made_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name| directory.path().join(name);
        fs::create_dir(path("theirs")).unwrap();
        fs::write(path("file"), "").unwrap();
        symlink(directory.path(), path("link")).unwrap();
        check_directory(&path("theirs")).unwrap();
        check_directory(&path("link")).unwrap();
        check_directory(Path::new("/tmp")).unwrap();
        fs::set_permissions(path("theirs"), PermissionsExt::from_mode(0o777)).unwrap();
        assert!(check_directory(&path("theirs")).unwrap_err().to_string().contains("may write"));
        assert!(is_open_to_all(&path("theirs")) && !is_open_to_all(directory.path()));
        assert!(check_directory(&path("file")).is_err());
        // Only root can give a file away.
        if !geteuid().is_root() {
            return;
        }
        let given = |name| chown(path(name), Some(another()), None).unwrap();
        fs::set_permissions(path("theirs"), PermissionsExt::from_mode(0o700)).unwrap();
        given("theirs");
        given("file");
        std::os::unix::fs::lchown(path("link"), Some(another()), None).unwrap();
        for name in ["theirs", "link"] {
            let refused = check_directory(&path(name)).unwrap_err().to_string();
            assert!(refused.contains("another user"), "{name}: {refused}");
        }
        assert!(wrong(&path("file")).unwrap().contains("another user"));
    }

    #[test]
    fn a_text_has_an_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("text");
        fs::write(&path, "12345678").unwrap();
        let text = |most| read_text(File::open(&path).unwrap(), most);
        assert_eq!(text(8).unwrap(), "12345678");
        assert_eq!(text(7).unwrap_err().to_string(), "it has more than 7 bytes");
        assert!(read_text(File::open("/dev/zero").unwrap(), 1 << 16).is_err());
    }

    #[test]
    #[cfg_attr(miri, ignore = "there are no Unix sockets under Miri")]
    fn a_socket_is_for_this_user_and_so_are_its_peers() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let listener = listen_at(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(listen_at(&path).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        assert!(rustix::fs::fcntl_getfl(&listener).unwrap().contains(OFlags::NONBLOCK));
        assert!(fcntl_getfd(&listener).unwrap().contains(FdFlags::CLOEXEC));
        let near = UnixStream::connect(&path).unwrap();
        let (far, _) = listener.accept().unwrap();
        assert!(is_peer_trusted(&near) && is_peer_trusted(&far));
        // Only root can be another user.
        if !geteuid().is_root() {
            return;
        }
        fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let as_another = || {
            let path = path.clone();
            std::thread::spawn(move || {
                // Of this thread alone; it ends with it.
                let user = rustix::process::Uid::from_raw(another());
                rustix::thread::set_thread_res_uid(user, user, user).unwrap();
                UnixStream::connect(path)
            })
        };
        let refused = as_another().join().unwrap().unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        fs::set_permissions(&path, PermissionsExt::from_mode(0o666)).unwrap();
        let _theirs = as_another().join().unwrap().unwrap();
        let (stranger, _) = listener.accept().unwrap();
        assert!(!is_peer_trusted(&stranger));
    }
}
