//! What is known of code that a C compiler has made: names of places, members of structures.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use warikomi_debugger::{Code, Place, PlaceError, Program, Variable};

const SOURCE: &str = r#"
#include "warikomi_here.h"

struct list { struct list *next, *prev; };
struct card { char name[16]; struct list list; union { long a; struct { int b; }; }; unsigned long state; };
struct other { long state; };
struct card first_card;
static int hidden;

static inline __attribute__((always_inline)) int inner(int a)
{
    warikomi_here(inner);
    return a * 2;
}

int outer(int a, struct other *other)
{
    a = inner(a);
    first_card.state = a;
    warikomi_here(outer_2);
    return inner(a) + other->state + hidden++;
}
"#;

/// An object, or a library with addresses of its own.
fn compiled(into: &Path, flags: &[&str]) -> PathBuf {
    let (source, object) = (into.join("a.c"), into.join("a.o"));
    fs::write(&source, SOURCE).unwrap();
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include");
    let mut cc = Command::new("cc");
    cc.args(["-g", "-O2", "-fPIC", "-Wall", "-Werror"]).args(flags).arg("-I").arg(include);
    let status = cc.arg(&source).arg("-o").arg(&object).status().unwrap();
    assert!(status.success());
    object
}

/// The code of an object whose text lies at this address.
fn object(text: u64) -> Code {
    let directory = tempfile::tempdir().unwrap();
    let object = compiled(directory.path(), &["-c"]);
    let loaded = |section: &str| match section {
        ".text" => Some(text),
        ".bss" | ".data" => Some(0x20_0000),
        _ => None,
    };
    Code::of_module("a", &object, loaded).unwrap()
}

#[test]
fn places_that_the_source_names_are_found_in_objects_and_in_linked_programs() {
    const TEXT: u64 = 0x10_0000;
    let directory = tempfile::tempdir().unwrap();
    let library = compiled(directory.path(), &["-shared"]);
    for code in [object(TEXT), Code::of_program("a", &library).unwrap()] {
        let marks = code.marks().to_vec();
        let names: Vec<_> = marks.iter().map(|mark| mark.name.as_str()).collect();
        assert_eq!(names, ["inner", "outer_2", "inner"]);
        let program = Program { parts: vec![code.into()] };
        let location = program.locate(marks[0].address);
        assert_eq!(location.function.as_ref().unwrap().0, "outer");
        assert_eq!(location.inlined, ["inner"]);
        let outer = &program.parts[0].functions().iter().find(|f| f.name == "outer").unwrap();
        let instructions = program.parts[0].instructions(outer);
        assert!(marks.iter().all(|mark| instructions.contains(&mark.address)), "{marks:x?}");

        let named = |name: &str| program.resolve(&Place::Mark { name: name.to_owned() });
        assert_eq!(named("inner").unwrap(), [marks[0].address, marks[2].address]);
        assert_eq!(named("outer_2").unwrap(), [marks[1].address]);
        let error = named("outer").unwrap_err();
        assert!(matches!(error, PlaceError::NoMark { .. }));
        assert!(error.to_string().ends_with("it gives: inner, outer_2"), "{error}");
    }
}

#[test]
fn what_the_loader_has_not_kept_has_no_place() {
    let directory = tempfile::tempdir().unwrap();
    let object = compiled(directory.path(), &["-c"]);
    let code = Code::of_module("a", &object, |_| None).unwrap();
    assert_eq!(code.marks(), []);
    let named = Program { parts: vec![code.into()] }.resolve(&"here:inner".parse().unwrap());
    assert_eq!(named, Err(PlaceError::NoMarks));
}

#[test]
fn members_of_structures_and_variables_are_where_the_compiler_has_put_them() {
    let code = object(0x10_0000);
    assert_eq!(code.offset_of("card", "name"), Some(0));
    assert_eq!(code.offset_of("card", "list"), Some(16));
    assert_eq!(code.offset_of("card", "state"), Some(40));
    assert_eq!(code.offset_of("other", "state"), Some(0));
    assert_eq!(code.offset_of("other", "name"), None);
    assert_eq!(code.offset_of("nothing", "state"), None);
    assert_eq!(code.size_of("card"), Some(48));
    assert_eq!(code.size_of("nothing"), None);
    let first = Variable { address: 0x20_0000, bytes: 48 };
    assert_eq!(code.variable("first_card"), Some(first));
    assert!(code.variable("hidden").is_some_and(|variable| variable.address > 0x20_0000));
    assert_eq!(code.variable("outer"), None);
}
