//! Names of what accesses reach.

use crate::Access;

/// The datasheet's name of what an access reaches; its offset where it has none.
pub(crate) fn register_name(model: &str, access: Access) -> String {
    let offset = access.offset;
    let Some(bar) = access.bar else { return format!("configuration {offset:#x}") };
    let model = warikomi_nic::MODELS.iter().find(|info| info.name == model);
    let register = model.and_then(|info| {
        info.registers.iter().find(|register| {
            let begin = u32::from(register.offset);
            register.bar == bar && (begin..begin + u32::from(register.width)).contains(&offset)
        })
    });
    match register {
        Some(register) if offset == u32::from(register.offset) => register.name.to_owned(),
        Some(register) => {
            format!("{}+{}", register.name, offset - u32::from(register.offset))
        }
        None => format!("BAR {bar} {offset:#x}"),
    }
}
