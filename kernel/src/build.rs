//! Building an image.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::bridge;
use crate::cache::Cache;
use crate::config::{DriverMode, Fragment, ImageKind, drivers_of};
use crate::error::{FileContext, KernelError, Result};
use crate::hash::fnv1a;
use crate::image::{self, Image, ImageInfo};
use crate::make::{Cancel, Counter, Progress, Runner};
use crate::own::{OwnModules, modules_of};
use crate::source::{Found, Source, kernel_version};
use crate::tools;

/// Objects of a first build; later ones know better. Counted on 6.1 and 6.12.
const ESTIMATED_STEPS: u32 = 1080;

/// The user cannot correct the distribution's sources, and warnings cost time.
const QUIET: &str = "KCFLAGS=-w -Wno-all";

/// What the caller's environment may hold that would bend the build.
const OUTER: [&str; 14] = [
    "ARCH",
    "CC",
    "CFLAGS",
    "CROSS_COMPILE",
    "GNUMAKEFLAGS",
    "KBUILD_OUTPUT",
    "KCFLAGS",
    "KCONFIG_CONFIG",
    "LD",
    "LOCALVERSION",
    "MAKEFLAGS",
    "MAKELEVEL",
    "MFLAGS",
    "O",
];

/// Options of a build.
#[derive(Debug, Clone, Default)]
pub struct BuildOptions {
    /// From what.
    pub source: Source,
    /// With the NIC drivers where.
    pub drivers: DriverMode,
    /// With the drivers of further cards ([`needs_more_drivers`](crate::needs_more_drivers)).
    pub more_drivers: bool,
    /// With what the kernel's own tests of NICs need, and the drivers of further cards.
    pub selftests: bool,
    /// A kernel that finds its own mistakes (locks, memory), with debug information.
    pub debug: bool,
    /// A kernel whose time can be virtual.
    pub virtual_time: bool,
    /// Directories of modules to compile with it, each with a Kbuild or Makefile; they stay as they are.
    pub modules: Vec<PathBuf>,
    /// Compilers at a time; as many as there are processors, where it is not said.
    pub jobs: Option<usize>,
    /// Builds even if the image is there already.
    pub force: bool,
}

/// Makes an image, or finds it in the cache.
///
/// An image of a distribution's package is built once. One of a developer's tree is made anew each
/// time, but only what changed is compiled.
///
/// Calls `progress` often. Ends soon after `cancel` is set, with every process of the build ended;
/// the caller's signal handler should set it, because the build runs in a process group of its own
/// that Ctrl-C does not reach.
pub fn build(
    cache: &Cache,
    options: &BuildOptions,
    cancel: &Cancel,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Image> {
    let found = Found::look_up(&options.source)?;
    let BuildOptions { drivers, more_drivers, selftests, debug, virtual_time, .. } = *options;
    let kind = ImageKind { drivers, more_drivers, selftests, debug, virtual_time };
    let fragment = Fragment::new(kind);
    let own = OwnModules::look_up(&options.modules)?;
    let key = Key::new(&found, &fragment, &own)?;
    let known = cache.images()?.into_iter().find(|image| key.is_of(image.info()));
    if let (Found::Archive { .. }, Some(image), false) = (&found, &known, options.force) {
        return image.clone().with_current_agent();
    }
    tools::check_tools()?;
    let steps = known.as_ref().map_or(ESTIMATED_STEPS, |image| image.info().steps);
    let mut counter = Counter::new(steps, progress);
    let _lock = cache.lock(&key.name(), cancel, || {
        counter.phase("waiting for another build of the same kernel");
    })?;
    // While this one waited, the other may have built it.
    let now = cache.images()?.into_iter().find(|image| key.is_of(image.info()));
    if let (Found::Archive { .. }, None, Some(image)) = (&found, &known, now) {
        return image.with_current_agent();
    }
    let log = cache.log(&key.name());
    let (found, fragment, key, own) = (&found, &fragment, &key, &own);
    let build = Build { cache, options, found, fragment, key, log: &log, own };
    let runner = Runner::new(&log, cancel)?;
    build.run(runner, counter)
}

/// Where the sources of a kernel stand: a package's are unpacked into the cache.
pub fn source_tree(cache: &Cache, source: &Source, cancel: &Cancel) -> Result<PathBuf> {
    let log = cache.log("sources");
    Found::look_up(source)?.prepare(cache, &mut Runner::new(&log, cancel)?)
}

/// What an image is kept under, as far as it is known before the sources are.
struct Key {
    hash: String,
    source: String,
}

impl Key {
    fn new(found: &Found, fragment: &Fragment, own: &OwnModules) -> Result<Self> {
        // Two trees of one version are two kernels; two states of a package as well.
        let text = format!("{:016x} {}{}", found.identity()?, fragment.hash(), own.hash());
        Ok(Self {
            hash: format!("{:012x}", fnv1a(text.as_bytes()) >> 16),
            source: found.description(),
        })
    }

    fn is_of(&self, info: &ImageInfo) -> bool {
        info.config_hash == self.hash && info.source == self.source
    }

    fn name(&self) -> String {
        self.hash.clone()
    }
}

struct Build<'a> {
    cache: &'a Cache,
    options: &'a BuildOptions,
    found: &'a Found,
    fragment: &'a Fragment,
    key: &'a Key,
    log: &'a Path,
    own: &'a OwnModules,
}

