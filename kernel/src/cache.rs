//! Where kernels are kept.
//!
//! ```text
//! $XDG_CACHE_HOME/warikomi/
//!   kernels/<version>-<hash>/  linux modules/ initramfs config build.log image.json
//!   sources/                   unpacked packages
//!   builds/                    object files of developers' trees, so that little is rebuilt
//!   shadows/                   symbolic links to developers' trees that were built in place
//!   selftests/                 tests of unpacked packages, compiled
//!   logs/                      of builds that run or failed
//!   locks/
//! ```

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::fcntl::OFlag;

use crate::bridge;
use crate::config::DriverMode;
use crate::error::{FileContext, KernelError, Result};
use crate::image::{Image, ImageInfo};
use crate::make::Cancel;
use crate::staging::Staging;

/// The user's cache of kernels.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
}

impl Cache {
    /// `$XDG_CACHE_HOME/warikomi`, or `~/.cache/warikomi`.
    pub fn of_this_user() -> Result<Self> {
        let absolute = |name: &str| {
            std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
        };
        let base = absolute("XDG_CACHE_HOME")
            .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
            .ok_or(KernelError::NoCacheDirectory)?;
        Self::at(base.join("warikomi"))
    }

    /// A cache in a directory, which is made if it is not there.
    pub fn at(root: impl Into<PathBuf>) -> Result<Self> {
        let root = root.into();
        for part in ["kernels", "sources", "builds", "shadows", "selftests", "logs", "locks"] {
            let path = root.join(part);
            fs::create_dir_all(&path).at("make the directory", &path)?;
        }
        // kbuild wants paths that stay the same wherever make goes.
        let root = fs::canonicalize(&root).at("open", &root)?;
        Ok(Self { root })
    }

    /// Every image, newest version first, and of one version the one made last. One that cannot be read
    /// is left out: a build replaces it.
    pub fn images(&self) -> Result<Vec<Image>> {
        let kernels = self.kernels();
        let mut images = Vec::new();
        for entry in fs::read_dir(&kernels).at("list", &kernels)? {
            let entry = entry.at("list", &kernels)?;
            let hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
            if !hidden && let Ok(image) = Image::open(&entry.path()) {
                images.push(image);
            }
        }
        images.sort_by_key(|image| {
            let numbers: Vec<u32> = image
                .info()
                .version
                .split(|c: char| !c.is_ascii_digit())
                .map(|part| part.parse().unwrap_or(0))
                .collect();
            let info = image.info();
            std::cmp::Reverse((numbers, !info.more_drivers, info.built_at_s))
        });
        Ok(images)
    }

    /// The image to run: the newest that fits, with the agent of this library in its initramfs.
    pub fn find(&self, wanted: &Wanted<'_>) -> Result<Image> {
        let images = self.images()?;
        let modes = match wanted.drivers {
            Some(mode) => vec![mode],
            None => vec![DriverMode::Module, DriverMode::BuiltIn],
        };
        let of_mode = |mode: &DriverMode| {
            images
                .iter()
                .find(|image| image.info().driver_mode == *mode && wanted.fits(image.info()))
        };
        match modes.iter().find_map(of_mode) {
            Some(image) => image.clone().with_current_agent(),
            None => Err(self.no_image(wanted, &images)),
        }
    }

    fn no_image(&self, wanted: &Wanted<'_>, images: &[Image]) -> KernelError {
        let mut what = wanted.version.map_or(String::new(), |version| format!(" of {version}"));
        let mut flags = String::new();
        if wanted.drivers == Some(DriverMode::BuiltIn) {
            what.push_str(" with built-in drivers");
            flags.push_str(" --builtin");
        }
        if wanted.more_drivers {
            what.push_str(" with the drivers of further cards");
            flags.push_str(" --more-drivers");
        }
        if wanted.selftests {
            what.push_str(" for the kernel's own tests");
            flags.push_str(" --selftests");
        }
        if wanted.debug {
            what.push_str(" with debug information");
            flags.push_str(" --debug");
        }
        if wanted.virtual_time {
            what.push_str(" with virtual time");
            flags.push_str(" --virtual");
        }
        if let Some(module) = wanted.own_module {
            what.push_str(&format!(" with a module '{module}' of your own"));
            flags.push_str(" --module DIR");
        }
        if images.iter().any(|image| wanted.is_as_asked(image.info())) {
            what.push_str(" with the PCI bridge of this warikomi");
        }
        KernelError::NoImage { what, flags, cache: self.kernels() }
    }

