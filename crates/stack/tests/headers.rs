//! The headers for C and C++: `include/warikomi_layout.h` and `kernel/bridge/warikomi_bridge.h` have every
//! constant that the Rust definitions have, and all headers are valid in both languages.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use cbindgen::{Builder, Config, DocumentationStyle, ExportConfig, Language};
use quote::{ToTokens, quote};
use syn::{Attribute, Expr, Item, ItemConst, Lit, Meta, Visibility};

/// A header that is made from Rust.
struct Header {
    /// Below the workspace's root.
    path: &'static str,
    license: &'static str,
    guard: &'static str,
    sources: &'static [Source],
}

const HEADERS: [Header; 2] = [
    Header {
        path: "include/warikomi_layout.h",
        license: "Apache-2.0 OR MIT",
        guard: "WARIKOMI_LAYOUT_H",
        sources: SOURCES,
    },
    Header {
        path: "kernel/bridge/warikomi_bridge.h",
        license: "GPL-2.0 OR MIT",
        guard: "WARIKOMI_BRIDGE_H",
        sources: &[
            Source { path: "pci/src/attach/bridge.rs", prefix: "WB_", modules: &[] },
            Source { path: "pci/src/attach/access.rs", prefix: "WB_ACCESS_", modules: &[] },
        ],
    },
];
const UPDATE: &str = "UPDATE_HEADERS=1 cargo test -p warikomi-stack --test headers layout";

/// A Rust file with constants that other processes must know: all that are visible outside it or its modules.
struct Source {
    /// Below `crates`.
    path: &'static str,
    /// What their names begin with in C.
    prefix: &'static str,
    /// Modules whose constants' names begin with something else than `prefix` and the module's name.
    modules: &'static [(&'static str, &'static str)],
}

const SOURCES: &[Source] = &[
    Source { path: "shared/src/handover.rs", prefix: "WK_", modules: &[] },
    Source {
        path: "pci/src/attach/layout.rs",
        prefix: "WK_",
        modules: &[("bells", "WK_"), ("orders", "WK_ORDER_"), ("times", "WK_TIME_")],
    },
    Source { path: "pci/src/attach/access.rs", prefix: "WK_ACCESS_", modules: &[] },
    Source {
        path: "pci/src/attach/area.rs",
        prefix: "WK_AREA_",
        modules: &[("counters", "WK_COUNTER_"), ("how", "WK_HOW_")],
    },
    Source { path: "stack/src/memory.rs", prefix: "WK_PACKETS_", modules: &[] },
    Source {
        path: "stack/src/channel.rs",
        prefix: "WK_CHANNEL_",
        modules: &[("words", "WK_CHANNEL_")],
    },
    Source { path: "stack/src/entry.rs", prefix: "WK_", modules: &[("flags", "WK_")] },
    Source {
        path: "stack/src/socket.rs",
        prefix: "WK_SOCKET_",
        modules: &[("orders", "WK_SOCKET_ORDER_")],
    },
    Source { path: "stack/src/invitation.rs", prefix: "WK_INVITATION_", modules: &[] },
];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn is_visible(visibility: &Visibility) -> bool {
    !matches!(visibility, Visibility::Inherited)
}