impl Build<'_> {
    fn run(&self, mut runner: Runner<'_>, mut counter: Counter<'_>) -> Result<Image> {
        let started = Instant::now();
        counter.phase("preparing the sources");
        let tree = self.found.prepare(self.cache, &mut runner)?;
        let version = kernel_version(&tree)?;
        let staging = self.cache.staging()?;
        // Objects of a package are not needed again; those of a developer's tree are.
        let objects = match self.found {
            Found::Archive { .. } => staging.path().join("objects"),
            Found::Tree(_) => self.cache.builds().join(self.objects_name(&tree)),
        };
        fs::create_dir_all(&objects).at("make the directory", &objects)?;
        let make = Make { tree: &tree, objects: &objects, build: self };
        make.configure(&mut runner, &mut counter, staging.path())?;
        make.compile(&mut runner, &mut counter)?;
        let bridge = make.compile_bridge(&mut runner, &mut counter, staging.path())?;
        let own = make.compile_own(&mut runner, &mut counter, staging.path())?;
        let image = staging.path().join("image");
        let outside: Vec<&Path> = bridge.iter().chain(&own).map(PathBuf::as_path).collect();
        let release = make.install(&mut runner, &mut counter, &image, &outside)?;
        counter.phase("writing the initramfs");
        image::write_initramfs(&image, &release)?;
        let config = fs::read_to_string(image.join("config")).at("read", image.join("config"))?;
        let info = ImageInfo {
            release,
            version: version.clone(),
            source: self.key.source.clone(),
            config_hash: self.key.hash.clone(),
            driver_mode: self.options.drivers,
            more_drivers: self.options.more_drivers || self.options.selftests,
            selftests: self.options.selftests,
            debug: self.options.debug,
            virtual_time: self.options.virtual_time,
            own_modules: modules_of(&own)?,
            drivers: drivers_of(&config),
            bridge: bridge.is_some(),
            bridge_hash: bridge::hash(),
            build_seconds: started.elapsed().as_secs_f64(),
            steps: counter.done(),
            built_at_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs()),
            agent_hash: image::agent_hash(),
        };
        Image::describe(&image, &info)?;
        fs::copy(self.log, image.join("build.log")).at("copy", self.log)?;
        self.retire_older(&version)?;
        self.cache.publish(&image, &format!("{version}-{}", self.key.hash))
    }

    /// A tree that has gone from clean to built in place is built from another path.
    fn objects_name(&self, tree: &Path) -> String {
        let path = fnv1a(tree.as_os_str().as_encoded_bytes());
        format!("{}-{path:016x}", self.key.hash)
    }

    /// A developer's tree that changed its version leaves the image of the old one.
    fn retire_older(&self, version: &str) -> Result<()> {
        for image in self.cache.images()? {
            if self.key.is_of(image.info()) && image.info().version != version {
                fs::remove_dir_all(image.directory()).at("remove", image.directory())?;
            }
        }
        Ok(())
    }
}

/// One tree, one directory of objects.
struct Make<'a> {
    tree: &'a Path,
    objects: &'a Path,
    build: &'a Build<'a>,
}