    pub(crate) fn kernels(&self) -> PathBuf {
        self.root.join("kernels")
    }

    pub(crate) fn sources(&self) -> PathBuf {
        self.root.join("sources")
    }

    pub(crate) fn builds(&self) -> PathBuf {
        self.root.join("builds")
    }

    pub(crate) fn shadows(&self) -> PathBuf {
        self.root.join("shadows")
    }

    pub(crate) fn selftests(&self) -> PathBuf {
        self.root.join("selftests")
    }

    pub(crate) fn log(&self, key: &str) -> PathBuf {
        self.root.join("logs").join(format!("{key}.log"))
    }

    /// Waits until nobody else builds what `key` stands for. Held as long as the file is open.
    pub(crate) fn lock(
        &self,
        key: &str,
        cancel: &Cancel,
        mut on_wait: impl FnMut(),
    ) -> Result<File> {
        let path = self.root.join("locks").join(key);
        let file = lock_file(&path).at("create", &path)?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) => {
                    cancel.check()?;
                    on_wait();
                    std::thread::sleep(Duration::from_millis(200));
                }
                Err(TryLockError::Error(error)) => return Err(error).at("lock", &path),
            }
        }
    }

    /// A new directory beside the images, to be published or thrown away.
    pub(crate) fn staging(&self) -> Result<Staging> {
        Staging::new(&self.kernels())
    }

    /// Gives a finished directory its name. What had the name goes; there is never half of either.
    pub(crate) fn publish(&self, staging: &Path, key: &str) -> Result<Image> {
        use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
        let target = self.kernels().join(key);
        if target.exists() {
            renameat2(AT_FDCWD, staging, AT_FDCWD, &target, RenameFlags::RENAME_EXCHANGE)
                .map_err(std::io::Error::from)
                .at("replace", &target)?;
            fs::remove_dir_all(staging).at("remove", staging)?;
        } else {
            fs::rename(staging, &target).at("rename to", &target)?;
        }
        Image::open(&target)
    }
}

/// A file of this user to be locked; a link to one is refused, and nothing is cut short.
fn lock_file(path: &Path) -> std::io::Result<File> {
    use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
    let mut options = File::options();
    options.write(true).create(true).truncate(false).custom_flags(OFlag::O_NOFOLLOW.bits());
    let file = options.open(path)?;
    if file.metadata()?.uid() != nix::unistd::geteuid().as_raw() {
        return Err(std::io::Error::other("it belongs to another user"));
    }
    Ok(file)
}

/// Which kernel is wanted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted<'a> {
    /// What its version starts with (`6.1` means 6.1.x); any where it is not said.
    pub version: Option<&'a str>,
    /// Where its drivers are; where it is not said, images with modules come first.
    pub drivers: Option<DriverMode>,
    /// One that has the drivers of further cards. Where it is not asked for, one without comes first.
    pub more_drivers: bool,
    /// One that was made for the kernel's own tests. Those are used for nothing else.
    pub selftests: bool,
    /// One that finds its own mistakes, and has debug information.
    pub debug: bool,
    /// One whose time can be virtual.
    pub virtual_time: bool,
    /// A module that was given to the build. Images with such modules are used for these alone.
    pub own_module: Option<&'a str>,
}

impl Wanted<'_> {
    fn fits(&self, info: &ImageInfo) -> bool {
        // A bridge of other sources may speak to another version of us.
        (!info.bridge || info.bridge_hash == bridge::hash()) && self.is_as_asked(info)
    }

    fn is_as_asked(&self, info: &ImageInfo) -> bool {
        let has_module = match self.own_module {
            None => info.own_modules.is_empty(),
            Some(wanted) => info.own_modules.iter().any(|module| module == wanted),
        };
        has_module
            && (info.more_drivers || !self.more_drivers)
            && info.selftests == self.selftests
            && info.debug == self.debug
            && info.virtual_time == self.virtual_time
            && self.version.is_none_or(|wanted| is_version(&info.version, wanted))
    }
}

