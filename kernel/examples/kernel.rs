//! Scratch.
use warikomi_kernel::*;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let cache = Cache::of_this_user().unwrap();
    let source = if args[1].starts_with('/') {
        Source::Tree(args[1].clone().into())
    } else {
        Source::Distribution { version: Some(args[1].clone()) }
    };
    let drivers = if args.iter().any(|a| a == "--builtin") {
        DriverMode::BuiltIn
    } else {
        DriverMode::Module
    };
    let force = args.iter().any(|a| a == "--force");
    let mut last = String::new();
    let image = build(
        &cache,
        &BuildOptions { source, drivers, jobs: None, force },
        &Cancel::new(),
        &mut |p| {
            if p.done % 100 == 0 && last != p.what {
                eprintln!("{}/{} {}", p.done, p.total, p.what);
                last = p.what.to_owned();
            }
        },
    );
    match image {
        Ok(image) => {
            println!(
                "{} {:#?} {} bytes",
                image.directory().display(),
                image.info(),
                image.size_bytes()
            );
            println!("{:#?}", inspect(&image.kernel()));
        }
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1)
        }
    }
}