impl Make<'_> {
    fn command(&self) -> Command {
        let mut make = Command::new(tools::find("make").unwrap_or_else(|| PathBuf::from("make")));
        for name in OUTER {
            make.env_remove(name);
        }
        make.env("LC_ALL", "C")
            // No "+" for a tree that is ahead of its tag, and no run of git in the user's tree.
            .env("LOCALVERSION", "")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("KBUILD_BUILD_USER", "warikomi")
            .env("KBUILD_BUILD_HOST", "warikomi")
            .arg("-C")
            .arg(self.tree)
            .arg("ARCH=um")
            .arg(format!("O={}", self.objects.display()));
        if let Found::Archive { .. } = self.build.found {
            make.arg(QUIET);
        }
        // Kernels of one version that differ in a few options have most objects in common.
        if tools::find("ccache").is_some() {
            make.args(["CC=ccache gcc", "HOSTCC=ccache gcc"]);
        }
        make
    }

    fn configure(
        &self,
        runner: &mut Runner<'_>,
        counter: &mut Counter<'_>,
        staging: &Path,
    ) -> Result<()> {
        counter.phase("configuring");
        let wishes = staging.join("wishes.config");
        fs::write(&wishes, self.build.fragment.text()).at("write", &wishes)?;
        let mut make = self.command();
        make.env("KCONFIG_ALLCONFIG", &wishes).arg("allnoconfig");
        runner.run("make allnoconfig", make, |line| counter.line(line))?;
        let config = self.objects.join(".config");
        let text = fs::read_to_string(&config).at("read", &config)?;
        self.build.fragment.check(&text)
    }

    fn compile(&self, runner: &mut Runner<'_>, counter: &mut Counter<'_>) -> Result<()> {
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        let jobs = self.build.options.jobs.unwrap_or_else(processors).max(1);
        let mut make = self.command();
        make.arg(format!("--jobs={jobs}")).args(["linux", "modules"]);
        runner.run("make linux modules", make, |line| counter.line(line))
    }

    /// The modules of the guest's PCI bridge, and where they were compiled; `None` for a kernel that they do
    /// not compile for, which goes on with virt-pci.
    fn compile_bridge(
        &self,
        runner: &mut Runner<'_>,
        counter: &mut Counter<'_>,
        staging: &Path,
    ) -> Result<Option<PathBuf>> {
        counter.phase("compiling the PCI bridge");
        let directory = staging.join("bridge");
        bridge::write_sources(&directory)?;
        let mut make = self.command();
        make.arg(format!("M={}", directory.display())).arg("modules");
        match runner.run("make the PCI bridge", make, |_| {}) {
            Ok(()) => Ok(Some(directory)),
            Err(KernelError::Step { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The user's own modules, each directory compiled as a copy of it.
    fn compile_own(
        &self,
        runner: &mut Runner<'_>,
        counter: &mut Counter<'_>,
        staging: &Path,
    ) -> Result<Vec<PathBuf>> {
        let mut compiled = Vec::new();
        for number in 0..self.build.own.directories() {
            counter.phase("compiling your modules");
            let directory = staging.join(format!("module-{number}"));
            self.build.own.copy(number, &directory)?;
            let mut make = self.command();
            make.arg(format!("M={}", directory.display())).arg("modules");
            runner.run("make your modules", make, |_| {})?;
            compiled.push(directory);
        }
        Ok(compiled)
    }

    /// Fills the image's directory; gives the kernel's release.
    fn install(
        &self,
        runner: &mut Runner<'_>,
        counter: &mut Counter<'_>,
        image: &Path,
        outside: &[&Path],
    ) -> Result<String> {
        counter.phase("installing");
        let release_file = self.objects.join("include/config/kernel.release");
        let release = fs::read_to_string(&release_file).at("read", &release_file)?;
        let release = release.trim().to_owned();
        let root = image.join("root");
        fs::create_dir_all(&root).at("make the directory", &root)?;
        self.install_modules(runner, &root, None)?;
        for directory in outside {
            self.install_modules(runner, &root, Some(directory))?;
        }
        let installed = root.join("lib/modules");
        let modules = image.join("modules");
        fs::rename(&installed, &modules).at("rename", &installed)?;
        fs::remove_dir_all(&root).at("remove", &root)?;
        // These point back to the trees, which may go.
        for link in ["build", "source"] {
            let _ = fs::remove_file(modules.join(&release).join(link));
        }
        for (from, to) in [("linux", "linux"), (".config", "config")] {
            let from = self.objects.join(from);
            fs::copy(&from, image.join(to)).at("copy", &from)?;
        }
        Ok(release)
    }

    /// Installs the kernel's own modules, or those of a directory outside of its tree, and describes all that
    /// are there then.
    fn install_modules(
        &self,
        runner: &mut Runner<'_>,
        root: &Path,
        outside: Option<&Path>,
    ) -> Result<()> {
        let depmod = tools::find("depmod").unwrap_or_else(|| PathBuf::from("depmod"));
        let mut make = self.command();
        make.arg(format!("INSTALL_MOD_PATH={}", root.display()))
            .arg(format!("DEPMOD={}", depmod.display()));
        if !self.build.options.debug {
            make.arg("INSTALL_MOD_STRIP=1");
        }
        if let Some(directory) = outside {
            make.arg(format!("M={}", directory.display()))
                .arg(format!("INSTALL_MOD_DIR={}", bridge::PLACE));
        }
        make.arg("modules_install");
        runner.run("make modules_install", make, |_| {})
    }
}