/// Whether a release is of this version: `6.1` fits 6.1 and 6.1.192, not 6.12.
pub fn is_version(version: &str, wanted: &str) -> bool {
    version.strip_prefix(wanted).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::image::ImageInfo;

    fn info(version: &str, driver_mode: DriverMode) -> ImageInfo {
        ImageInfo {
            release: version.to_owned(),
            version: version.to_owned(),
            source: "test".to_owned(),
            config_hash: "0".to_owned(),
            driver_mode,
            more_drivers: false,
            selftests: false,
            debug: false,
            virtual_time: false,
            own_modules: Vec::new(),
            drivers: BTreeMap::new(),
            bridge: true,
            bridge_hash: bridge::hash(),
            build_seconds: 1.0,
            steps: 1,
            built_at_s: 1,
            agent_hash: String::new(),
        }
    }

    #[test]
    fn a_version_is_not_the_beginning_of_another() {
        assert!(is_version("6.12.1", "6.12") && is_version("6.12", "6.12"));
        assert!(!is_version("6.12.1", "6.1"));
    }

    #[test]
    fn a_lock_is_no_link() {
        let directory = tempfile::tempdir().unwrap();
        let (precious, lock) = (directory.path().join("precious"), directory.path().join("lock"));
        fs::write(&precious, "kept").unwrap();
        std::os::unix::fs::symlink(&precious, &lock).unwrap();
        assert!(lock_file(&lock).is_err());
        assert_eq!(fs::read_to_string(&precious).unwrap(), "kept");
        assert!(lock_file(&precious).is_ok());
        assert_eq!(fs::read_to_string(&precious).unwrap(), "kept", "it is not cut short");
    }

    fn of(version: &str) -> Wanted<'_> {
        Wanted { version: Some(version), ..Wanted::default() }
    }

    fn publish(cache: &Cache, key: &str, info: &ImageInfo) -> Image {
        let staging = cache.staging().unwrap();
        fs::create_dir_all(staging.path().join("modules").join(&info.release)).unwrap();
        Image::describe(staging.path(), info).unwrap();
        cache.publish(staging.path(), key).unwrap()
    }

    #[test]
    fn the_image_that_is_asked_for_is_found_and_gets_the_current_agent() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::at(directory.path()).unwrap();
        let error = cache.find(&of("6.1")).unwrap_err().to_string();
        assert!(error.contains("of 6.1") && error.contains("warikomi kernel build"), "{error}");
        publish(&cache, "a", &info("6.1.192", DriverMode::Module));
        publish(&cache, "b", &info("6.12.3", DriverMode::BuiltIn));
        publish(&cache, "c", &info("6.9.1", DriverMode::Module));
        let found = |version, drivers| {
            cache
                .find(&Wanted { version, drivers, ..Wanted::default() })
                .unwrap()
                .info()
                .version
                .clone()
        };
        assert_eq!(found(None, None), "6.9.1");
        assert_eq!(found(Some("6.1"), None), "6.1.192");
        assert_eq!(found(Some("6.12"), None), "6.12.3");
        assert_eq!(found(None, Some(DriverMode::BuiltIn)), "6.12.3");
        assert!(cache.find(&Wanted { drivers: Some(DriverMode::Module), ..of("6") }).is_ok());
        let later = ImageInfo { built_at_s: 2, ..info("6.9.1", DriverMode::Module) };
        publish(&cache, "0", &later);
        assert_eq!(cache.find(&Wanted::default()).unwrap().info().built_at_s, 2, "made last");
        let image = cache.find(&of("6.1")).unwrap();
        assert!(image.initramfs().is_file());
        assert_eq!(image.info().agent_hash, crate::image::agent_hash());
    }

    /// As after an update: a kernel of before, which would come first, is not taken for one of now.
    #[test]
    fn a_kernel_whose_bridge_is_of_other_sources_is_not_used() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::at(directory.path()).unwrap();
        let ours = info("6.1.192", DriverMode::Module);
        publish(&cache, "a", &ImageInfo { bridge_hash: "0".to_owned(), ..ours.clone() });
        let error = cache.find(&of("6.1")).unwrap_err().to_string();
        assert!(error.contains("of this warikomi") && error.contains("kernel build"), "{error}");
        publish(&cache, "b", &ImageInfo { more_drivers: true, ..ours.clone() });
        assert!(cache.find(&of("6.1")).unwrap().info().more_drivers);
        let without = ImageInfo { bridge: false, bridge_hash: String::new(), ..ours };
        publish(&cache, "c", &without);
        assert!(!cache.find(&of("6.1")).unwrap().info().bridge);
    }

    #[test]
    fn debug_kernels_and_those_with_modules_of_ones_own_are_used_when_they_are_asked_for() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::at(directory.path()).unwrap();
        let plain = info("6.1.1", DriverMode::Module);
        publish(&cache, "a", &ImageInfo { debug: true, ..plain.clone() });
        let error = cache.find(&Wanted::default()).unwrap_err().to_string();
        assert!(!error.contains("--debug"), "{error}");
        let debug = Wanted { debug: true, ..Wanted::default() };
        assert!(cache.find(&debug).unwrap().info().debug);

        let virtual_time = Wanted { virtual_time: true, ..debug };
        let error = cache.find(&virtual_time).unwrap_err().to_string();
        assert!(error.contains("--debug --virtual"), "{error}");
        publish(&cache, "c", &ImageInfo { debug: true, virtual_time: true, ..plain.clone() });
        assert!(cache.find(&virtual_time).unwrap().info().virtual_time);
        assert!(!cache.find(&debug).unwrap().info().virtual_time);

        publish(&cache, "b", &ImageInfo { own_modules: vec!["mine".into()], ..plain });
        assert!(cache.find(&Wanted::default()).is_err());
        let own_module = Some("mine");
        assert!(cache.find(&Wanted { own_module, ..Wanted::default() }).is_ok());
        let error = cache.find(&Wanted { own_module, ..debug }).unwrap_err().to_string();
        assert!(error.contains("--debug --module DIR"), "{error}");
    }

    #[test]
    fn a_kernel_with_more_drivers_is_used_where_there_is_none_without() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::at(directory.path()).unwrap();
        let more_drivers = Wanted { more_drivers: true, ..Wanted::default() };
        let plain = info("6.1.1", DriverMode::Module);
        publish(&cache, "a", &plain);
        let error = cache.find(&more_drivers).unwrap_err().to_string();
        assert!(error.contains("--more-drivers"), "{error}");

        let built_later = ImageInfo { built_at_s: plain.built_at_s + 1, ..plain };
        publish(&cache, "b", &ImageInfo { more_drivers: true, ..built_later.clone() });
        assert!(cache.find(&more_drivers).unwrap().info().more_drivers);
        assert!(!cache.find(&Wanted::default()).unwrap().info().more_drivers);

        let newer = ImageInfo { version: "6.12.1".into(), more_drivers: true, ..built_later };
        publish(&cache, "c", &newer);
        assert_eq!(cache.find(&Wanted::default()).unwrap().info().version, "6.12.1");
    }

    #[test]
    fn a_kernel_for_the_kernels_own_tests_is_used_for_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::at(directory.path()).unwrap();
        let plain = info("6.1.1", DriverMode::Module);
        let selftests = Wanted { selftests: true, ..Wanted::default() };
        publish(&cache, "a", &plain);
        let error = cache.find(&selftests).unwrap_err().to_string();
        assert!(error.contains("--selftests"), "{error}");
        let made =
            ImageInfo { version: "6.12.1".into(), more_drivers: true, selftests: true, ..plain };
        publish(&cache, "b", &made);
        assert!(cache.find(&selftests).unwrap().info().selftests);
        assert_eq!(cache.find(&Wanted::default()).unwrap().info().version, "6.1.1");
        let more_drivers = Wanted { more_drivers: true, ..Wanted::default() };
        assert!(cache.find(&more_drivers).is_err());
    }

    #[test]
    fn publishing_replaces_and_an_unfinished_build_is_not_an_image() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::at(directory.path()).unwrap();
        publish(&cache, "a", &info("6.1.1", DriverMode::Module));
        publish(&cache, "a", &info("6.1.2", DriverMode::Module));
        let unfinished = cache.staging().unwrap();
        Image::describe(unfinished.path(), &info("9.9.9", DriverMode::Module)).unwrap();
        let versions: Vec<_> =
            cache.images().unwrap().iter().map(|image| image.info().version.clone()).collect();
        assert_eq!(versions, ["6.1.2"]);
        drop(unfinished);
        assert_eq!(fs::read_dir(cache.kernels()).unwrap().count(), 1);
    }

    #[test]
    fn two_builds_of_one_thing_take_turns() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::at(directory.path()).unwrap();
        let cancel = Cancel::new();
        let held = cache.lock("key", &cancel, || panic!("nobody holds it")).unwrap();
        let mut waited = 0;
        let result = cache.lock("key", &cancel, || {
            waited += 1;
            cancel.cancel();
        });
        assert!(matches!(result, Err(KernelError::Cancelled)));
        assert_eq!(waited, 1);
        drop(held);
        cache.lock("key", &Cancel::new(), || panic!("nobody holds it")).unwrap();
    }
}
