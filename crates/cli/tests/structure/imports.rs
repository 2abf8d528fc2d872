//! Which file of a crate uses what another file of it defines.
//!
//! Counted are `use` and paths in code, within macros as well. A name leads to the file that defines it,
//! through whatever re-exports. `mod child;` uses nothing, a re-export by itself uses nothing, and a module
//! that is imported is used as far as something in it is.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::buffer::{Cursor, TokenBuffer};
use syn::visit::{self, Visit};
use syn::{Attribute, ImplItem, Item, ItemUse, Macro, Stmt, Visibility};

use crate::modules::{Crate, Leaf, Meaning, ModuleId, Names, is_for_tests, is_shown, leaves};

/// For each two files the names by which the first uses the second.
pub(crate) type Imports = BTreeMap<(PathBuf, PathBuf), BTreeSet<String>>;

/// What the files of the crate whose root is this file use of each other.
pub(crate) fn imports(root: &Path, source: &dyn Fn(&Path) -> Option<String>) -> Imports {
    let mut all = Crate::read(root, source);
    for module in &mut all.modules {
        let mut local = LocalImports::default();
        module.items.iter().for_each(|item| local.visit_item(item));
        module.import(local.0);
    }
    let mut found = Imports::new();
    for (id, module) in all.modules.iter().enumerate() {
        let mut paths = Paths::default();
        module.items.iter().for_each(|item| paths.visit_item(item));
        for names in paths.0 {
            for used in all.defines(id, &names) {
                if used != &module.file {
                    let between = (module.file.clone(), used.clone());
                    found.entry(between).or_default().insert(names.join("::"));
                }
            }
        }
    }
    found
}

impl Crate {
    /// The files that define what these names lead to from a module.
    fn defines(&self, from: ModuleId, names: &[String]) -> BTreeSet<&PathBuf> {
        let mut found = BTreeSet::new();
        self.follow(from, names, &mut Vec::new(), &mut found);
        found
    }

    /// `passed` are the imports that were followed on the way here.
    fn follow<'c>(
        &'c self,
        from: ModuleId,
        names: &[String],
        passed: &mut Vec<(ModuleId, &'c [String])>,
        found: &mut BTreeSet<&'c PathBuf>,
    ) {
        let Some((first, rest)) = names.split_first() else { return };
        let module = &self.modules[from];
        match first.as_str() {
            "crate" => return self.follow(0, rest, passed, found),
            "self" => return self.follow(from, rest, passed, found),
            "super" => {
                let parent = module.parent.expect("the root has no parent");
                return self.follow(parent, rest, passed, found);
            }
            _ => {}
        }
        let Some(meanings) = module.names.get(first) else {
            for glob in &module.globs {
                self.follow_import(from, glob, names, passed, found);
            }
            return;
        };
        for meaning in meanings {
            match meaning {
                Meaning::Item => drop(found.insert(&module.file)),
                Meaning::Module(child) => self.follow(*child, rest, passed, found),
                Meaning::Import(path) => self.follow_import(from, path, rest, passed, found),
            }
        }
    }

    fn follow_import<'c>(
        &'c self,
        from: ModuleId,
        path: &'c [String],
        rest: &[String],
        passed: &mut Vec<(ModuleId, &'c [String])>,
        found: &mut BTreeSet<&'c PathBuf>,
    ) {
        if !passed.contains(&(from, path)) {
            passed.push((from, path));
            self.follow(from, &[path, rest].concat(), passed, found);
            passed.pop();
        }
    }
}

/// The imports within functions; their names are taken for names of the module.
#[derive(Default)]
struct LocalImports(Vec<Leaf>);

impl Visit<'_> for LocalImports {
    fn visit_stmt(&mut self, statement: &Stmt) {
        if let Stmt::Item(Item::Use(local)) = statement {
            self.0.extend(leaves(&local.tree));
        }
        visit::visit_stmt(self, statement);
    }
}

/// All paths of a piece of code, but for tests.
#[derive(Default)]
struct Paths(Vec<Names>);

impl Paths {
    /// The paths among the tokens of a macro.
    fn scan(&mut self, mut at: Cursor<'_>) {
        let mut names = Names::new();
        let mut colons = 0;
        while !at.eof() {
            if let Some((ident, next)) = at.ident() {
                if colons != 2 {
                    self.take(&mut names);
                }
                names.push(ident.to_string());
                (colons, at) = (0, next);
            } else if let Some((_, next)) = at.punct().filter(|(punct, _)| punct.as_char() == ':') {
                (colons, at) = (colons + 1, next);
            } else if let Some((within, _, _, next)) = at.any_group() {
                self.take(&mut names);
                self.scan(within);
                (colons, at) = (0, next);
            } else if let Some((_, next)) = at.token_tree() {
                self.take(&mut names);
                (colons, at) = (0, next);
            }
        }
        self.take(&mut names);
    }

    fn take(&mut self, names: &mut Names) {
        if !names.is_empty() {
            self.0.push(std::mem::take(names));
        }
    }
}

impl Visit<'_> for Paths {
    fn visit_path(&mut self, path: &syn::Path) {
        self.0.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, code: &Macro) {
        self.visit_path(&code.path);
        self.scan(TokenBuffer::new2(code.tokens.clone()).begin());
    }

    fn visit_item_use(&mut self, import: &ItemUse) {
        if !is_shown(&import.vis) {
            self.0.extend(leaves(&import.tree).into_iter().map(|(names, _)| names));
        }
    }

    fn visit_impl_item(&mut self, item: &ImplItem) {
        let attributes: &[Attribute] = match item {
            ImplItem::Const(item) => &item.attrs,
            ImplItem::Fn(item) => &item.attrs,
            ImplItem::Type(item) => &item.attrs,
            _ => &[],
        };
        if !is_for_tests(attributes) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_attribute(&mut self, _: &Attribute) {}

    fn visit_visibility(&mut self, _: &Visibility) {}
}
