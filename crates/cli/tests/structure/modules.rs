//! The modules of a crate, and what the names in each of them stand for.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use syn::{Attribute, Item, ItemMod, UseTree, Visibility};

/// The number of a module in its [`Crate`].
pub(crate) type ModuleId = usize;

/// The segments of a path in code.
pub(crate) type Names = Vec<String>;

/// A path of a `use`, and the name that it gives; `None` if it imports every name there.
pub(crate) type Leaf = (Names, Option<String>);

/// What a name in a module stands for. A name can stand for several: a function beside a module.
pub(crate) enum Meaning {
    /// Something that is defined in the module itself.
    Item,
    /// A module.
    Module(ModuleId),
    /// What this path leads to, as a `use` says.
    Import(Names),
}

/// One module, in a file of its own or in that of its parent.
pub(crate) struct Module {
    pub(crate) file: PathBuf,
    pub(crate) parent: Option<ModuleId>,
    pub(crate) items: Vec<Item>,
    pub(crate) names: BTreeMap<String, Vec<Meaning>>,
    /// Paths of which every name is imported.
    pub(crate) globs: Vec<Names>,
}

/// All modules of a crate; the first is its root.
#[derive(Default)]
pub(crate) struct Crate {
    pub(crate) modules: Vec<Module>,
}

impl Crate {
    /// Reads the crate whose root is this file. Tests are left out.
    pub(crate) fn read(root: &Path, source: &dyn Fn(&Path) -> Option<String>) -> Crate {
        let mut all = Crate::default();
        let items = parse(root, source);
        let children = root.parent().expect("a file is in a directory").to_owned();
        all.add(root.to_owned(), children, None, items, source);
        all
    }

    /// Adds a module and all below it. Files of its children are in `children`.
    fn add(
        &mut self,
        file: PathBuf,
        children: PathBuf,
        parent: Option<ModuleId>,
        items: Vec<Item>,
        source: &dyn Fn(&Path) -> Option<String>,
    ) -> ModuleId {
        let id = self.modules.len();
        let (names, globs) = (BTreeMap::new(), Vec::new());
        self.modules.push(Module { file: file.clone(), parent, items: Vec::new(), names, globs });
        let mut kept = Vec::new();
        for item in items {
            if is_for_tests(attributes(&item)) {
                continue;
            }
            let Item::Mod(ItemMod { ident, content, .. }) = item else {
                self.modules[id].name(&item);
                kept.push(item);
                continue;
            };
            let below = children.join(ident.to_string());
            let child = match content {
                Some((_, items)) => self.add(file.clone(), below, Some(id), items, source),
                None => {
                    let candidates = [below.with_extension("rs"), below.join("mod.rs")];
                    let found = candidates.into_iter().find(|path| source(path).is_some());
                    let found = found.unwrap_or_else(|| panic!("no file of module {ident}"));
                    let items = parse(&found, source);
                    self.add(found, below, Some(id), items, source)
                }
            };
            self.modules[id].mean(ident.to_string(), Meaning::Module(child));
        }
        self.modules[id].items = kept;
        id
    }
}

impl Module {
    fn mean(&mut self, name: String, meaning: Meaning) {
        self.names.entry(name).or_default().push(meaning);
    }

    /// Notes what an item gives names to.
    fn name(&mut self, item: &Item) {
        let ident = match item {
            Item::Const(item) => &item.ident,
            Item::Enum(item) => &item.ident,
            Item::Fn(item) => &item.sig.ident,
            Item::Static(item) => &item.ident,
            Item::Struct(item) => &item.ident,
            Item::Trait(item) => &item.ident,
            Item::Type(item) => &item.ident,
            Item::Union(item) => &item.ident,
            Item::Use(item) => return self.import(leaves(&item.tree)),
            _ => return,
        };
        self.mean(ident.to_string(), Meaning::Item);
    }

    /// Notes what a `use` gives names to.
    pub(crate) fn import(&mut self, leaves: Vec<Leaf>) {
        for (path, name) in leaves {
            match name {
                Some(name) => self.mean(name, Meaning::Import(path)),
                None => self.globs.push(path),
            }
        }
    }
}

/// The paths of a `use`.
pub(crate) fn leaves(tree: &UseTree) -> Vec<Leaf> {
    match tree {
        UseTree::Path(path) => {
            let mut below = leaves(&path.tree);
            let of = path.ident.to_string();
            for (names, given) in &mut below {
                if names.is_empty() && given.as_deref() == Some("self") {
                    *given = Some(of.clone());
                }
                names.insert(0, of.clone());
            }
            below
        }
        UseTree::Group(group) => group.items.iter().flat_map(leaves).collect(),
        UseTree::Name(name) if name.ident == "self" => vec![(Vec::new(), Some("self".into()))],
        UseTree::Rename(name) if name.ident == "self" => {
            vec![(Vec::new(), Some(name.rename.to_string()))]
        }
        UseTree::Name(name) => vec![(vec![name.ident.to_string()], Some(name.ident.to_string()))],
        UseTree::Rename(name) => {
            vec![(vec![name.ident.to_string()], Some(name.rename.to_string()))]
        }
        UseTree::Glob(_) => vec![(Vec::new(), None)],
    }
}

fn parse(path: &Path, source: &dyn Fn(&Path) -> Option<String>) -> Vec<Item> {
    let text = source(path).unwrap_or_else(|| panic!("cannot read {}", path.display()));
    let file = syn::parse_file(&text);
    file.unwrap_or_else(|error| panic!("{}: {error}", path.display())).items
}

/// Whether this is compiled for tests only.
pub(crate) fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let condition = attribute.meta.require_list().ok().map(|list| list.tokens.to_string());
        attribute.path().is_ident("cfg") && condition.as_deref() == Some("test")
    })
}

/// Whether a `use` gives its names to others.
pub(crate) fn is_shown(visibility: &Visibility) -> bool {
    !matches!(visibility, Visibility::Inherited)
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}
