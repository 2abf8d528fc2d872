//! With what hypervisors are started, so that they come for a card.
//!
//! The guest's memory must be shared: what is not is asked for by messages, which is slow, and which QEMU answers in
//! another form than the specification's (`hw/vfio-user/protocol.h`, `VFIOUserDMARW`).

use std::path::Path;

/// Arguments for QEMU from 10.1 on, as a shell takes them.
pub fn qemu_arguments(socket: &Path) -> String {
    let path = serde_json::Value::from(socket.to_string_lossy());
    let device =
        format!(r#"{{"driver":"vfio-user-pci","socket":{{"type":"unix","path":{path}}}}}"#);
    format!(
        "-machine q35,memory-backend=ram -object memory-backend-memfd,id=ram,size=1G,share=on -m 1G -device {}",
        quoted(&device)
    )
}

/// Arguments for Cloud Hypervisor, as a shell takes them.
pub fn cloud_hypervisor_arguments(socket: &Path) -> String {
    let device = format!("socket={}", socket.display());
    format!("--memory size=1G,shared=on --user-device {}", quoted(&device))
}

/// In single quotation marks.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_reaches_the_hypervisor_whatever_is_in_it() {
        let path = Path::new(r#"/run/a "card"'s.sock"#);
        let qemu = qemu_arguments(path);
        let device = qemu.split_once("-device ").unwrap().1;
        let text = device.replace(r"'\''", "\u{0}").replace('\'', "").replace('\u{0}', "'");
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["socket"]["path"], path.to_str().unwrap());
        let cloud = cloud_hypervisor_arguments(Path::new("/run/card.sock"));
        assert_eq!(cloud, "--memory size=1G,shared=on --user-device 'socket=/run/card.sock'");
    }
}