/// The lines of a doc comment, each as a comment in C.
fn comment(attributes: &[Attribute]) -> String {
    let line = |attribute: &Attribute| match &attribute.meta {
        Meta::NameValue(meta) if meta.path.is_ident("doc") => match &meta.value {
            Expr::Lit(doc) => match &doc.lit {
                Lit::Str(text) => Some(format!("//{}\n", text.value())),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    };
    attributes.iter().filter_map(line).collect()
}

/// What cbindgen makes of constants that are whole numbers.
fn numbers(constants: &[ItemConst], prefix: &str) -> String {
    let mut source = tempfile::NamedTempFile::new().unwrap();
    source.write_all(quote!(#(#constants)*).to_string().as_bytes()).unwrap();
    let config = Config {
        language: Language::C,
        no_includes: true,
        documentation_style: DocumentationStyle::C99,
        export: ExportConfig { prefix: Some(prefix.to_owned()), ..ExportConfig::default() },
        ..Config::default()
    };
    let mut text = Vec::new();
    let bindings = Builder::new().with_config(config).with_src(source.path()).generate();
    bindings.expect("Rust that compiles can be read").write(&mut text);
    let text = String::from_utf8(text).unwrap();
    // It leaves out, with a warning that nobody sees, what it does not understand.
    assert_eq!(text.matches("#define ").count(), constants.len(), "{text}");
    text.trim().replace("\n\n", "\n") + "\n"
}

/// The visible constants among `items`. Each must be a literal: what an expression is worth depends on the
/// language (`1 << 31` is negative in C), and cbindgen evaluates none.
fn section(items: &[Item], prefix: &str) -> String {
    let mut whole = Vec::new();
    let mut texts = String::new();
    for item in items {
        let Item::Const(constant) = item else { continue };
        // A place is put together from constants that stand beside it.
        let kind = constant.ty.to_token_stream().to_string();
        let place = ["AnswerPlace", "MessagePlace", "RingPlace"].contains(&kind.as_str());
        if place || !is_visible(&constant.vis) {
            continue;
        }
        let name = &constant.ident;
        let literal = match &*constant.expr {
            Expr::Lit(literal) => &literal.lit,
            _ => panic!("{prefix}{name}: write it as a literal, so that C says the same"),
        };
        let text = match literal {
            Lit::Int(_) => {
                let vis = Visibility::Public(Default::default());
                whole.push(ItemConst { vis, ..constant.clone() });
                continue;
            }
            Lit::Str(text) => text.value(),
            Lit::ByteStr(bytes) => String::from_utf8(bytes.value()).expect("ASCII"),
            _ => panic!("{prefix}{name} is neither a whole number nor a text"),
        };
        texts += &format!("{}#define {prefix}{name} {text:?}\n", comment(&constant.attrs));
    }
    numbers(&whole, prefix) + &texts
}

/// A part of the header for each module, and one for what stands outside of modules.
fn sections(rust: &str, source: &Source) -> String {
    let items = syn::parse_file(rust).unwrap().items;
    let mut text = section(&items, source.prefix);
    for item in &items {
        let Item::Mod(module) = item else { continue };
        let Some((_, inner)) = module.content.as_ref().filter(|_| is_visible(&module.vis)) else {
            continue;
        };
        let name = module.ident.to_string();
        let own = source.modules.iter().find(|(of, _)| *of == name);
        let prefix = own.map_or_else(
            || format!("{}{}_", source.prefix, name.to_uppercase()),
            |(_, prefix)| (*prefix).to_owned(),
        );
        let title = comment(&module.attrs);
        text += &format!("\n// {name}:\n{title}\n{}", section(inner, &prefix));
    }
    text.trim_start().to_owned()
}

/// Rust's links to other items are none in C.
fn without_links(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, link)) = rest.split_once("[`") {
        let (name, after) = link.split_once("`]").expect("a link ends");
        plain += &format!("{before}`{name}`");
        let target = after.strip_prefix('(').and_then(|target| target.split_once(')'));
        rest = target.map_or(after, |(_, rest)| rest);
    }
    plain + rest
}

fn made(header: &Header) -> String {
    let Header { license, guard, .. } = header;
    let mut text = format!(
        "/* SPDX-License-Identifier: {license}\n *\n \
         * What lies where in the memory that processes share, and what the numbers there mean. Places are\n \
         * numbers of 64-bit words unless they say bytes.\n *\n \
         * Made from the Rust definitions; do not edit it, but write it anew:\n \
         *     {UPDATE}\n */\n\
         #ifndef {guard}\n#define {guard}\n"
    );
    for source in header.sources {
        let path = source.path;
        let rust = fs::read_to_string(root().join("crates").join(path))
            .unwrap_or_else(|error| panic!("crates/{path}: {error}"));
        let sections = without_links(&sections(&rust, source));
        assert!(sections.contains("#define "), "crates/{path} has no constants for C");
        text += &format!("\n/* ==== crates/{path} ==== */\n\n{sections}");
    }
    text + &format!("\n#endif /* {guard} */\n")
}

fn defined(header: &str) -> Vec<&str> {
    header
        .lines()
        .filter_map(|line| line.strip_prefix("#define "))
        .filter_map(|line| line.split(' ').next())
        .collect()
}

#[test]
fn the_layout_is_current() {
    for header in &HEADERS {
        is_current(header);
    }
}

fn is_current(header: &Header) {
    let made = made(header);
    let path = root().join(header.path);
    if std::env::var_os("UPDATE_HEADERS").is_some() {
        fs::write(&path, &made).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap();
    let differs = kept.lines().zip(made.lines()).position(|(kept, made)| kept != made);
    assert!(
        kept == made,
        "{} is not what the Rust definitions say (from line {}): {UPDATE}",
        header.path,
        differs.unwrap_or(kept.lines().count().min(made.lines().count())) + 1
    );
    let names = defined(&made);
    let different: BTreeSet<_> = names.iter().collect();
    assert_eq!(names.len(), different.len(), "two constants have one name in C: {names:?}");
}

const SOURCE: Source = Source { path: "", prefix: "WK_", modules: &[("bells", "WK_BELL_")] };

#[test]
fn a_constant_appears_by_itself() {
    let rust = r#"
        /// Which [`VERSION`](super::VERSION).
        pub const VERSION: u64 = 0xff;
        pub(crate) const MAGIC: u64 = 0xcbf2_9ce4_8422_2325;
        const PRIVATE: u64 = 3;
        /// A text.
        pub const HELLO: &[u8] = b"hello\n";
        pub const REQUESTS: RingPlace = RingPlace { head: 1 };
        /// What rings.
        pub mod bells {
            /// One.
            pub const ONE: usize = 1;
        }
        pub mod header { pub const VERSION: usize = 2; }
        mod tests { pub const COUNT: usize = 3; }
    "#;
    let expected = "// Which `VERSION`.\n\
        #define WK_VERSION 255\n\
        #define WK_MAGIC 14695981039346656037ull\n\
        // A text.\n\
        #define WK_HELLO \"hello\\n\"\n\n\
        // bells:\n// What rings.\n\n\
        // One.\n\
        #define WK_BELL_ONE 1\n\n\
        // header:\n\n\
        #define WK_HEADER_VERSION 2\n";
    assert_eq!(without_links(&sections(rust, &SOURCE)), expected);
}

#[test]
#[should_panic(expected = "WK_BIT: write it as a literal")]
fn a_constant_that_c_might_see_otherwise_is_refused() {
    sections("pub const BIT: u64 = 1 << 31;", &SOURCE);
}

/// Compiles what is given, every function of it, as a driver's or an application's build would.
fn compile(compiler: &str, language: &str, standard: &str, source: &str) {
    let mut child = Command::new(compiler)
        .args([standard, "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O2"])
        .args(["-fkeep-inline-functions", "-c", "-o", "/dev/null", "-x", language, "-", "-I"])
        .arg(root().join("include"))
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| {
            panic!("cannot run {compiler}: {error}; scripts/setup test installs it")
        });
    child.stdin.take().unwrap().write_all(source.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{compiler} {standard}:\n{source}{said}");
}

#[test]
fn each_header_and_all_together_are_c11_and_cxx17() {
    // ISO C wants a declaration in every file, and macros are none.
    let include = |name: &str| format!("#include \"{name}\"\nextern int declared;\n");
    let files = fs::read_dir(root().join("include")).unwrap();
    let mut sources: Vec<String> =
        files.map(|file| include(file.unwrap().file_name().to_str().unwrap())).collect();
    assert!(sources.contains(&include("warikomi_layout.h")) && sources.len() > 1, "{sources:?}");
    sources.sort();
    sources.push(sources.concat());
    for source in sources {
        compile("cc", "c", "-std=c11", &source);
        compile("g++", "c++", "-std=c++17", &source);
    }
}
